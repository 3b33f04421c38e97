/* A Varlink server on a Unix socket, on the main thread's sd-event loop.  The interface
 * that it serves is a table of methods.  https://varlink.org
 *
 * The calls of one connection are answered strictly one after the other; a client may send many
 * ahead.  While a call is being answered, or its answer has not been taken, nothing more is read
 * from that client, so that a client occupies at most one message and one answer in our memory.
 *
 * A client is dropped when it sends what is not a call (see varlink_request_parse()), leaves a
 * message unfinished for VARLINK_TIMEOUT_S, reads nothing of an answer for as long, begins no call
 * for VARLINK_SILENCE_S, or would have more than VARLINK_OUTPUT_MAX bytes of unread answers.
 *
 * Calls of root and of our own user come before those of others.  No user can lock out another: a
 * uid may have VARLINK_USER_CLIENTS_MAX clients, all uids other than root and our own together
 * VARLINK_OTHERS_MAX, and the places of root and our own user are reserved.  Each uid may use
 * VARLINK_SHARE_PERCENT of this thread's CPU time, and VARLINK_AHEAD_MS of it at once; then its
 * calls are delayed, not lost, and parts of its streams are skipped. */
#pragma once
#include <stdint.h>
#include <systemd/sd-event.h>

#include "unix_socket.h"
#include "varlink_frame.h"

enum {
	VARLINK_USER_CLIENTS_MAX = 16, /* clients of one uid; further ones are closed at once */
	VARLINK_OTHERS_MAX = 32,       /* clients of all uids other than root and our own */
	VARLINK_CLIENTS_MAX = VARLINK_OTHERS_MAX + 2 * VARLINK_USER_CLIENTS_MAX,
	VARLINK_OUTPUT_MAX = 16 * 1024 * 1024, /* bytes; the limit of systemd's clients */
	VARLINK_TIMEOUT_S = 10,
	VARLINK_SILENCE_S = 30,
	VARLINK_SHARE_PERCENT = 20, /* the share of one CPU that the calls of a user may take */
	VARLINK_AHEAD_MS = 500,     /* CPU time that a user may take in advance of its share */
};

struct varlink;
struct varlink_call;

enum varlink_access {
	VARLINK_READ,   /* root, our own user, members of the group */
	VARLINK_CHANGE, /* root, our own user */
};

struct varlink_method {
	const char *name;
	enum varlink_access access;
	bool more; /* it may answer with a stream: see varlink_call_more() */
	const struct varlink_parameter *parameters; /* checked before the handler; NULL: none */

	/* Must call varlink_reply() or varlink_error() exactly once, now or, after varlink_defer(),
	 * later.  The parameters are valid as long as the call. */
	void (*handle)(struct varlink_call *call, json_t *parameters);
};

struct varlink_interface {
	const char *name;
	const char *description;              /* in Varlink's interface definition language */
	const struct varlink_method *methods; /* ended by one without a name */
};

/* Serves org.varlink.service and this interface, which must outlive the server.  userdata: returned
 * by varlink_call_userdata().  0 or -ENOMEM. */
int varlink_new(sd_event *event, const struct varlink_interface *interface, void *userdata,
		struct varlink **ret_varlink);

/* group: its members may call VARLINK_READ methods; -1: no group.  See unix_socket_open().  0, or
 * -errno with the reason. */
int varlink_listen(struct varlink *v, const char *path, gid_t group, struct reason *reason);

/* Cancels all calls, closes all connections, removes the socket. v may be NULL.  Not to be called
 * from a handler. */
void varlink_free(struct varlink *v);

/* ---- For handlers ---- */

void *varlink_call_userdata(const struct varlink_call *call);
const struct unix_peer *varlink_call_peer(const struct varlink_call *call);
/* True: the client asked for a stream, and the method supports it. */
bool varlink_call_more(const struct varlink_call *call);

/* The handler will answer later. cancel(call, state) is called if the client disconnects before; it
 * must not answer, and the call is invalid after it. */
void varlink_defer(struct varlink_call *call,
		   void (*cancel)(struct varlink_call *call, void *state), void *state);

/* Both end the call, which is invalid when they return.  They take ownership of `parameters`; NULL
 * means "no memory" and drops the client. */
void varlink_reply(struct varlink_call *call, json_t *parameters);
void varlink_error(struct varlink_call *call, const char *error, json_t *parameters);

/* org.varlink.service.InvalidParameter, for values that the table cannot check. */
void varlink_invalid_parameter(struct varlink_call *call, const char *parameter);

/* One part of a stream (continues: true); only if varlink_call_more() and after varlink_defer().
 * Never calls cancel() itself: a failure leads to a cancel() later. */
void varlink_notify(struct varlink_call *call, json_t *parameters);

/* False: skip this part of the stream, because the client has not read the earlier ones, or its
 * user has used its share of CPU time.  So a stream has at most one part queued. */
bool varlink_can_notify(const struct varlink_call *call);

/* CPU time of handlers and of sending is charged to the client's user.  Work for a deferred call is
 * charged by: begin = clock_thread_ns(); work; varlink_charge(). */
void varlink_charge(const struct varlink_call *call, uint64_t begin_ns);
/* Charges the time (CLOCK_MONOTONIC) since since_ns that the client has waited for another thread,
 * as if that were CPU time, so that it has that thread work for its share only.  Root and our own
 * user are not charged. */
void varlink_charge_wait(const struct varlink_call *call, uint64_t since_ns);
