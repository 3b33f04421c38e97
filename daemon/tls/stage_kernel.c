/* Sessions whose records the kernel seals or opens: gives it the keys, and handles the records
 * without data and the end of the session.  Worker's thread.  See stage.h. */
#include <errno.h>
#include <string.h>

#include "engine.h"
#include "stage.h"

enum {
	/* RFC 8446: content types, an alert and a message */
	CONTENT_ALERT = 21,
	CONTENT_HANDSHAKE = 22,
	ALERT_CLOSE_NOTIFY = 0,
	MESSAGE_KEY_UPDATE = 24,
	/* Attempts to send close_notify to a client that takes no output.  The wait before
	 * the next attempt doubles CLOSE_DOUBLINGS times, from CLOSE_WAIT_NS on, and then
	 * stays: about a minute in all. */
	CLOSE_TRIES = 100,
	CLOSE_DOUBLINGS = 6,
};
#define CLOSE_WAIT_NS (10 * (uint64_t)NS_PER_MS)

static bool give(struct stage_conn *t, enum kernel_direction direction)
{
	struct conn *c = t->conn;
	struct stats *stats = &c->worker->stats;
	struct tls_keys keys = { 0 };
	int rc = -ENOKEY;

	if (tls_library.keys(t->session, direction == KERNEL_SENDS, &keys))
		rc = kernel_give(c->fd, direction, stage_of(c->worker)->cipher, &keys);
	explicit_bzero(&keys, sizeof(keys));
	stat_add(stats->sys_other, direction == KERNEL_SENDS ? 1 : 2);
	if (rc < 0) {
		stat_add(stats->tls_kernel_refused, 1);
		stage_log(t, strerror(-rc));
		conn_close(c, CONN_END_ERROR);
		return false;
	}
	stat_add(stats->tls_kernel_sends, direction == KERNEL_SENDS);
	stat_add(stats->tls_kernel_receives, direction == KERNEL_RECEIVES);
	t->kernel |= (uint8_t)direction;
	return true;
}

/* Gives the kernel the keys to open the client's records.  The library has read no byte behind the
 * last record of the handshake, so the kernel begins with the first record with data, even if that
 * has arrived already. */
static bool take_input(struct stage_conn *t)
{
	struct conn *c = t->conn;

	if (t->in.head) {
		stage_fail(t, "data before the end of the handshake");
		return false;
	}
	if (!give(t, KERNEL_RECEIVES))
		return false;
	c->flags &= ~(uint32_t)CONN_RAW;
	t->opened_in = c->bytes_in;
	c->worker->engine->recv(c, true);
	return true;
}

bool kernel_takes_over(struct stage_conn *t)
{
	struct conn *c = t->conn;
	unsigned missing = stage_of(c->worker)->kernel & ~(unsigned)t->kernel;

	if (likely(!missing))
		return true;
	if ((missing & KERNEL_RECEIVES) && !take_input(t))
		return false;
	if (conn_has_unsent(c)) { /* by the library */
		stage_watch(t);
		return false;
	}
	if (!give(t, KERNEL_SENDS))
		return false;
	if (t->kernel & KERNEL_RECEIVES) {
		tls_library.free(t->session);
		t->session = NULL;
	}
	return true;
}

const char *kernel_control(struct stage_conn *t)
{
	struct conn *c = t->conn;
	uint8_t data[2], type;
	ssize_t n = kernel_receive_control(c->fd, &type, data, sizeof(data));

	t->control = false;
	stat_add(c->worker->stats.sys_recv, 1);
	if (n < 0)
		return strerror((int)-n);
	if (type == CONTENT_ALERT)
		return n == 2 && data[1] == ALERT_CLOSE_NOTIFY ? NULL : "the client's alert";
	if (type != CONTENT_HANDSHAKE || n == 0 || data[0] != MESSAGE_KEY_UPDATE)
		return "a record that has no place behind the handshake";
	stat_add(c->worker->stats.tls_key_updates, 1);
	return "the client changes its keys, which the kernel cannot follow";
}

/* ---- The end ---- */

static const struct bufq nothing;

static void retry_due(struct timer *timer, uint64_t now_ns)
{
	struct stage_conn *t = container_of(timer, struct stage_conn, retry);

	(void)now_ns;
	conn_io_end(t->conn, &nothing);
	t->conn->flags |= CONN_OWN_RUN;
	conn_ready(t->conn);
}

bool kernel_ends(struct stage_conn *t)
{
	struct conn *c = t->conn;
	unsigned doublings = MIN(t->tries, (unsigned)CLOSE_DOUBLINGS);

	t->last |= (c->flags & CONN_LAST) != 0;
	c->flags &= ~(uint32_t)CONN_LAST;
	if (conn_has_unsent(c)) {
		stage_watch(t);
		return false;
	}
	if (deadline_is_armed(&t->retry))
		return false;
	stat_add(c->worker->stats.sys_other, 1);
	stat_add(c->worker->stats.sys_send, 1);
	if (kernel_close_notify(c->fd) != -EAGAIN || t->tries++ == CLOSE_TRIES)
		return true;
	conn_io_begin(c, &nothing);
	t->retry.due = retry_due;
	worker_arm(c->worker, &t->retry, c->worker->turn.now_ns + (CLOSE_WAIT_NS << doublings));
	return false;
}
