/* service/perftest/perftest.c: the control connection of a client over iWARP. */
#include <netinet/in.h>

#include "perftest/proto.h"
#include "registry.h"
#include "service_case.h"

enum { CHUNKS = 32, CHUNK = 4096 };

static const uint8_t go_on[56]; /* a message about no queue pair */
static const struct engine_device iwarp = { .name = "siw0", .transport = "iWARP" };

static void peer_of(const struct conn *c, struct sockaddr_storage *ret_peer)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret_peer;

	(void)c;
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(0x0a090101);
}

static const struct engine_device *device_of(const struct conn *c)
{
	(void)c;
	return &iwarp;
}

static void scratch_region(const struct conn *c, struct region *ret_region)
{
	*ret_region = case_of(c->worker)->region;
}

static bool is_pair(const struct conn *c)
{
	(void)c;
	return false;
}

static const struct engine_clients clients = { .peer = peer_of, .device = device_of };
static const struct engine_remote remote = { .submit = case_submit,
					     .region = case_region,
					     .scratch_region = scratch_region,
					     .is_pair = is_pair };
static struct engine engine; /* case_remote_engine with these */

static struct service_case *start(void)
{
	struct service_case *t = case_new_idle(registry_service("perftest"), CHUNKS, CHUNK);
	struct reason reason;

	engine = case_remote_engine;
	engine.clients = &clients;
	engine.remote = &remote;
	t->worker.engine = &engine;
	t->worker.shared = t->worker.service->shared_new(NULL, NULL, &reason);
	assert_non_null(t->worker.shared);
	case_connect(t);
	return t;
}

static void stop(struct service_case *t)
{
	const struct service *service = t->worker.service;
	void *shared = t->worker.shared;

	case_free(t);
	service->shared_free(shared);
}

CLEANUP_OF(struct service_case *, stop)

/* The client says it, and is answered with as many bytes. */
static void say(struct service_case *t, const void *message, uint32_t bytes)
{
	size_t before = t->out_bytes;

	assert_non_null(t->conn);
	remote_message(t->conn, message, bytes);
	case_turns(t);
	assert_int_equal(t->out_bytes, before + bytes);
}

/* Before it connects for its data it fills its memory byte by byte: 16 MiB with -a. */
TEST(a_client_has_time_to_fill_its_memory)
{
	CLEANUP(stop_p) struct service_case *t = start();

	say(t, perftest_version, PERFTEST_VERSION);
	say(t, go_on, sizeof(go_on));
	case_pass(t, 50 * (uint64_t)NS_PER_S);
	say(t, go_on, sizeof(go_on));
	case_pass(t, 1000 * (uint64_t)NS_PER_S); /* data flows */
	say(t, go_on, sizeof(go_on));
}

/* Others of its address wait for their turn. */
TEST(a_client_that_does_not_connect_is_ended)
{
	CLEANUP(stop_p) struct service_case *t = start();

	say(t, perftest_version, PERFTEST_VERSION);
	say(t, go_on, sizeof(go_on));
	case_pass(t, 61 * (uint64_t)NS_PER_S);
	assert_null(t->conn);
	assert_int_equal(t->ends[CONN_END_IDLE], 1);
}
