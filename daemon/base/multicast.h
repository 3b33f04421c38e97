/* A multicast group on one interface.  Pure. */
#pragma once
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

struct multicast_group {
	struct sockaddr_storage sa;  /* IPv4 or IPv6, port 0; AF_UNSPEC: `none` */
	char interface[IF_NAMESIZE]; /* "": not named */
};

/* `239.1.2.3%eth0`, `ff05::1%eth0`, or without the interface. */
int multicast_parse(const char *text, struct multicast_group *ret_group);
enum { MULTICAST_TEXT_MAX = INET6_ADDRSTRLEN + IF_NAMESIZE };
/* Parses back to the same group; returns text. */
char *multicast_format(const struct multicast_group *group, char text[static MULTICAST_TEXT_MAX]);

/* May both mean the same group on the same interface?  One without an interface may mean any. */
bool multicast_overlaps(const struct multicast_group *a, const struct multicast_group *b);
