/* A Varlink client over a Unix socket: blocking with a time limit, one call at a time. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct client;

/* Connects to the socket at path.  0 or -errno. */
int client_open(const char *path, struct client **ret_client);
void client_close(struct client *c);

/* Sends a call; takes ownership of `parameters` (NULL: none).  more: asks for a stream of replies.
 * 0 or -errno: -ETIMEDOUT, -ECONNRESET (the daemon closed the connection), ... */
int client_send(struct client *c, const char *method, json_t *parameters, bool more);

/* The socket, to poll for replies; stays owned by c. */
int client_fd(const struct client *c);

/* Waits at most timeout_ms for the next reply.  0 and new references: *ret_parameters (an object,
 * maybe empty), *ret_error (the error's name; NULL: none), *ret_continues: more will follow.
 * -EPROTO: not a valid Varlink message. */
int client_receive(struct client *c, unsigned timeout_ms, json_t **ret_parameters,
		   json_t **ret_error, bool *ret_continues);
