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
#include "worker.h"

enum { NAMES_MAX = 8 }; /* interfaces that an error names */

/* The interfaces that are up and take part in multicast, each once, loopback not among them. */
struct interfaces {
	unsigned count; /* may exceed NAMES_MAX */
	char names[NAMES_MAX][IF_NAMESIZE];
};

static bool is_listed(const struct interfaces *all, const char *name)
{
	for (unsigned i = 0; i < MIN(all->count, (unsigned)NAMES_MAX); i++)
		if (!strcmp(all->names[i], name))
			return true;
	return false;
}

static int list_interfaces(struct interfaces *ret_all)
{
	const unsigned wanted = IFF_UP | IFF_MULTICAST;
	struct ifaddrs *list;

	*ret_all = (struct interfaces){ 0 };
	if (getifaddrs(&list) < 0)
		return -errno;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		if ((i->ifa_flags & (wanted | IFF_LOOPBACK)) != wanted ||
		    is_listed(ret_all, i->ifa_name))
			continue;
		if (ret_all->count < NAMES_MAX)
			snprintf(ret_all->names[ret_all->count], IF_NAMESIZE, "%s", i->ifa_name);
		ret_all->count++;
	}
	freeifaddrs(list);
	return 0;
}

/* Writes the name of the only interface there is. */
static int choose_interface(const struct multicast_group *group, char ret_name[static IF_NAMESIZE],
			    struct reason *reason)
{
	char text[MULTICAST_TEXT_MAX], names[NAMES_MAX * (IF_NAMESIZE + 2)] = "";
	struct interfaces all;
	size_t used = 0;
	int rc = list_interfaces(&all);

	multicast_format(group, text);
	if (rc < 0)
		return reason_set(reason, rc, "group %s: interfaces: %s; name one as in '%s%%eth0'",
				  text, strerror(-rc), text);
	if (all.count == 1) {
		strcpy(ret_name, all.names[0]);
		return 0;
	}
	for (unsigned i = 0; i < MIN(all.count, (unsigned)NAMES_MAX); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 all.names[i]);
	if (all.count)
		return reason_set(reason, -EINVAL,
				  "group %s: this host has several interfaces with multicast (%s); "
				  "name one as in '%s%%%s'",
				  text, names, text, all.names[0]);
	return reason_set(reason, -ENODEV,
			  "group %s: no interface of this host is up and takes part in multicast; "
			  "name one as in '%s%%lo'",
			  text, text);
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

/* The first address of the family that the interface has. */
static int interface_address(uint32_t interface, sa_family_t family,
			     struct sockaddr_storage *ret_sa)
{
	size_t bytes =
		family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	struct ifaddrs *list;
	int rc = -EADDRNOTAVAIL;

	if (getifaddrs(&list) < 0)
		return -errno;
	for (const struct ifaddrs *i = list; i && rc < 0; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != family ||
		    if_nametoindex(i->ifa_name) != interface)
			continue;
		memset(ret_sa, 0, sizeof(*ret_sa));
		memcpy(ret_sa, i->ifa_addr, bytes);
		rc = 0;
	}
	freeifaddrs(list);
	return rc;
}

int listener_multicast_list(const struct listener_config *config, struct worker_group *ret_groups,
			    struct reason *reason)
{
	for (unsigned i = 0; i < config->group_count; i++) {
		struct worker_group *g = &ret_groups[i];
		char text[MULTICAST_TEXT_MAX];
		int rc = listener_multicast_resolve(&config->groups[i], &g->group, reason);

		if (rc < 0)
			return rc;
		rc = interface_address(sockaddr_interface(&g->group), g->group.ss_family,
				       &g->local);
		if (rc < 0)
			return reason_set(reason, rc, "group %s: the address of its interface: %s",
					  multicast_format(&config->groups[i], text),
					  strerror(-rc));
	}
	return 0;
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
