/* Validation across the keys of a configuration.  Main thread; pure. */
#include <string.h>

#include "config_keys.h"
#include "config_report.h"

/* Keys without a default are given. */
static void check_given(struct config_report *r, struct listener_config *l)
{
	char section[CONFIG_SECTION_TEXT_MAX], expected[CONFIG_TEXT_MAX];

	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];

		if (key->section != CONFIG_LISTENER || key->preset ||
		    config_key_origin(key, l)->file)
			continue;
		config_key_expect(key, expected);
		config_report(r, l->section, config_section_text(l, section), key->name,
			      "expected %s, got nothing", expected);
	}
}

/* Keys that one engine has are left alone with the others; with `auto` the engine in use decides.
 */
static void check_engine(struct config_report *r, struct listener_config *l)
{
	char section[CONFIG_SECTION_TEXT_MAX], value[CONFIG_TEXT_MAX];

	for (unsigned i = 0; i < config_key_count && l->engine; i++) {
		const struct config_key *key = &config_keys[i];

		if (!key->engine || !strcmp(key->engine, l->engine->name))
			continue;
		key->type->format(key, l, 0, value);
		if (!strcmp(value, key->preset))
			continue;
		config_report(r, *config_key_origin(key, l), config_section_text(l, section),
			      key->name, "expected %s unless engine is %s, got '%s' (engine is %s)",
			      key->preset, key->engine, value, l->engine->name);
	}
}

static void check_sockets(struct config_report *r, struct listener_config *l)
{
	char section[CONFIG_SECTION_TEXT_MAX], text[ADDRESS_TEXT_MAX];
	unsigned sockets = 0;

	for (unsigned i = 0; i < l->address_count; i++) {
		const struct address *a = &l->addresses[i];

		sockets += a->port_last - a->port_first + 1U;
		if (sockets <= CONFIG_SOCKETS_MAX)
			continue;
		config_report(r, l->address_origins[i], config_section_text(l, section), "address",
			      "expected at most %u ports in a listener, got '%s'",
			      CONFIG_SOCKETS_MAX, format_address(a, text));
		return;
	}
}

static bool is_wildcard(const struct sockaddr_storage *sa)
{
	struct in6_addr mapped = sockaddr_mapped(sa);
	const uint32_t *ipv4 = (const uint32_t *)&mapped.s6_addr[12];

	return sa->ss_family == AF_INET ? *ipv4 == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&mapped);
}

/* Would both receive connections to one address and port?  [::] does not include IPv4: the sockets
 * are IPV6_V6ONLY. */
static bool overlap(const struct address *a, const struct address *b)
{
	struct in6_addr host_a = sockaddr_mapped(&a->sa), host_b = sockaddr_mapped(&b->sa);

	if (a->port_first == 0 || b->port_first == 0 || a->port_first > b->port_last ||
	    b->port_first > a->port_last)
		return false;
	if (IN6_ARE_ADDR_EQUAL(&host_a, &host_b))
		return true;
	return a->sa.ss_family == b->sa.ss_family && (is_wildcard(&a->sa) || is_wildcard(&b->sa));
}

/* Compares address `index` of `of` with all that stand before it. */
static void check_address(struct config_report *r, struct listener_config *of, unsigned index)
{
	char section[CONFIG_SECTION_TEXT_MAX], other[CONFIG_SECTION_TEXT_MAX];
	char text[ADDRESS_TEXT_MAX], taken[ADDRESS_TEXT_MAX];
	const struct address *a = &of->addresses[index];

	for (struct listener_config *l = r->config->listeners; l <= of; l++)
		for (unsigned i = 0; i < (l == of ? index : l->address_count); i++) {
			if (!overlap(a, &l->addresses[i]))
				continue;
			config_report(
				r, of->address_origins[index], config_section_text(of, section),
				"address",
				"expected an address of its own, got '%s' (%s:%u: [%s] has %s)",
				format_address(a, text), l->address_origins[i].file,
				l->address_origins[i].line, config_section_text(l, other),
				format_address(&l->addresses[i], taken));
			return;
		}
}

void config_check(struct config_report *r)
{
	for (unsigned i = 0; i < r->config->listener_count; i++) {
		struct listener_config *l = &r->config->listeners[i];

		check_given(r, l);
		check_engine(r, l);
		check_sockets(r, l);
		for (unsigned j = 0; j < l->address_count; j++)
			check_address(r, l, j);
		/* See parse_networks(). */
		if (l->allow_count == 1 && l->allow[0].bits == 0)
			l->allow_count = 0;
	}
}
