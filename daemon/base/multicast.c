/* Multicast groups: how they are written and compared.  See multicast.h. */
#include "multicast.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sockaddr.h"

/* Copies an interface's name as the kernel takes it (dev_valid_name()); only printable ASCII. */
static bool copy_interface(char to[static IF_NAMESIZE], const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length >= IF_NAMESIZE || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	for (const char *s = name; *s; s++)
		if (*s <= ' ' || *s > '~' || strchr("/:%", *s))
			return false;
	memcpy(to, name, length + 1);
	return true;
}

int multicast_parse(const char *text, struct multicast_group *ret_group)
{
	struct multicast_group group = { 0 };
	size_t bytes = strcspn(text, "%");
	char host[INET6_ADDRSTRLEN];

	if (bytes >= sizeof(host) ||
	    (text[bytes] && !copy_interface(group.interface, text + bytes + 1)))
		return -EINVAL;
	memcpy(host, text, bytes);
	host[bytes] = '\0';
	group.sa.ss_family = strchr(host, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(group.sa.ss_family, host, sockaddr_host(&group.sa)) != 1 ||
	    !sockaddr_is_multicast(&group.sa))
		return -EINVAL;
	*ret_group = group;
	return 0;
}

char *multicast_format(const struct multicast_group *group, char text[static MULTICAST_TEXT_MAX])
{
	size_t length;

	inet_ntop(group->sa.ss_family, sockaddr_host(&group->sa), text, MULTICAST_TEXT_MAX);
	length = strlen(text);
	if (group->interface[0])
		snprintf(text + length, MULTICAST_TEXT_MAX - length, "%%%s", group->interface);
	return text;
}

bool multicast_overlaps(const struct multicast_group *a, const struct multicast_group *b)
{
	return sockaddr_is_same(&a->sa, &b->sa) &&
	       (!a->interface[0] || !b->interface[0] || !strcmp(a->interface, b->interface));
}
