/* Sessions: the connections that belong to one test of a client (a control connection and data
 * connections), on any workers of a listener.  They find each other by a key, and one can make
 * another run.  A session begins and ends with its control connection; data connections join it by
 * a key that the service chooses.  A listener that replaces another one has its sessions: what
 * connects for a session may come to either.
 *
 * One mutex per listener protects the table and the data that members share.  It is taken when a
 * session or a member begins, changes its phase or ends, never while data flows. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "mailbox.h"
#include "tally.h"

enum {
	/* Sessions of one listener at a time.  A client may have as many as are free, no more: so
	 * each client, however many it begins, leaves places for others. */
	SESSIONS_MAX = 4096,
	SESSION_KEY_MAX = 40, /* bytes */
};

struct conn;
struct reason;
struct service;
struct service_endpoint;
struct sessions; /* the sessions of one listener */
struct worker;
struct worker_options;

/* One connection.  Must be the first field of the state that the service allocates with malloc()
 * for the connection: session_leave() frees it. */
struct session_member {
	struct call call;
	bool called;       /* call has been posted and has not run yet */
	struct conn *conn; /* NULL: the connection has ended */
	struct worker *worker;
	struct sessions *sessions;
	struct session *session;           /* NULL: not a member yet */
	struct session_member *next, **at; /* links of session->data */
};

/* Must be the first field of the state that the service allocates with calloc() for the session: it
 * is freed when the last member has left. */
struct session {
	struct session *next; /* next in its bucket */
	struct session_member *control;
	struct session_member *data, **last; /* the others, in the order in which they joined */
	struct tally_entry *client;          /* the entry of its client's address */
	unsigned references;                 /* one for each member */
	bool listed;                         /* it is in the table, where session_find() finds it */
	uint8_t key_bytes;
	uint8_t key[SESSION_KEY_MAX];
	void (*release)(struct session *session); /* frees what belongs to it; NULL: nothing */
};

/* shared_new(), shared_keep() and shared_free() of every service that uses sessions: see
 * service.h. */
void *sessions_new(const struct worker_options *options, const char *listener,
		   struct reason *reason);
void *sessions_keep(void *sessions);
void sessions_free(void *sessions);
/* Does more than one listener have these sessions?  Then connections for them still arrive when
 * one of them drains. */
bool sessions_are_kept(struct sessions *sessions);

void sessions_lock(struct sessions *sessions);
void sessions_unlock(struct sessions *sessions);

/* ---- Twins ----
 *
 * A test with control over TCP and data over UDP needs two listeners of the service at the same
 * address and port.  The session is in the table of the UDP listener, where arriving data looks it
 * up; its control connection is a connection of the TCP listener. */

/* service->listens() of every service that uses sessions. */
void sessions_listen(void *sessions, const struct service *service,
		     const struct service_endpoint *endpoint);

struct session_twin {
	struct sessions *sessions;
	int receive_buffer, send_buffer; /* bytes: SO_RCVBUF, SO_SNDBUF of its socket */
	/* bytes: the listener's buffer-size, which is the longest datagram that it receives. */
	uint64_t datagram_max;
};

/* Finds the UDP listener of that service that serves at `local`; false: there is none.  The caller
 * gives it back by session_twin_put() (harmless if repeated).  Any thread. */
bool session_twin_get(const struct service *service, const struct sockaddr_storage *local,
		      struct session_twin *ret_twin);
void session_twin_put(struct session_twin *twin);
/* Logs, at a limited rate, that the client of c needs a UDP listener at the address that it
 * connected to, and none serves there. */
void session_twin_missing(const struct conn *c);

/* A key for sessions: the client's address and the local port at which its data is expected. */
struct session_address {
	uint8_t address[16]; /* address of the client; IPv4 as ::ffff:a.b.c.d */
	uint8_t port[2];     /* local, big-endian */
};

/* Fills in the peer's address and the local port of c; in open() with fewer system calls. */
void session_address_of(const struct conn *c, struct session_address *ret);

void session_member_init(struct session_member *member, struct conn *c);

/* ---- Under the lock ---- */

/* NULL: no session with this key can be joined. */
struct session *session_find(struct sessions *sessions, const void *key, size_t bytes);
/* Begins a session, which the caller has allocated.  0; -EAGAIN: the key is in use; -EBUSY: the
 * client has as many as it may have now.  In both cases the session is still the caller's. */
int session_begin(struct session *session, struct session_member *control, const void *key,
		  size_t bytes);
void session_join(struct session *session, struct session_member *member);
/* Takes the session out of the table: it cannot be joined any more, and its key is free. */
void session_unlist(struct session *session);
/* Makes the member's connection run soon, on its own worker.  No effect if member is NULL or its
 * connection has ended. */
void session_call(struct session_member *member);
/* session_call() of all data members. */
void session_call_data(struct session *session);

/* ---- Takes the lock ---- */

/* Removes the member from its session, if it is in one; it may join another one.  left() is called
 * first, under the lock, to notify the remaining members; NULL: they are not notified.  When the
 * control member leaves, the session is taken out of the table. */
void session_part(struct session_member *member, void (*left)(struct session_member *member));

/* Moves the session, whose only member is its control connection, into the table of
 * a twin.  0; -EAGAIN: the key is in use there; -EBUSY: as session_begin().  Thread
 * of the control connection. */
int session_move(struct session *session, struct sessions *to, const void *key, size_t bytes);

/* The connection ends: session_part(), and frees member, now or when a posted call has run. */
void session_leave(struct session_member *member, void (*left)(struct session_member *member));
