/* server/admission.c: limits, the allow list, and that the counts come back to zero. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admission.h"
#include "transport.h"
#include "unit.h"
#include "util.h"

CLEANUP_OF(struct admission *, admission_free)

enum { THREADS = 8, ROUNDS = 2000 };

static struct listener_config *config_with(uint64_t max, const char *allow)
{
	struct listener_config *config = calloc(1, sizeof(*config));

	assert_non_null(config);
	config->transport = &transport_tcp;
	config->max_connections = max;
	if (allow)
		assert_int_equal(network_parse(allow, &config->allow[config->allow_count++]), 0);
	return config;
}

static struct admission *admission_with(uint64_t max, const char *allow)
{
	struct listener_config *config = config_with(max, allow);
	struct admission *a = admission_new(config);

	assert_non_null(a);
	free(config);
	return a;
}

/* A client's address. */
static struct sockaddr_storage peer_at(const char *host)
{
	struct sockaddr_storage peer = { .ss_family = strchr(host, ':') ? AF_INET6 : AF_INET };

	if (peer.ss_family == AF_INET)
		inet_pton(AF_INET, host, &((struct sockaddr_in *)&peer)->sin_addr);
	else
		inet_pton(AF_INET6, host, &((struct sockaddr_in6 *)&peer)->sin6_addr);
	return peer;
}

static int enter_from(struct admission *a, const char *host)
{
	struct sockaddr_storage peer = peer_at(host);
	int rc = admission_enter(a, -1, &peer);

	if (rc >= 0)
		admission_release(a);
	return rc;
}

TEST(the_allow_list_lets_only_its_networks_in)
{
	static const struct {
		const char *allow;
		int result; /* 1: as the list says */
	} cases[] = {
		{ NULL, 0 },
		{ "127.0.0.0/8", 1 },
		{ "127.0.0.9", 1 },
		{ "127.0.0.8/31", 1 },
		{ "127.0.0.8", -EACCES },
		{ "127.0.0.10/31", -EACCES },
		{ "10.0.0.0/8", -EACCES },
		{ "::1/128", -EACCES },
		{ "::ffff:127.0.0.0/120", 1 },
		{ "local", 1 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(admission_free_p) struct admission *a = admission_with(1, cases[i].allow);

		/* Repeated: an attempt must not be counted when it is over. */
		for (unsigned again = 0; again < 4; again++)
			assert_int_equal(
				enter_from(a, again % 2 ? "127.0.0.9" : "::ffff:127.0.0.9"),
				cases[i].result);
	}
}

/* Loopback, and whatever addresses its interfaces have, of which the tests' host may have none. */
TEST(local_lets_this_host_in)
{
	static const char *const others[] = { "192.0.2.1", "198.51.100.7",
					      "0.0.0.0",   "255.255.255.255",
					      "224.0.0.1", "2001:db8::1",
					      "::",        "ff02::1" };
	CLEANUP(admission_free_p) struct admission *a = admission_with(1, "local");
	struct ifaddrs *own;

	assert_int_equal(getifaddrs(&own), 0);
	for (const struct ifaddrs *i = own; i; i = i->ifa_next) {
		char host[INET6_ADDRSTRLEN];

		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
			continue;
		inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, host,
			  sizeof(host));
		assert_int_equal(enter_from(a, host), 1);
	}
	freeifaddrs(own);
	assert_int_equal(enter_from(a, "127.1.2.3"), 1);
	assert_int_equal(enter_from(a, "::1"), 1);
	assert_int_equal(enter_from(a, "::ffff:127.0.0.1"), 1);
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(enter_from(a, others[i]), -EACCES);
}

/* As the connection manager names an InfiniBand client that has no IP address. */
TEST(a_client_without_an_ip_address_is_in_no_network)
{
	static const char *const allows[] = { "::/0", "::", "local" };
	const struct sockaddr_storage peer = { .ss_family = AF_IB };

	for (unsigned i = 0; i < ARRAY_SIZE(allows); i++) {
		CLEANUP(admission_free_p)
		struct admission *a = admission_with(0, allows[i]);

		assert_int_equal(admission_enter(a, -1, &peer), -EACCES);
	}
}

TEST(a_client_that_has_left_already_is_refused)
{
	struct admission *a = admission_with(0, "127.0.0.0/8");
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(admission_enter(a, fd, NULL), -EACCES);
	admission_free(a);
	close(fd);
}

TEST(a_changed_limit_counts_those_that_are_open)
{
	struct admission *a = admission_with(0, NULL);
	struct listener_config *config = config_with(3, "127.0.0.0/8");
	struct sockaddr_storage one = peer_at("127.0.0.1");

	assert_int_equal(admission_enter(a, -1, &one), 0);
	assert_int_equal(admission_enter(a, -1, &one), 0);
	admission_set(a, config);
	assert_int_equal(admission_enter(a, -1, &one), 1);
	assert_int_equal(admission_enter(a, -1, &one), -EUSERS);
	admission_release(a);
	assert_int_equal(admission_enter(a, -1, &one), 1);
	free(config);
	admission_free(a);
}

/* ---- Threads ---- */

struct crowd {
	struct admission *a;
	struct sockaddr_storage peer;
	_Atomic unsigned in, most, entered;
};

static void *come_and_go(void *arg)
{
	struct crowd *crowd = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned in, most = atomic_load(&crowd->most);

		if (admission_enter(crowd->a, -1, &crowd->peer) < 0)
			continue;
		in = atomic_fetch_add(&crowd->in, 1) + 1;
		atomic_fetch_add(&crowd->entered, 1);
		while (in > most && !atomic_compare_exchange_weak(&crowd->most, &most, in))
			;
		atomic_fetch_sub(&crowd->in, 1);
		admission_release(crowd->a);
	}
	return NULL;
}

TEST(threads_coming_and_going_end_at_zero)
{
	enum { LIMIT = 3 };
	struct crowd crowd = { .a = admission_with(LIMIT, "127.0.0.0/8"),
			       .peer = peer_at("127.0.0.1") };
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(crowd.entered > 0);
	assert_in_range(crowd.most, 1, LIMIT);
	for (unsigned i = 0; i < LIMIT; i++)
		assert_int_equal(admission_enter(crowd.a, -1, &crowd.peer), 1);
	assert_int_equal(admission_enter(crowd.a, -1, &crowd.peer), -EUSERS);
	admission_free(crowd.a);
}
