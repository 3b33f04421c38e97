/* Private to varlink.c (server), varlink_call.c (answers), varlink_client.c (connections),
 * varlink_user.c (accounting by user) and varlink_service.c. */
#pragma once
#include "varlink.h"

struct varlink_call {
	struct varlink_client *client;
	struct varlink_request request;
	const struct varlink_method *method; /* NULL: no call is being answered */
	void *userdata;
	void (*cancel)(struct varlink_call *call, void *state);
	void *state;
};

/* Output that the kernel has not taken yet: bytes [start, bytes) of data. */
struct varlink_output {
	char *data;
	size_t start, bytes, room;
};

/* A user: the number of its clients, and an account of the CPU time that they used. */
struct varlink_user {
	uid_t uid;
	unsigned clients;
	/* CLOCK_MONOTONIC: until then the CPU time already used exceeds the user's share. */
	uint64_t even_us;
};

struct varlink_users {
	struct varlink_user list[VARLINK_CLIENTS_MAX];
	uid_t own; /* our uid; it and root have reserved places */
};

/* The step that a client has to take within a time limit, see client_await(). */
enum varlink_wait {
	VARLINK_WAIT_NONE, /* no step: the client waits for us */
	VARLINK_WAIT_TURN, /* no step: the client waits for us, and other clients come first */
	VARLINK_WAIT_CALL, /* to begin a call */
	VARLINK_WAIT_REST, /* to finish the message that it began */
	VARLINK_WAIT_TAKE, /* to read its answers */
	/* No step: the client waits until its user has a share of CPU time again. */
	VARLINK_WAIT_SHARE,
};

struct varlink_client {
	struct varlink *varlink;
	struct varlink_user *user;
	unsigned slot; /* in varlink->clients */
	int fd;
	struct unix_peer peer;
	const char *dropped; /* the reason for which it is being dropped; NULL: it is not */
	bool eof;            /* it has closed its sending side */
	bool running;        /* in client_run() */
	struct varlink_reader reader;
	struct varlink_output output;
	enum varlink_wait wait;
	sd_event_source *io, *timer, *kick;
	struct varlink_call call;
};

struct varlink {
	sd_event *event;
	const struct varlink_info *info;
	void (*on_call)(struct varlink_call *call); /* handles call->request */
	struct {
		const struct varlink_interface *interface;
		void *userdata;
	} interfaces[VARLINK_INTERFACES_MAX];
	unsigned interface_count;
	gid_t group;
	struct unix_socket socket;
	sd_event_source *accept, *accept_timer;
	struct varlink_users users;
	struct varlink_client *clients[VARLINK_CLIENTS_MAX];
};

/* Of sd-event: new clients and those of root and our own user are dispatched before others'. */
enum {
	VARLINK_PRIORITY_TRUSTED = SD_EVENT_PRIORITY_NORMAL - 2,
	VARLINK_PRIORITY_OTHERS = SD_EVENT_PRIORITY_NORMAL,
};

/* ---- varlink_user.c: pure ---- */

/* Root, or the user that we run as. */
bool varlink_user_is_trusted(const struct varlink_users *users, uid_t uid);
/* The record of uid, valid while uid has clients or has used more than its share. */
struct varlink_user *varlink_user_find(struct varlink_users *users, uid_t uid);
/* Takes a place, which varlink_user_leave() returns; false: the limit is reached. */
bool varlink_user_enter(struct varlink_users *users, struct varlink_user *user);
void varlink_user_leave(struct varlink_user *user);
/* Charges the user for cpu_ns of this thread's time. */
void varlink_user_charge(struct varlink_user *user, uint64_t now_us, uint64_t cpu_ns);
/* Time until calls of the user may be handled; 0: now. */
uint64_t varlink_user_wait_us(const struct varlink_user *user, uint64_t now_us);

/* ---- varlink_client.c ---- */

/* Takes ownership of fd and of the user's place in every case.  0 or -errno. */
int varlink_client_new(struct varlink *v, int fd, const struct unix_peer *peer,
		       struct varlink_user *user, unsigned slot);
void varlink_client_free(struct varlink_client *c);

/* Takes ownership of message; NULL: no memory.  A failure drops the client. */
void varlink_client_send(struct varlink_client *c, json_t *message);

/* True: the kernel has not taken all output for the client. */
static inline bool varlink_client_owed(const struct varlink_client *c)
{
	return c->output.start < c->output.bytes;
}

/* Charges the user for CPU time since begin_ns, see clock_thread_ns(), and returns now. */
uint64_t varlink_client_charge(struct varlink_user *user, uint64_t begin_ns);
bool varlink_client_has_share(const struct varlink_client *c);

/* To be called when the client's call has ended or there is output: the event loop then runs it. */
void varlink_client_kick(struct varlink_client *c);

/* ---- varlink_service.c ---- */

extern const struct varlink_interface varlink_service; /* its userdata: struct varlink */

/* Answers org.varlink.service.NAME with one parameter, or none (key == NULL). */
void varlink_service_error(struct varlink_call *call, const char *name, const char *key,
			   const char *value);
