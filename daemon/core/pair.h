/* RDMA queue pairs that a client and a service set up over a TCP connection.  The service's own
 * protocol carries the parameters that the RDMA connection manager would otherwise exchange.
 *
 * A service with SERVICE_EXCHANGES accepts TCP connections at its listener's addresses.  Each of
 * these is a struct conn (conn_is_exchange()): a byte stream without one-sided operations.  Each
 * queue pair is a struct conn, too.  If the TCP connection or any of its queue pairs closes, all
 * of them close.  Only the worker's thread may call these functions. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "conn.h"
#include "engine.h"

enum {
	PAIR_GID = 16,  /* bytes */
	PAIRS_MAX = 64, /* queue pairs of one socket */
};

/* The transport of a queue pair: reliable or unreliable connections, or datagrams. */
enum pair_type { PAIR_RC, PAIR_UC, PAIR_UD };

/* Can a GID be that of a port of some host?  Not if it is all zero or, as an IPv4 or IPv6 address,
 * a loopback, multicast, broadcast or reserved one. */
static inline bool pair_gid_is_host(const uint8_t gid[static PAIR_GID])
{
	static const uint8_t mapped[PAIR_GID - 4] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t zeros[PAIR_GID - 1];
	const uint8_t *ipv4 = gid + sizeof(mapped);

	if (memcmp(gid, mapped, sizeof(mapped)) == 0)
		return ipv4[0] != 0 && ipv4[0] != 127 && ipv4[0] < 224;
	return gid[0] != 0xff && (memcmp(gid, zeros, sizeof(zeros)) != 0 || gid[PAIR_GID - 1] > 1);
}

struct pair_end {
	uint32_t number;   /* of the queue pair (QPN) */
	uint32_t sequence; /* number of the first packet that it sends (PSN) */
	unsigned reads;    /* reads of the peer that it allows in flight */
	uint8_t gid[PAIR_GID];
};

struct pair {
	struct pair_end client;
	enum pair_type type;
	unsigned mtu; /* as enum ibv_mtu: what both sides can */
	/* Of what is sent: in the IP header (RoCEv2: DSCP and ECN) or GRH; in the local route
	 * header or, on Ethernet, the priority. */
	uint8_t traffic_class, service_level;
	/* Filled in by conn_pair(). */
	struct pair_end own;
	struct conn *conn; /* the connection over the queue pair */
};

static inline bool conn_is_exchange(const struct conn *c)
{
	return c->fd >= 0;
}

/* Is c the connection over a queue pair that was agreed on over a socket? */
static inline bool conn_is_pair(const struct conn *c)
{
	return c->worker->engine->remote->is_pair(c);
}

/* The MTU that queue pairs of this client can have, as enum ibv_mtu; -errno: none can be made, and
 * the reason was logged. */
static inline int conn_pair_mtu(struct conn *c)
{
	return c->worker->engine->remote->pair_mtu(c);
}

/* Makes a queue pair for the client's, or finds the one that an earlier call made for it.  0: it is
 * ready to receive; -EAGAIN: not yet, and c runs again; any other -errno: the client's is refused,
 * and the reason was logged. */
static inline int conn_pair(struct conn *c, struct pair *pair)
{
	return c->worker->engine->remote->pair(c, pair);
}
