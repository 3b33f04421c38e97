/* Interfaces of multicast groups.  See listener_multicast.h. */
#include "listener_multicast.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "reason.h"
#include "sockaddr.h"
#include "util.h"

enum { NAMES_MAX = 8 }; /* interfaces that an error names */

/* Writes the name of the only interface that is up and takes part in multicast, loopback apart.
 * getifaddrs() has one entry of AF_PACKET for each interface. */
static int choose_interface(const struct multicast_group *group, char ret_name[static IF_NAMESIZE],
			    struct reason *reason)
{
	const unsigned wanted = IFF_UP | IFF_MULTICAST;
	char text[MULTICAST_TEXT_MAX], names[NAMES_MAX * (IF_NAMESIZE + 2)] = "",
									first[IF_NAMESIZE];
	unsigned count = 0;
	struct ifaddrs *list;
	size_t used = 0;

	multicast_format(group, text);
	if (getifaddrs(&list) < 0)
		return reason_set(reason, -errno,
				  "group %s: interfaces: %s; name one as in '%s%%eth0'", text,
				  strerror(errno), text);
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		if ((i->ifa_flags & (wanted | IFF_LOOPBACK)) != wanted || !i->ifa_addr ||
		    i->ifa_addr->sa_family != AF_PACKET)
			continue;
		if (!count)
			snprintf(first, sizeof(first), "%s", i->ifa_name);
		if (count < NAMES_MAX)
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 count ? ", " : "", i->ifa_name);
		count++;
	}
	freeifaddrs(list);
	if (count == 1)
		strcpy(ret_name, first);
	else if (count)
		reason_set(reason, -EINVAL,
			   "group %s: this host has several interfaces with multicast (%s); "
			   "name one as in '%s%%%s'",
			   text, names, text, first);
	else
		reason_set(reason, -ENODEV,
			   "group %s: no interface of this host is up and takes part in multicast; "
			   "name one as in '%s%%lo'",
			   text, text);
	return count == 1 ? 0 : count ? -EINVAL : -ENODEV;
}

int listener_multicast_resolve(const struct multicast_group *group, struct sockaddr_storage *ret_sa,
			       struct reason *reason)
{
	char name[IF_NAMESIZE], text[MULTICAST_TEXT_MAX];
	unsigned index;
	int rc = 0;

	if (group->interface[0])
		memcpy(name, group->interface, sizeof(name));
	else
		rc = choose_interface(group, name, reason);
	if (rc < 0)
		return rc;
	index = if_nametoindex(name);
	if (!index)
		return reason_set(reason, -errno,
				  "group %s: interface '%s': %s; ip link shows which this host has",
				  multicast_format(group, text), name, strerror(errno));
	*ret_sa = group->sa;
	sockaddr_set_interface(ret_sa, index);
	return 0;
}

int listener_multicast_probe(const struct listener_config *config, struct reason *reason)
{
	struct sockaddr_storage sa;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < config->group_count; i++)
		rc = listener_multicast_resolve(&config->groups[i], &sa, reason);
	return rc;
}

bool listener_multicast_has(const struct listener_config *config, const struct sockaddr_storage *sa)
{
	struct sockaddr_storage named;
	struct reason unused;

	for (unsigned i = 0; i < config->group_count; i++)
		if (listener_multicast_resolve(&config->groups[i], &named, &unused) == 0) {
			sockaddr_set_port(&named, sockaddr_port(sa));
			if (sockaddr_is_same(&named, sa))
				return true;
		}
	return false;
}
