/* Limits and allow list.  See admission.h. */
#include "admission.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADMISSION_BUCKETS = 1024 };

/* The connections of one address. */
struct admission_peer {
	struct admission_peer *next;
	struct in6_addr address;
	uint64_t count;
};

struct admission {
	_Atomic uint64_t open, max;
	pthread_mutex_t lock; /* protects all fields below */
	uint64_t max_per_address;
	struct network allow[CONFIG_NETWORKS_MAX];
	unsigned allow_count;
	struct admission_peer *peers[ADMISSION_BUCKETS];
	_Atomic bool needs_peer; /* a limit or list depends on the peer */
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
	for (unsigned i = 0; i < ADMISSION_BUCKETS; i++) {
		while (a->peers[i]) {
			struct admission_peer *p = a->peers[i];

			a->peers[i] = p->next;
			free(p);
		}
	}
	pthread_mutex_destroy(&a->lock);
	free(a);
}

void admission_set(struct admission *a, const struct listener_config *config)
{
	pthread_mutex_lock(&a->lock);
	a->max_per_address = config->max_connections_per_address;
	memcpy(a->allow, config->allow, sizeof(a->allow));
	a->allow_count = config->allow_count;
	pthread_mutex_unlock(&a->lock);
	atomic_store(&a->needs_peer, a->max_per_address || a->allow_count);
	/* Not for UDP, where the oldest client is evicted rather than a new one refused: each
	 * worker's table of peers has its share of the limit. */
	atomic_store(&a->max, config->max_connections && !config->options.datagrams
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

/* Is peer an address of this host?  Checked by connecting a UDP socket, which sends nothing: only
 * then is the peer's address also the source address. */
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

static bool admission_allowed(const struct admission *a, const struct sockaddr_storage *peer)
{
	struct in6_addr address = sockaddr_mapped(peer);

	for (unsigned i = 0; i < a->allow_count; i++)
		if (a->allow[i].local ? is_local(peer) : network_contains(&a->allow[i], &address))
			return true;
	return a->allow_count == 0;
}

static struct admission_peer **admission_bucket(struct admission *a, const struct in6_addr *peer)
{
	uint64_t parts[2];

	memcpy(parts, peer, sizeof(parts));
	parts[0] = (parts[0] ^ parts[1]) * UINT64_C(0x9E3779B97F4A7C15);
	return &a->peers[(parts[0] >> 32) % ADMISSION_BUCKETS];
}

/* Counts a connection of this address; the caller holds the lock.  NULL: no memory. */
static struct admission_peer *admission_count(struct admission *a, const struct in6_addr *address)
{
	struct admission_peer **bucket = admission_bucket(a, address), *p = *bucket;

	while (p && memcmp(&p->address, address, sizeof(*address)) != 0)
		p = p->next;
	if (!p) {
		p = malloc(sizeof(*p));
		if (!p)
			return NULL;
		*p = (struct admission_peer){ .next = *bucket, .address = *address };
		*bucket = p;
	}
	p->count++;
	return p;
}

static void admission_uncount(struct admission *a, struct admission_peer *peer)
{
	struct admission_peer **p = admission_bucket(a, &peer->address);

	if (--peer->count > 0)
		return;
	while (*p != peer)
		p = &(*p)->next;
	*p = peer->next;
	free(peer);
}

static int admission_check_peer(struct admission *a, int fd, const struct sockaddr_storage *from,
				void **ret_ticket)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(sa);
	struct admission_peer *peer;
	struct in6_addr address;
	bool is_unix;
	int rc;

	if (from)
		sa = *from;
	else if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
		return -EACCES; /* the peer has disconnected already */
	is_unix = sa.ss_family == AF_UNIX;
	address = sockaddr_mapped(&sa);
	if (is_unix && !user_as_address(fd, &address))
		return -EACCES;
	pthread_mutex_lock(&a->lock);
	rc = from && a->allow_count > 0;
	/* On a Unix socket the mode of its file has decided already. */
	if (!is_unix && !admission_allowed(a, &sa)) {
		rc = -EACCES;
	} else if (a->max_per_address) {
		peer = admission_count(a, &address);
		if (!peer || peer->count > a->max_per_address) {
			if (peer)
				admission_uncount(a, peer);
			rc = -EUSERS;
		} else {
			*ret_ticket = peer;
		}
	}
	pthread_mutex_unlock(&a->lock);
	return rc;
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
	admission_uncount(a, ticket);
	pthread_mutex_unlock(&a->lock);
}
