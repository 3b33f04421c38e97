/* The names of listening sockets in the service manager's descriptor store, by which they are
 * matched with listeners.  Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "config.h"
#include "file_id.h"
#include "parse.h"
#include "sockaddr.h"

/* A listener's address as configured: port 0 stays 0. */
struct socket_name {
	char listener[CONFIG_NAME_MAX]; /* "": of no listener */
	struct sockaddr_storage wanted;
	/* SOCK_STREAM or SOCK_DGRAM; taken from the socket, not from the text. */
	int type;
	struct file_id file; /* for a Unix socket with a file: the file that it was bound to */
};

/* `LISTENER=ADDRESS`; for a Unix socket with a file `LISTENER@DEVICE.INODE=ADDRESS`.  Colons, which
 * separate LISTEN_FDNAMES, are replaced by spaces, which addresses do not contain.  systemd allows
 * 255 bytes. */
enum { SOCKET_NAME_TEXT_MAX = CONFIG_NAME_MAX + ADDRESS_TEXT_MAX + 34 };
char *socket_name_format(const struct socket_name *name, char text[static SOCKET_NAME_TEXT_MAX]);

/* 0, or -EINVAL: not a valid name. */
int socket_name_parse(const char *text, struct socket_name *ret_name);

/* Can a socket bound to sa serve `wants`?  Type and address must match; `wants` with port 0 matches
 * the port that the same listener had for it (`had`; NULL: unknown). */
bool socket_name_fits(const struct socket_name *wants, const struct socket_name *had,
		      const struct sockaddr_storage *sa);
