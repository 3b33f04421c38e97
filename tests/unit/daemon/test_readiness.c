/* engine/readiness.c on a socket, with no engine around it. */
#include <sys/socket.h>

#include "readiness.h"
#include "service_case.h"
#include "util.h"

enum { CHUNK = 16 * 1024, CHUNKS = 512 };

extern const struct service service_echo, service_discard;

/* The peer sends `bytes`, which the socket has room for. */
static void peer_sends(int fd, size_t bytes)
{
	static const uint8_t data[CHUNK];

	for (; bytes > 0; bytes -= sizeof(data))
		assert_int_equal(send(fd, data, sizeof(data), MSG_DONTWAIT), sizeof(data));
}

/* The size of a receive grows up to all that a connection may hold. */
TEST(held_bytes_count_before_the_next_receive)
{
	struct service_case *t;
	int fds[2], room = 4 << 20;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	if (setsockopt(fds[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
		skip(); /* only root may have such a large one */
	t = case_new(&service_echo, CHUNKS, CHUNK);
	t->conn->fd = fds[0];
	t->room = 0;
	/* A chunk, and what four of them hold: the next receive is as wide as can be. */
	peer_sends(fds[1], 5 * CHUNK);
	assert_int_equal(readiness_recv(t->conn, true), READINESS_DRAINED);
	case_turns(t);
	assert_int_equal(t->conn->tx.bytes, 5 * CHUNK);

	peer_sends(fds[1], 3 * CONN_HELD_MAX);
	assert_int_equal(readiness_recv(t->conn, true), READINESS_MORE);
	assert_true(conn_held_bytes(t->conn) >= CONN_HELD_MAX);
	assert_true(conn_held_bytes(t->conn) < 2 * CONN_HELD_MAX);
	case_turns(t);
	assert_true(t->recv_off);
	case_free(t);
	close(fds[0]);
	close(fds[1]);
}

/* A bulk receiver, whose service drops its input, has the whole turn in one call. */
TEST(a_bulk_receiver_receives_more_than_others_may_hold)
{
	struct service_case *t;
	struct worker *w;
	int fds[2], room = 4 << 20;
	uint64_t calls;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	if (setsockopt(fds[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
		skip(); /* only root may have such a large one */
	t = case_new(&service_discard, CHUNKS, CHUNK);
	w = &t->worker;
	t->conn->fd = fds[0];
	peer_sends(fds[1], 5 * CHUNK);
	assert_int_equal(readiness_recv(t->conn, true), READINESS_DRAINED);
	case_turns(t);
	assert_true(t->conn->flags & CONN_BULK);

	peer_sends(fds[1], 3 * CONN_HELD_MAX);
	stat_always_add(w->stats.turns, 1);
	calls = stat_load(w->stats.sys_recv);
	assert_int_equal(readiness_recv(t->conn, false), READINESS_MORE);
	assert_int_equal(t->conn->rx.bytes, WORKER_TURN_BYTES);
	assert_int_equal(stat_load(w->stats.sys_recv), calls + 1);
	case_turns(t);
	assert_false(t->recv_off);
	case_free(t);
	close(fds[0]);
	close(fds[1]);
}

/* While chunks are short a connection gets a view of the reserve, but none if it has not read its
 * output in the socket. */
TEST(scarce_chunks_are_for_clients_that_have_read)
{
	struct service_case *t = case_new(&service_echo, CHUNKS, CHUNK);
	struct pool *p = &t->worker.pool;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	t->conn->fd = fds[0];
	while (!pool_is_short(p))
		chunk_get(p);
	peer_sends(fds[1], 3 * CHUNK);
	assert_int_equal(readiness_recv(t->conn, true), READINESS_MORE);
	assert_int_equal(t->conn->rx.bytes, CHUNK / CONN_RESERVE_PARTS);
	assert_int_equal(send(fds[0], "x", 1, 0), 1);
	assert_int_equal(readiness_recv(t->conn, true), READINESS_ENDED);
	assert_true(t->conn->flags & CONN_NO_MEMORY);
	assert_int_equal(recv(fds[1], &(char){ 0 }, 1, 0), 1);
	t->worker.pressure.timer.due(&t->worker.pressure.timer,
				     t->worker.turn.now_ns); /* sees that it was read */
	pressure_resume(&t->worker);
	assert_false(t->conn->flags & CONN_NO_MEMORY);
	assert_int_equal(readiness_recv(t->conn, true), READINESS_MORE);
	assert_int_equal(t->conn->rx.bytes, 2 * CHUNK / CONN_RESERVE_PARTS);
	case_free(t);
	close(fds[0]);
	close(fds[1]);
}
