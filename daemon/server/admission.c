/* Limits and allow list.  See admission.h. */
#include "admission.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sockaddr.h"
#include "tally.h"

/* The rules for clients, except for the limit of all connections. */
struct admission_rules {
	uint64_t max_per_address;
	unsigned allow_count;
	struct network allow[CONFIG_NETWORKS_MAX];
};

struct admission {
	_Atomic uint64_t open, max;
	_Atomic bool needs_peer; /* a limit or list depends on the peer */
	pthread_mutex_t lock;    /* protects all fields below */
	struct admission_rules rules;
	struct tally tally; /* of open connections */
};

struct admission *admission_new(const struct listener_config *config)
{
	struct admission *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	if (tally_init(&a->tally) < 0) {
		free(a);
		return NULL;
	}
	pthread_mutex_init(&a->lock, NULL);
	admission_set(a, config);
	return a;
}

void admission_free(struct admission *a)
{
	if (!a)
		return;
	tally_fini(&a->tally);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

void admission_set(struct admission *a, const struct listener_config *config)
{
	pthread_mutex_lock(&a->lock);
	a->rules.max_per_address = config->max_connections_per_address;
	memcpy(a->rules.allow, config->allow, sizeof(a->rules.allow));
	a->rules.allow_count = config->allow_count;
	pthread_mutex_unlock(&a->lock);
	atomic_store(&a->needs_peer, config->max_connections_per_address || config->allow_count);
	/* Datagrams have no limit here: each worker's table of peers has its share of the limit,
	 * and evicts the oldest client rather than refuse a new one. */
	atomic_store(&a->max, config->max_connections && !config->transport->datagrams
				      ? config->max_connections
				      : UINT64_MAX);
}

/* Encodes the user of a Unix socket's peer as an address that no client can have (multicast).
 * False: not known. */
static bool user_as_address(int fd, struct in6_addr *ret_address)
{
	struct ucred user;
	socklen_t len = sizeof(user);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len) < 0)
		return false;
	*ret_address = (struct in6_addr){ .s6_addr = { 0xff } };
	memcpy(&ret_address->s6_addr[12], &user.uid, sizeof(user.uid));
	return true;
}

static bool is_loopback(const struct in6_addr *address)
{
	return IN6_IS_ADDR_LOOPBACK(address) ||
	       (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == IN_LOOPBACKNET);
}

/* Is peer an address of this host?  Connects a UDP socket to it, which sends nothing: the kernel
 * chooses the same address as source only if it is local. */
static bool is_local(const struct sockaddr_storage *peer)
{
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	struct in6_addr there = sockaddr_mapped(peer), here;
	socklen_t len = sizeof(from);
	int fd;

	if (is_loopback(&there))
		return true;
	fd = socket(peer->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (connect(fd, (const struct sockaddr *)peer, sockaddr_size(peer)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&from, &len) < 0)
		from.ss_family = AF_UNSPEC;
	close(fd);
	here = sockaddr_mapped(&from);
	return from.ss_family == peer->ss_family && IN6_ARE_ADDR_EQUAL(&here, &there);
}

static bool is_allowed(const struct admission_rules *rules, const struct sockaddr_storage *peer)
{
	bool is_ip = peer->ss_family == AF_INET || peer->ss_family == AF_INET6;
	struct in6_addr address = sockaddr_mapped(peer);

	/* A peer of another family (RDMA's AF_IB) is mapped to ::, which is in ::/0. */
	for (unsigned i = 0; is_ip && i < rules->allow_count; i++)
		if (rules->allow[i].local ? is_local(peer)
					  : network_contains(&rules->allow[i], &address))
			return true;
	return rules->allow_count == 0;
}

/* Copies the rules under the lock.  is_local() makes system calls, for which no
 * other worker should wait. */
static void admission_copy_rules(struct admission *a, struct admission_rules *ret_rules)
{
	pthread_mutex_lock(&a->lock);
	ret_rules->max_per_address = a->rules.max_per_address;
	ret_rules->allow_count = a->rules.allow_count;
	memcpy(ret_rules->allow, a->rules.allow, a->rules.allow_count * sizeof(a->rules.allow[0]));
	pthread_mutex_unlock(&a->lock);
}

/* 0 or -EUSERS. */
static int admission_count(struct admission *a, const struct in6_addr *address, uint64_t max,
			   void **ret_ticket)
{
	struct tally_entry *e;

	pthread_mutex_lock(&a->lock);
	e = tally_add(&a->tally, address);
	if (e && e->count > max) {
		tally_drop(&a->tally, e);
		e = NULL;
	}
	pthread_mutex_unlock(&a->lock);
	*ret_ticket = e;
	return e ? 0 : -EUSERS;
}

static int admission_check_peer(struct admission *a, int fd, const struct sockaddr_storage *from,
				void **ret_ticket)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(sa);
	struct admission_rules rules;
	struct in6_addr address;
	bool is_unix;
	int rc = 0;

	if (from)
		sa = *from;
	else if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
		return -EACCES; /* the peer has disconnected already */
	is_unix = sa.ss_family == AF_UNIX;
	address = sockaddr_mapped(&sa);
	if (is_unix && !user_as_address(fd, &address))
		return -EACCES;
	admission_copy_rules(a, &rules);
	/* On a Unix socket the mode of its file has decided already. */
	if (!is_unix && !is_allowed(&rules, &sa))
		return -EACCES;
	if (rules.max_per_address)
		rc = admission_count(a, &address, rules.max_per_address, ret_ticket);
	return rc == 0 && from && rules.allow_count > 0 ? 1 : rc;
}

int admission_enter(struct admission *a, int fd, const struct sockaddr_storage *peer,
		    void **ret_ticket)
{
	int rc = 0;

	*ret_ticket = NULL;
	if (atomic_fetch_add(&a->open, 1) >= atomic_load(&a->max))
		rc = -EUSERS;
	else if (atomic_load(&a->needs_peer))
		rc = admission_check_peer(a, fd, peer, ret_ticket);
	if (rc < 0)
		atomic_fetch_sub(&a->open, 1);
	return rc;
}

void admission_release(struct admission *a, void *ticket)
{
	atomic_fetch_sub(&a->open, 1);
	if (!ticket)
		return;
	pthread_mutex_lock(&a->lock);
	tally_drop(&a->tally, ticket);
	pthread_mutex_unlock(&a->lock);
}
