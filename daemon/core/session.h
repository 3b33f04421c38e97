/* Connections that make one test of a client: how those of control and of data find each other,
 * over all workers of a listener, and how one has another run.
 *
 * A session begins and ends with its control connection; others join it by a key that the service
 * knows.  What is looked up or changes hands is under one mutex per listener, which is taken when a
 * session or a connection of it begins, changes its phase or ends: never while bytes flow. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "mailbox.h"

enum {
	SESSIONS_MAX = 4096,  /* at a time, of one listener */
	SESSION_KEY_MAX = 40, /* bytes */
};

struct conn;
struct reason;
struct service;
struct sessions; /* of one listener */
struct worker;
struct worker_options;

/* One connection.  The first field of what the service allocates with malloc() for it, which
 * session_leave() frees. */
struct session_member {
	struct call call;
	bool called;       /* call is on its way */
	struct conn *conn; /* NULL: it has left */
	struct worker *worker;
	struct sessions *sessions;
	struct session *session; /* NULL: none yet */
};

/* Embedded in what the service knows of it. */
struct session {
	struct session *next; /* of its bucket */
	struct session_member *control;
	unsigned references; /* members */
	bool listed;         /* others may find it */
	uint8_t key_bytes;
	uint8_t key[SESSION_KEY_MAX];
	void (*release)(struct session *session); /* the last member has left: frees it */
};

/* See service->shared_new(); of any service whose connections are members. */
void *sessions_new(const struct worker_options *options, const char *listener,
		   struct reason *reason);
void sessions_free(void *sessions);
unsigned sessions_count(struct sessions *sessions);

void sessions_lock(struct sessions *sessions);
void sessions_unlock(struct sessions *sessions);

/* ---- Twins ----
 *
 * A test with its control over TCP and its data over UDP needs two listeners of the service, at one
 * address and port.  Its control is a member of a session of the listener for datagrams, where
 * those who bring data look for it. */

/* See service->listens(). */
void sessions_listen(void *sessions, const struct service *service, int fd);

struct session_twin {
	struct sessions *sessions;
	int receive_buffer, send_buffer; /* SO_RCVBUF, SO_SNDBUF of its socket */
	uint64_t datagram_max;           /* bytes: its buffer-size */
};

/* The listener of datagrams of that service that serves at `local`, to be given back, which is no
 * error twice.  False: there is none.  Any thread. */
bool session_twin_get(const struct service *service, const struct sockaddr_storage *local,
		      struct session_twin *ret_twin);
void session_twin_put(struct session_twin *twin);
/* Logs, not too often, that the client of c asks for one and none serves where it has come to. */
void session_twin_missing(const struct conn *c);

/* A key: where data of a test are awaited, and whose. */
struct session_address {
	uint8_t address[16]; /* the client's; IPv4 as ::ffff:a.b.c.d */
	uint8_t port[2];     /* ours */
};

/* By where a connection comes from and the port that it came to, or a datagram. */
void session_address_of(const struct conn *c, struct session_address *ret);
/* Where the client has come to; AF_UNSPEC: it left. */
struct sockaddr_storage session_local_of(const struct conn *c);

void session_member_init(struct session_member *member, struct conn *c);

/* ---- Under the lock ---- */

/* NULL: there is none of this key that may be joined. */
struct session *session_find(struct sessions *sessions, const void *key, size_t bytes);
/* The caller has allocated it, with zeros, and set release().  0, or -EBUSY: too many. */
int session_begin(struct session *session, struct session_member *control, const void *key,
		  size_t bytes);
void session_join(struct session *session, struct session_member *member);
/* From now on the session is not found any more, and its key is free. */
void session_unlist(struct session *session);
/* Has the member's connection run soon, on its own worker.  NULL, and one that has left: nothing.
 */
void session_call(struct session_member *member);

/* The member leaves its session, and may join another; of control, that is the session's end.  If
 * it was the last, the session, to be released without the lock; else NULL. */
struct session *session_part(struct session_member *member);

/* ---- Takes the lock ---- */

/* The session, which nobody but its control has joined, goes into another table, of a twin.  0,
 * -EAGAIN: one there has this key; -EBUSY: too many.  Control's thread. */
int session_move(struct session *session, struct sessions *to, const void *key, size_t bytes);

/* The connection ends: frees member, now or when a call on its way has arrived.  left(), if the
 * member is in a session, tells those who stay, under the lock: member->session->control is still
 * what it was. */
void session_leave(struct session_member *member, void (*left)(struct session_member *member));
