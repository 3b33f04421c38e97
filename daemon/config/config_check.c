/* Validation across the keys of a configuration.  Main thread; pure. */
#include <stdarg.h>
#include <string.h>
#include <sys/un.h>

#include "config_keys.h"
#include "config_report.h"
#include "registry.h"
#include "sockaddr.h"
#include "store.h"
#include "suggest.h"
#include "util.h"

/* May l use that engine?  With `engine = auto`, yes if the engine has l's transport. */
static bool config_may_use(const struct listener_config *l, const struct engine *engine)
{
	return l->engine ? engine == l->engine : registry_engine_carries(engine, l->transport);
}

/* Context of the check() functions of the engines' own tables. */
struct own_check {
	struct key_check of;
	struct config_report *report;
	struct listener_config *listener;
};

static void refuse_own(struct key_check *check, const char *key, const char *format, ...)
{
	struct own_check *own = container_of(check, struct own_check, of);
	char text[CONFIG_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	REFUSE(own->report, own->listener, key, "%s", text);
}

static void check_own(struct config_report *r, struct listener_config *l)
{
	struct own_check check = { .of = { .options = &l->options,
					   .engine = l->engine,
					   .workers = l->workers,
					   .max_connections = l->max_connections,
					   .refuse = refuse_own },
				   .report = r,
				   .listener = l };

	if (config_key_origin(config_key_find(CONFIG_LISTENER, "engine"), l)->refused)
		return;
	for (unsigned i = 0; i < l->address_count; i++)
		check.of.local |= l->addresses[i].sa.ss_family == AF_UNIX;
	for (unsigned i = 0; engines[i]; i++) {
		const struct key_table *keys = engines[i]->keys;

		if (keys && keys->check && config_may_use(l, engines[i]))
			keys->check(&check.of);
	}
	for (const struct listener_config *o = r->config->listeners; o < l; o++)
		if (l->engine && o->engine == l->engine && l->engine->keys &&
		    l->engine->keys->check_beside)
			l->engine->keys->check_beside(&check.of, &o->options, o->name);
}

/* With `engine = auto` any engine of the transport may be the one in use. */
static uint64_t features_had(const struct listener_config *l)
{
	uint64_t has = 0;

	for (unsigned i = 0; engines[i]; i++)
		if (config_may_use(l, engines[i]))
			has |= registry_variant(engines[i], &l->options)->features;
	return has;
}

static void check_features(struct config_report *r, struct listener_config *l)
{
	uint64_t foreign = l->options.features_off & ~features_had(l);

	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if (foreign & FEATURE_MASK(f))
			REFUSE(r, l, "features", "engine %s has no %s to do without",
			       l->engine ? l->engine->name : "auto", engine_feature_names[f]);
}

enum {
	/* `buffer-size = auto`: the longest datagram of IPv6, 65527 bytes, fits. */
	BUFFER_SIZE = 16 * 1024,
	BUFFER_SIZE_UDP = 64 * 1024,
};

/* Was an error reported for this key?  Then errors that follow from it are not reported. */
static bool is_refused(enum config_section kind, const char *name, const void *section)
{
	return config_key_origin(config_key_find(kind, name), (void *)section)->refused;
}

static const char *service_text(uint32_t flag)
{
	return flag == SERVICE_REGION    ? "a service whose clients reach its memory"
	       : flag == SERVICE_EXPORTS ? "a service with exports"
					 : "a service that TLS can serve";
}

/* True: the key has no effect here, so only its default is valid.  Also writes the condition under
 * which it would have one, and the actual state. */
static bool is_idle(const struct config_key *key, const void *section, struct reason *ret_needs)
{
	const struct listener_config *l = section;
	const struct export_config *e = section;
	char owners[CONFIG_NAME_MAX];

	if (key->engine && (is_refused(CONFIG_LISTENER, "transport", section) ||
			    is_refused(CONFIG_LISTENER, "engine", section)))
		return false;
	if (key->engine && !config_may_use(l, key->engine))
		return reason_set(ret_needs, true, "engine = %s (%s is %s)", key->engine->name,
				  l->engine ? "engine" : "transport",
				  l->engine ? l->engine->name : l->transport->name);
	if (key->streams && l->transport->messages)
		return reason_set(ret_needs, true, "transport = tcp (transport is %s)",
				  l->transport->name);
	if (key->table && l->service && key->table != l->service->keys) {
		config_table_owners(key->table, owners, sizeof(owners));
		return reason_set(ret_needs, true, "service = %s (service is %s)", owners,
				  l->service->name);
	}
	if (key->of_services && l->service && !(l->service->flags & key->of_services))
		return reason_set(ret_needs, true, "%s (service is %s)",
				  service_text(key->of_services), l->service->name);
	if ((key->of_tls && l->tls.mode == TLS_NONE) || (key->plain && l->tls.mode != TLS_NONE))
		return reason_set(ret_needs, true, "tls = %s (tls is %s)",
				  tls_modes[key->plain ? TLS_NONE : TLS_USER],
				  tls_modes[l->tls.mode]);
	if (key->of_user && tls_in_kernel(l->tls.mode))
		return reason_set(ret_needs, true, "tls = none or user (tls is %s)",
				  tls_modes[l->tls.mode]);
	if (key->of_files && e->options.store && !e->options.store->file)
		return reason_set(ret_needs, true, "an export that is a file (store is %s)",
				  e->options.store->name);
	return false;
}

static void check_idle(struct config_report *r, const struct config_key *key, void *section,
		       const struct reason *needs)
{
	char value[CONFIG_TEXT_MAX];

	if (config_key_lines(key, section) == 0)
		return;
	key->type->format(key, section, 0, value);
	if (key->preset && !strcmp(value, key->preset))
		return;
	REFUSE_IN(r, key->section, section, key->name, "requires %s", needs->text);
}

/* Checks that mandatory keys are given, and that keys without effect are not set.  With `engine =
 * auto` the latter depends on the engine in use and is not checked. */
static void check_key(struct config_report *r, const struct config_key *key,
		      struct config_head *section)
{
	char expected[CONFIG_TEXT_MAX];
	struct reason needs;

	if (is_idle(key, section, &needs)) {
		check_idle(r, key, section, &needs);
		return;
	}
	if (key->preset || config_key_origin(key, section)->file ||
	    is_refused(key->section, key->name, section) ||
	    (key->of_services && !((struct listener_config *)section)->service))
		return;
	config_key_expect(key, expected);
	config_report(r, section->section, SECTION_TEXT(key->section, section), key->name,
		      "expected %s, got nothing", expected);
}

static void check_keys(struct config_report *r)
{
	const struct config_key *key;

	for (unsigned i = 0; (key = config_key_at(i)); i++) {
		void *section;

		for (unsigned j = 0;
		     (section = config_section_at(r->config, key->section, j)) != NULL; j++)
			check_key(r, key, section);
	}
}

/* ---- Addresses ---- */

static void check_sockets(struct config_report *r, struct listener_config *l)
{
	char text[ADDRESS_TEXT_MAX];
	unsigned sockets = 0;

	for (unsigned i = 0; i < l->address_count; i++) {
		const struct address *a = &l->addresses[i];

		sockets += a->port_last - a->port_first + 1U;
		if (sockets <= CONFIG_SOCKETS_MAX)
			continue;
		config_report(r, l->address_origins[i], SECTION_TEXT(CONFIG_LISTENER, l), "address",
			      "expected at most %u ports in a listener, got '%s'",
			      CONFIG_SOCKETS_MAX, format_address(a, text));
		return;
	}
}

static bool is_unix(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_UNIX;
}

/* Reports the addresses of l of which is() is true. */
__attribute__((format(printf, 4, 5))) static void refuse_addresses(
	struct config_report *r, struct listener_config *l,
	bool (*is)(const struct sockaddr_storage *sa), const char *format, ...)
{
	char expected[CONFIG_TEXT_MAX], text[ADDRESS_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(expected, sizeof(expected), format, args);
	va_end(args);
	for (unsigned i = 0; i < l->address_count; i++)
		if (is(&l->addresses[i].sa))
			config_report(r, l->address_origins[i], SECTION_TEXT(CONFIG_LISTENER, l),
				      "address", "expected %s, got '%s'", expected,
				      format_address(&l->addresses[i], text));
}

/* Do both receive connections to the same address and port, or Unix socket? [::] does not include
 * IPv4, as the sockets are IPV6_V6ONLY. */
static bool overlap(const struct address *a, const struct address *b)
{
	struct in6_addr host_a = sockaddr_mapped(&a->sa), host_b = sockaddr_mapped(&b->sa);

	if (a->sa.ss_family == AF_UNIX || b->sa.ss_family == AF_UNIX)
		return !memcmp(&a->sa, &b->sa, sizeof(a->sa));
	if (a->port_first == 0 || b->port_first == 0 || a->port_first > b->port_last ||
	    b->port_first > a->port_last)
		return false;
	if (IN6_ARE_ADDR_EQUAL(&host_a, &host_b)) /* of the same interface, if it is link-local */
		return sockaddr_interface(&a->sa) == sockaddr_interface(&b->sa);
	return a->sa.ss_family == b->sa.ss_family &&
	       (sockaddr_is_wildcard(&a->sa) || sockaddr_is_wildcard(&b->sa));
}

/* Compares address `index` of `of` with all earlier ones.  Each transport has ports of its own. */
static void check_address(struct config_report *r, struct listener_config *of, unsigned index)
{
	char text[ADDRESS_TEXT_MAX], taken[ADDRESS_TEXT_MAX];
	const struct address *a = &of->addresses[index];
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->sa;

	if (a->sa.ss_family == AF_UNIX && !strcmp(un->sun_path, r->config->server.control))
		config_report(r, of->address_origins[index], SECTION_TEXT(CONFIG_LISTENER, of),
			      "address", "'%s' is already used by [server] control",
			      format_address(a, text));
	for (struct listener_config *l = r->config->listeners; l <= of; l++)
		for (unsigned i = 0; i < (l == of ? index : l->address_count); i++) {
			if (l->transport != of->transport || !overlap(a, &l->addresses[i]))
				continue;
			config_report(r, of->address_origins[index],
				      SECTION_TEXT(CONFIG_LISTENER, of), "address",
				      "'%s' is already used by [%s] (%s:%u: %s)",
				      format_address(a, text), SECTION_TEXT(CONFIG_LISTENER, l),
				      l->address_origins[i].file, l->address_origins[i].line,
				      format_address(&l->addresses[i], taken));
			return;
		}
}

/* ---- Transports ---- */

/* A build has either all engines of a transport or none. */
const char *config_absent(const struct listener_config *l)
{
	if (l->tls.mode != TLS_NONE && tls_absent())
		return tls_absent();
	for (unsigned i = 0; engines[i]; i++)
		if (registry_engine_carries(engines[i], l->transport))
			return engines[i]->absent;
	return NULL;
}

/* Reports a value of key that needs the transport `needs`. */
static void report_transport(struct config_report *r, struct listener_config *l, const char *key,
			     const char *value, const struct transport *needs)
{
	REFUSE(r, l, key, "expected one for transport %s, got '%s' (it needs `transport = %s`)",
	       l->transport->name, value, needs->name);
}

/* Engine, addresses and service must match the listener's transport. */
static void check_transport(struct config_report *r, struct listener_config *l)
{
	const struct transport *const *able = transports;

	if (is_refused(CONFIG_LISTENER, "transport", l))
		return;
	l->options.datagrams = l->transport->datagrams;
	if (l->engine && !registry_engine_carries(l->engine, l->transport))
		report_transport(r, l, "engine", l->engine->name, l->engine->transport);
	if (!l->transport->unix_addresses)
		refuse_addresses(r, l, is_unix, "IP:PORT for transport %s", l->transport->name);
	if (tls_in_kernel(l->tls.mode)) /* it is for TCP sockets only */
		refuse_addresses(r, l, is_unix, "IP:PORT with tls = %s", tls_modes[l->tls.mode]);
	/* Linux binds a socket to a multicast group, but groups are not served. */
	refuse_addresses(r, l, sockaddr_is_multicast, "the address of a host");
	if (!l->service || transport_can_serve(l->transport, l->service))
		return;
	while (!transport_can_serve(*able, l->service))
		able++;
	report_transport(r, l, "service", l->service->name, *able);
}

/* A listener that this build cannot serve must be `optional`. */
static void check_build(struct config_report *r, struct listener_config *l)
{
	const char *absent = config_absent(l);
	bool tls = absent && absent == tls_absent();

	if (!absent || l->optional)
		return;
	REFUSE(r, l, tls ? "tls" : "transport", "got '%s', but %s; or set `optional = yes`",
	       tls ? tls_modes[l->tls.mode] : l->transport->name, absent);
}

/* Each message must fit into one buffer. */
static void check_messages(struct config_report *r, struct listener_config *l)
{
	const struct config_key *key = config_key_find(CONFIG_LISTENER, "buffer-size");
	char value[CONFIG_TEXT_MAX];

	if (!l->service || l->options.buffer_size >= l->service->message_max)
		return;
	key->type->format(key, l, 0, value);
	REFUSE(r, l, key->name, "expected at least %zu with service %s, got '%s'",
	       l->service->message_max, l->service->name, value);
}

/* ---- Services ---- */

/* The rules that l's service has for its own keys and the core's. */
static void check_service(struct config_report *r, struct listener_config *l)
{
	char value[CONFIG_TEXT_MAX];
	const struct config_key *key;

	if (!l->service || !(l->service->flags & SERVICE_KEEPS_ALIVE) ||
	    l->options.idle_timeout_ns == 0)
		return;
	key = config_key_find(CONFIG_LISTENER, "idle-timeout");
	key->type->format(key, l, 0, value);
	REFUSE(r, l, key->name,
	       "expected 0 with service %s, got '%s' (its hosts keep alive by themselves)",
	       l->service->name, value);
}

/* Keys of a file are of SHA-256 (RFC 8446, 4.2.11), but those of NVMe, and take the place of a
 * certificate. */
static void check_psk(struct config_report *r, struct listener_config *l)
{
	bool nvme = l->service && (l->service->flags & SERVICE_NVME_KEYS);

	if (nvme && l->tls.mode != TLS_NONE && !l->tls.psk_file[0])
		REFUSE(r, l, "tls",
		       "expected tls-psk-file with it, as hosts of service %s check no "
		       "certificate, got '%s'",
		       l->service->name, tls_modes[l->tls.mode]);
	if (!l->tls.psk_file[0])
		return;
	if (!nvme && strstr(tls_ciphers[l->tls.cipher], "256-gcm"))
		REFUSE(r, l, "tls-cipher",
		       "expected one with SHA-256, aes-128-gcm or chacha20-poly1305, with "
		       "tls-psk-file, got '%s'",
		       tls_ciphers[l->tls.cipher]);
	if (l->tls.certificate[0])
		REFUSE(r, l, "tls-certificate",
		       "expected none with tls-psk-file, which takes its place, got '%s'",
		       l->tls.certificate);
}

/* ---- Exports ---- */

#define REFUSE_EXPORT(r, e, key, ...) REFUSE_IN(r, CONFIG_EXPORT, e, key, __VA_ARGS__)

static void check_export_path(struct config_report *r, struct export_config *e)
{
	const struct store *store = e->options.store;

	if (is_refused(CONFIG_EXPORT, "path", e) || is_refused(CONFIG_EXPORT, "store", e))
		return;
	if (e->options.path[0] == '\0') {
		if (!store || store->file)
			REFUSE_EXPORT(r, e, "path",
				      "expected an absolute path, got none (store is %s)",
				      store ? store->name : "auto");
		return;
	}
	for (struct export_config *o = r->config->exports; o < e; o++)
		if (!strcmp(o->options.path, e->options.path) && !o->options.read_only &&
		    !e->options.read_only)
			REFUSE_EXPORT(
				r, e, "path",
				"expected a unique path, or `read-only = yes`, got '%s' "
				"(%s:%u: already used by [%s]; listeners may share an export, each with its own `store`)",
				e->options.path, o->section.file, o->section.line,
				SECTION_TEXT(CONFIG_EXPORT, o));
}

static void check_export(struct config_report *r, struct export_config *e)
{
	const struct export_options *o = &e->options;

	check_export_path(r, e);
	if (o->size == 0 && !is_refused(CONFIG_EXPORT, "size", e) &&
	    (o->create || (o->store && !o->store->file)))
		REFUSE_EXPORT(r, e, "size", "expected 1 or more with %s%s, got '0'",
			      o->create ? "create" : "store = ", o->create ? "" : o->store->name);
	if (o->create && o->read_only)
		REFUSE_EXPORT(r, e, "create", "requires read-only = no (read-only is yes)");
	if (o->fill && !o->create && !(o->store && !strcmp(o->store->name, "memory")))
		REFUSE_EXPORT(r, e, "fill",
			      "requires create = yes or store = memory (create is no)");
}

static void unknown_export(struct config_report *r, const struct listener_config *l,
			   const struct export_name *name)
{
	struct suggestion s = { .text = name->name };

	for (unsigned i = 0; i < r->config->export_count; i++)
		suggest_try(&s, r->config->exports[i].name);
	config_report(r, name->origin, SECTION_TEXT(CONFIG_LISTENER, l), "exports",
		      "expected the NAME of an [export NAME], got '%s'%s", name->name,
		      suggest_hint(&s));
}

/* Checks a listener's `exports`: each one exists and is named once.  With `store` set in the
 * listener, each must be a file.  Sets `config` of each name to the export's section. */
static void check_listener_exports(struct config_report *r, struct listener_config *l)
{
	if (l->service && !(l->service->flags & SERVICE_EXPORTS)) /* reported already */
		return;
	for (unsigned i = 0; i < l->export_count; i++) {
		struct export_name *name = &l->exports[i];
		const struct store *store;

		for (unsigned j = 0; j < i; j++)
			if (!strcmp(l->exports[j].name, name->name))
				config_report(r, name->origin, SECTION_TEXT(CONFIG_LISTENER, l),
					      "exports",
					      "expected each export once, got '%s' as well",
					      name->name);
		name->config = (void *)config_section_find(r->config, CONFIG_EXPORT, name->name);
		if (!name->config) {
			unknown_export(r, l, name);
			continue;
		}
		store = name->config->options.store;
		if (l->store && store && !store->file)
			REFUSE(r, l, "store",
			       "expected export, got '%s': export '%s' is no file "
			       "(store = %s)",
			       l->store->name, name->name, store->name);
	}
}

/* ---- Listeners that serve as one, such as the ports of an NVMe subsystem: as a key of their
 * service has the same value, clients take their exports for the same disks ---- */

enum { QUOTED_MAX = CONFIG_TEXT_MAX + 3 };

/* Writes entry `index` of a value in quotes; false: there is none. */
static bool entry_of(const struct config_key *key, const struct listener_config *l, unsigned index,
		     char quoted[static QUOTED_MAX])
{
	char text[CONFIG_TEXT_MAX];

	if (index >= config_key_lines(key, l)) {
		strcpy(quoted, "nothing");
		return false;
	}
	key->type->format(key, l, index, text);
	snprintf(quoted, QUOTED_MAX, "'%s'", text);
	return true;
}

/* Reports the first entry in which l's value differs from o's.  by: the key that unites them. */
static void check_same(struct config_report *r, struct listener_config *l,
		       struct listener_config *o, const struct config_key *key, const char *by)
{
	struct config_origin at = config_key_where(CONFIG_LISTENER, key->name, o);
	char value[QUOTED_MAX], other[QUOTED_MAX];
	bool has, had;
	unsigned i = 0;

	if (config_key_origin(key, l)->refused || config_key_origin(key, o)->refused)
		return;
	do {
		has = entry_of(key, l, i, value);
		had = entry_of(key, o, i, other);
	} while (has && had && !strcmp(value, other) && ++i);
	if (has == had && !strcmp(value, other))
		return;
	REFUSE(r, l, key->name,
	       "expected %s as in [%s] (%s:%u), or another `%s`, got %s: listeners with the same %s "
	       "serve the same",
	       other, SECTION_TEXT(CONFIG_LISTENER, o), at.file, at.line, by, value, by);
}

static void check_common(struct config_report *r, struct listener_config *l,
			 struct listener_config *o, const char *by)
{
	const struct config_key *key;

	check_same(r, l, o, config_key_find(CONFIG_LISTENER, "exports"), by);
	for (unsigned i = 0; (key = config_key_at(i)); i++)
		if (key->table && key->table == l->service->keys && key->of->common)
			check_same(r, l, o, key, by);
}

/* The first listener with that value of the key; l itself if none is earlier. */
static struct listener_config *first_with(const struct config *config, const struct config_key *key,
					  struct listener_config *l, const char *value)
{
	struct listener_config *o = config->listeners;
	char other[CONFIG_TEXT_MAX];

	for (; o < l; o++) {
		key->type->format(key, o, 0, other);
		if (o->service == l->service && !strcmp(value, other))
			break;
	}
	return o;
}

/* Reports keys in which l differs from an earlier listener although both serve as one: see
 * key.unites. */
static void check_united(struct config_report *r, struct listener_config *l)
{
	const struct config_key *key;

	for (unsigned i = 0; l->service && (key = config_key_at(i)); i++) {
		struct listener_config *o;
		char value[CONFIG_TEXT_MAX];

		if (!key->table || key->table != l->service->keys || !key->of->unites)
			continue;
		key->type->format(key, l, 0, value);
		if (key->word && !strcmp(value, key->word))
			continue;
		o = first_with(r->config, key, l, value);
		if (o != l)
			check_common(r, l, o, key->name);
	}
}

/* ---- All of it ---- */

void config_check(struct config_report *r)
{
	check_keys(r);
	for (unsigned i = 0; i < r->config->export_count; i++)
		check_export(r, &r->config->exports[i]);
	for (unsigned i = 0; i < r->config->listener_count; i++) {
		struct listener_config *l = &r->config->listeners[i];

		check_sockets(r, l);
		for (unsigned j = 0; j < l->address_count; j++)
			check_address(r, l, j);
		check_transport(r, l);
		if (l->options.buffer_size == 0) /* auto */
			l->options.buffer_size =
				l->options.datagrams ? BUFFER_SIZE_UDP : BUFFER_SIZE;
		check_build(r, l);
		check_own(r, l);
		check_features(r, l);
		check_messages(r, l);
		check_listener_exports(r, l);
		check_service(r, l);
		check_psk(r, l);
		check_united(r, l);
		/* See parse_entry() in config_types.c. */
		if (l->allow_count == 1 && l->allow[0].bits == 0 && !l->allow[0].local)
			l->allow_count = 0;
	}
}
