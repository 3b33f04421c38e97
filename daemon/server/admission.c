/* The limit of connections and the allow list.  See admission.h. */
#include "admission.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sockaddr.h"

/* The networks whose clients may connect; none: those of all. */
struct admission_list {
	unsigned count;
	struct network networks[CONFIG_NETWORKS_MAX];
};

struct admission {
	_Atomic uint64_t open, max;
	_Atomic bool has_list;
	pthread_mutex_t lock; /* protects the list */
	struct admission_list list;
};

struct admission *admission_new(const struct listener_config *config)
{
	struct admission *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	pthread_mutex_init(&a->lock, NULL);
	admission_set(a, config);
	return a;
}

void admission_free(struct admission *a)
{
	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	free(a);
}

void admission_set(struct admission *a, const struct listener_config *config)
{
	pthread_mutex_lock(&a->lock);
	memcpy(a->list.networks, config->allow, sizeof(a->list.networks));
	a->list.count = config->allow_count;
	pthread_mutex_unlock(&a->lock);
	atomic_store(&a->has_list, config->allow_count > 0);
	/* Datagrams have no limit here: each worker's table of peers has its share of the limit,
	 * and evicts the oldest client rather than refuse a new one. */
	atomic_store(&a->max, config->max_connections && !config->transport->datagrams
				      ? config->max_connections
				      : UINT64_MAX);
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

static bool is_listed(const struct admission_list *list, const struct sockaddr_storage *peer)
{
	struct in6_addr address = sockaddr_mapped(peer);

	/* A peer of another family (RDMA's AF_IB) is mapped to ::, which is in ::/0. */
	if (peer->ss_family != AF_INET && peer->ss_family != AF_INET6)
		return false;
	for (unsigned i = 0; i < list->count; i++)
		if (list->networks[i].local ? is_local(peer)
					    : network_contains(&list->networks[i], &address))
			return true;
	return list->count == 0;
}

/* Copies the list under the lock.  is_local() makes system calls, for which no other worker should
 * wait. */
static void admission_copy_list(struct admission *a, struct admission_list *ret_list)
{
	pthread_mutex_lock(&a->lock);
	ret_list->count = a->list.count;
	memcpy(ret_list->networks, a->list.networks, a->list.count * sizeof(a->list.networks[0]));
	pthread_mutex_unlock(&a->lock);
}

static int admission_check_peer(struct admission *a, int fd, const struct sockaddr_storage *from)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(sa);
	struct admission_list list;

	if (from)
		sa = *from;
	else if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
		return -EACCES; /* the peer has disconnected already */
	/* On a Unix socket the mode of its file has decided already. */
	if (sa.ss_family == AF_UNIX)
		return 0;
	admission_copy_list(a, &list);
	if (!is_listed(&list, &sa))
		return -EACCES;
	return from && list.count > 0 ? 1 : 0;
}

int admission_enter(struct admission *a, int fd, const struct sockaddr_storage *peer)
{
	int rc = 0;

	if (atomic_fetch_add(&a->open, 1) >= atomic_load(&a->max))
		rc = -EUSERS;
	else if (atomic_load(&a->has_list))
		rc = admission_check_peer(a, fd, peer);
	if (rc < 0)
		atomic_fetch_sub(&a->open, 1);
	return rc;
}

void admission_release(struct admission *a)
{
	atomic_fetch_sub(&a->open, 1);
}
