/* A Varlink client: blocking with a time limit, one call at a time.  It talks to a daemon
 * on this host over its Unix socket, or to one on another host over ssh(1), which runs
 * the program's `bridge` there. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct client;

/* The place of a daemon.  The texts belong to the caller, and outlive the client. */
struct client_target {
	const char *socket;  /* path of the control socket; NULL with a host: the usual one there */
	const char *host;    /* [USER@]HOST as ssh takes it; NULL: this one */
	const char *program; /* on that host, as its shell reads it: nbctl or nbbench */
	bool batch;          /* ssh must not ask for a password */
};

/* Connects to the socket, or starts ssh; the first call reports a failure of ssh.  0 or -errno. */
int client_open(const struct client_target *target, struct client **ret_client);
void client_close(struct client *c);

/* Sends a call; takes ownership of `parameters` (NULL: none).  more: asks for a stream of replies.
 * 0 or -errno: -ETIMEDOUT, -ECONNRESET (the daemon closed the connection), ... */
int client_send(struct client *c, const char *method, json_t *parameters, bool more);

/* The same, of a call that has no reply. */
int client_tell(struct client *c, const char *method, json_t *parameters);

/* Sets `text` to the reason why a call to another host failed with -error, as ssh or the other
 * host's shell has printed it; waits at most a second for ssh to end. */
void client_explain(struct client *c, int error, char *text, size_t bytes);

/* False: the other side has closed the connection. */
bool client_is_open(const struct client *c);

/* The socket, to poll for replies; stays owned by c. */
int client_fd(const struct client *c);

/* Waits at most timeout_ms for the next reply.  0 and new references: *ret_parameters (an object,
 * maybe empty), *ret_error (the error's name; NULL: none), *ret_continues: more will follow.
 * -EPROTO: not a valid Varlink message. */
int client_receive(struct client *c, unsigned timeout_ms, json_t **ret_parameters,
		   json_t **ret_error, bool *ret_continues);

/* Reads the bytes that have come.  True: client_receive() returns at once, with a reply
 * or an error. */
bool client_has_reply(struct client *c);

/* client_send() and client_receive() of a whole message as text, for the bridge.  `text` ends with
 * a NUL, which `bytes` does not count.  *ret_text belongs to the client, until the next call. */
int client_send_text(struct client *c, const char *text, size_t bytes);
int client_receive_text(struct client *c, unsigned timeout_ms, const char **ret_text,
			size_t *ret_bytes);
