/* core/session.c: places of clients, and members that outlive what they use. */
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "service.h"
#include "session.h"
#include "unit.h"
#include "worker.h"

/* Gives each connection a client address of its own, made from its number. */
static void address_of_client(const struct conn *c, struct sockaddr_storage *ret)
{
	*ret = (struct sockaddr_storage){ .ss_family = AF_INET };
	((struct sockaddr_in *)ret)->sin_addr.s_addr = htonl(0x0a000000 + (uint32_t)c->id);
}

/* A worker that does not run, with the sessions of its listener. */
static int setup(void **state)
{
	static const struct engine_clients no_sockets = { .peer = address_of_client };
	static const struct engine engine = { .clients = &no_sockets };
	struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));
	struct reason reason;

	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	w->engine = &engine;
	assert_int_equal(mailbox_init(&w->mailbox), 0);
	w->shared = sessions_new(NULL, NULL, &reason);
	assert_non_null(w->shared);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct worker *w = *state;

	sessions_free(w->shared);
	mailbox_fini(&w->mailbox);
	free(w);
	return 0;
}

/* Begins sessions until `client` is refused; returns their number, the members hold them. */
static unsigned begin_all(struct conn *client, struct session_member **members)
{
	unsigned count = 0;
	int rc;

	do {
		struct session *session = calloc(1, sizeof(*session));
		uint64_t key[] = { client->id, count };

		assert_non_null(session);
		assert_non_null(members[count] = calloc(1, sizeof(**members)));
		session_member_init(members[count], client);
		rc = session_begin(session, members[count], key, sizeof(key));
		if (rc < 0)
			free(session);
	} while (rc == 0 && ++count <= SESSIONS_MAX);
	assert_int_equal(rc, -EBUSY);
	session_leave(members[count], NULL);
	return count;
}

TEST_WITH(one_client_leaves_places_for_others, setup, teardown, NULL)
{
	struct worker *w = *state;
	struct session_member **members = calloc(2 * SESSIONS_MAX, sizeof(struct session_member *));
	struct conn clients[] = { { .worker = w, .fd = -1, .id = 1 },
				  { .worker = w, .fd = -1, .id = 2 } };
	unsigned first, second;

	assert_non_null(members);
	first = begin_all(&clients[0], members);
	assert_int_equal(first, SESSIONS_MAX / 2);
	second = begin_all(&clients[1], members + first);
	assert_int_equal(second, SESSIONS_MAX / 4);
	for (unsigned i = 0; i < first + second; i++)
		session_leave(members[i], NULL);
	assert_int_equal(begin_all(&clients[1], members), SESSIONS_MAX / 2);
	for (unsigned i = 0; i < SESSIONS_MAX / 2; i++)
		session_leave(members[i], NULL);
	free(members);
}

/* A call that is posted to the control connection when that leaves must not use a twin's table any
 * more: the twin's listener may have been freed when the call arrives. */
TEST_WITH(calls_outlive_twins, setup, teardown, NULL)
{
	static const struct service service = { .name = "any" };
	struct worker *w = *state;
	struct sockaddr_storage local = { .ss_family = AF_INET };
	socklen_t length = sizeof(local);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct session_member *control = calloc(1, sizeof(*control));
	struct session *session = calloc(1, sizeof(*session));
	struct conn c = { .worker = w, .fd = -1 };
	struct session_twin twin;
	struct reason reason;
	struct sessions *udp = sessions_new(NULL, NULL, &reason);

	assert_int_equal(bind(fd, (struct sockaddr *)&local, sizeof(struct sockaddr_in)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &length), 0);
	sessions_listen(udp, &service,
			&(struct service_endpoint){ &transport_udp, local, fd, 65507, false });
	assert_true(session_twin_get(&service, &local, &twin));
	session_member_init(control, &c);
	assert_int_equal(session_begin(session, control, "tcp", 3), 0);
	assert_int_equal(session_move(session, twin.sessions, "udp", 3), 0);
	sessions_free(udp); /* the listener has gone; control still has its twin */
	sessions_lock(twin.sessions);
	session_call(control);
	sessions_unlock(twin.sessions);
	session_leave(control, NULL);
	assert_ptr_equal(control->sessions, w->shared);
	session_twin_put(&twin);
	mailbox_run(&w->mailbox);
	close(fd);
}

/* A listener that has replaced another one has its sessions, and keeps its own places when that one
 * ends. */
TEST_WITH(a_replaced_listener_leaves_its_sessions, setup, teardown, NULL)
{
	static const struct service service = { .name = "any" };
	struct sockaddr_storage local = { .ss_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const struct service_endpoint place = { &transport_udp, local, fd, 1000, false };
	struct session_twin twin;
	struct reason reason;
	struct sessions *old = sessions_new(NULL, NULL, &reason), *next;

	sessions_listen(old, &service, &place);
	assert_false(sessions_are_kept(old));
	next = sessions_keep(old);
	assert_true(sessions_are_kept(old));
	sessions_listen(old, &service, NULL);
	sessions_listen(next, &service, &place);
	sessions_free(old);
	assert_false(sessions_are_kept(next));
	assert_true(session_twin_get(&service, &local, &twin));
	assert_int_equal(twin.datagram_max, 1000);
	session_twin_put(&twin);
	sessions_free(next);
	assert_false(session_twin_get(&service, &local, &twin));
	close(fd);
}
