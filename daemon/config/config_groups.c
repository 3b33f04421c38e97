/* Conditions of the key `groups`, multicast groups of a listener over UDP.  See config_keys.h. */

#include "config_keys.h"
#include "config_report.h"
#include "sockaddr.h"

static bool is_same_port(const struct address *a, const struct address *b)
{
	return a->port_first && b->port_first && a->port_first <= b->port_last &&
	       b->port_first <= a->port_last;
}

static bool have_same_port(const struct listener_config *a, const struct listener_config *b)
{
	for (unsigned i = 0; i < a->address_count; i++)
		for (unsigned j = 0; j < b->address_count; j++)
			if (is_same_port(&a->addresses[i], &b->addresses[j]))
				return true;
	return false;
}

/* The group that an address names; false: none. */
static bool group_of(const struct address *a, struct multicast_group *ret_group)
{
	*ret_group = (struct multicast_group){ .sa = a->sa };
	return sockaddr_is_multicast(&a->sa);
}

/* Is the group an address of l, or one of the first `end` of its groups?  Each socket in a group
 * gets a copy of every datagram, so two would answer twice. */
static bool serves(const struct listener_config *l, const struct multicast_group *group,
		   unsigned end)
{
	struct multicast_group named;

	for (unsigned i = 0; i < l->address_count; i++)
		if (group_of(&l->addresses[i], &named) && group_overlaps(&named, group))
			return true;
	for (unsigned i = 0; i < end; i++)
		if (group_overlaps(&l->groups[i], group))
			return true;
	return false;
}

static void check_group(struct config_report *r, struct listener_config *of, unsigned index)
{
	char text[GROUP_TEXT_MAX];

	for (unsigned i = 0; i < r->config->listener_count; i++) {
		const struct listener_config *l = &r->config->listeners[i];
		unsigned end = l < of ? l->group_count : l == of ? index : 0;

		if (l->transport != of->transport || !config_has_datagrams(l) ||
		    (l != of && l->transport->socket_type && !have_same_port(l, of)) ||
		    !serves(l, &of->groups[index], end))
			continue;
		config_report(r, of->group_origins[index], SECTION_TEXT(CONFIG_LISTENER, of),
			      "groups",
			      "'%s' is already served%s by [%s] (%s:%u), and each "
			      "datagram would be answered twice",
			      format_group(&of->groups[index], text),
			      of->transport->socket_type ? " at that port" : "",
			      SECTION_TEXT(CONFIG_LISTENER, l), l->section.file, l->section.line);
		return;
	}
}

static void check_count(struct config_report *r, struct listener_config *l)
{
	unsigned ports = 0;

	for (unsigned i = 0; i < l->address_count; i++)
		ports += 1U + l->addresses[i].port_last - l->addresses[i].port_first;
	if (ports <= CONFIG_SOCKETS_MAX && ports * (1 + l->group_count) > CONFIG_SOCKETS_MAX)
		config_report(r, l->group_origins[0], SECTION_TEXT(CONFIG_LISTENER, l), "groups",
			      "expected at most %u for %u ports (%u sockets in a listener), got %u",
			      CONFIG_SOCKETS_MAX / ports - 1, ports, CONFIG_SOCKETS_MAX,
			      l->group_count);
}

/* Also replaces the entry `none`, see parse_entry() in config_lists.c, by no entry. */
void config_check_groups(struct config_report *r, struct listener_config *l)
{
	if (l->group_count == 1 && l->groups[0].sa.ss_family == AF_UNSPEC)
		l->group_count = 0;
	if (!config_has_datagrams(l)) /* reported already */
		return;
	if (l->transport->socket_type)
		check_count(r, l);
	for (unsigned i = 0; i < l->group_count; i++)
		check_group(r, l, i);
}
