/* Varlink over a Unix socket, blocking, with a time limit: one call at a time. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct client;

/* Connects to the socket at path.  0 or -errno. */
int client_open(const char *path, struct client **ret_client);
void client_close(struct client *c);

/* Sends a call; takes `parameters` over (NULL: none).  `more`: several replies are welcome.
 * 0 or -errno: -ETIMEDOUT, -ECONNRESET (the daemon hung up), ... */
int client_send(struct client *c, const char *method, json_t *parameters, bool more);

/* To poll for what client_receive() would wait for. */
int client_fd(const struct client *c);

/* Waits at most timeout_ms for the next reply.  0 and new references: *ret_parameters (an object,
 * maybe empty), *ret_error (the error's name; NULL: none), *ret_continues: more will follow.
 * -EPROTO: what came is no Varlink. */
int client_receive(struct client *c, unsigned timeout_ms, json_t **ret_parameters,
		   json_t **ret_error, bool *ret_continues);
