/* A daemon on another host, by ssh(1): so the user's ssh configuration, keys and jump hosts apply,
 * and the daemon opens no port.  See client.h. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#include "client.h"

struct remote {
	pid_t pid; /* process of ssh; 0: it has ended */
	/* A file in memory that receives the messages of ssh and of the other host's shell. */
	int errors;
};

/* Starts `ssh HOST PROGRAM bridge`.  0 and the socket to it, which the caller owns; or -errno. */
int remote_open(const struct client_target *target, struct remote *r, int *ret_fd);
/* Ends ssh, and with it the bridge. */
void remote_close(struct remote *r);

/* See client_explain().  unread: bytes received that are no message. */
void remote_explain(struct remote *r, const struct client_target *target, int error,
		    const char *unread, size_t unread_bytes, char *text, size_t bytes);
