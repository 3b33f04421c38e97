/* The peer's and the local address of a connection, and the options of its
 * socket.  Worker's thread only. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "conn.h"
#include "engine.h"
#include "parse.h"
#include "sockaddr.h"

static struct sockaddr_storage socket_address(const struct conn *c, bool local)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	struct sockaddr *to = (struct sockaddr *)&sa;
	socklen_t length = sizeof(sa);

	stat_add(c->worker->stats.sys_other, 1);
	if ((local ? getsockname(c->fd, to, &length) : getpeername(c->fd, to, &length)) < 0)
		sa.ss_family = AF_UNSPEC;
	return sa;
}

struct sockaddr_storage conn_peer_address(const struct conn *c)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };

	if (!conn_clients(c))
		return socket_address(c, false);
	conn_clients(c)->peer(c, &sa);
	return sa;
}

/* A user of an IPv6 network may choose the lower 64 bits freely, so these
 * do not distinguish clients. */
struct in6_addr conn_client(const struct conn *c)
{
	struct sockaddr_storage peer = conn_peer_address(c);
	struct in6_addr client = sockaddr_mapped(&peer);

	if (!IN6_IS_ADDR_V4MAPPED(&client))
		memset(&client.s6_addr[8], 0, 8);
	return client;
}

/* Clients seldom bind Unix sockets to an address, so for these the kernel's credentials (pid, uid)
 * stand in for it. */
sa_family_t conn_peer(const struct conn *c, char text[static ADDRESS_TEXT_MAX])
{
	struct sockaddr_storage sa = conn_peer_address(c);
	struct ucred user = { 0 };

	format_sockaddr(&sa, text);
	if (sa.ss_family != AF_UNIX)
		return sa.ss_family;
	if (conn_get_option(c, SOL_SOCKET, SO_PEERCRED, &user, sizeof(user)) == 0)
		snprintf(text, ADDRESS_TEXT_MAX, "unix:pid=%d,uid=%u", (int)user.pid,
			 (unsigned)user.uid);
	return AF_UNIX;
}

struct sockaddr_storage conn_local_address(const struct conn *c)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	const struct engine_clients *clients = conn_clients(c);

	if (!clients)
		return socket_address(c, true);
	if (clients->local)
		clients->local(c, &sa);
	return sa;
}

int conn_set_option(const struct conn *c, int level, int name, const void *value, size_t bytes)
{
	stat_add(c->worker->stats.sys_other, 1);
	return setsockopt(c->fd, level, name, value, (socklen_t)bytes);
}

int conn_set_traffic_class(struct conn *c, uint8_t value)
{
	int number = value;

	c->traffic_class = value;
	if (c->fd < 0)
		return 0;
	if (conn_local_address(c).ss_family == AF_INET6)
		return conn_set_option(c, IPPROTO_IPV6, IPV6_TCLASS, &number, sizeof(number));
	return conn_set_option(c, IPPROTO_IP, IP_TOS, &number, sizeof(number));
}

int conn_get_option(const struct conn *c, int level, int name, void *ret_value, size_t bytes)
{
	socklen_t length = (socklen_t)bytes;

	stat_add(c->worker->stats.sys_other, 1);
	return getsockopt(c->fd, level, name, ret_value, &length);
}
