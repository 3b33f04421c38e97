/* Matching of listening sockets with listeners: addresses compared, and the names under which
 * sockets are kept by the service manager.  Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "config.h"
#include "file_id.h"
#include "parse.h"
#include "sockaddr.h"

/* May not both be bound, because of the wildcard that one of them is?  [::] may stand for IPv4. */
bool sockaddr_overlaps(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* A listener's address as its configuration has it: port 0 is 0. */
struct socket_name {
	char listener[CONFIG_NAME_MAX]; /* "": nobody's */
	struct sockaddr_storage wanted;
	int type;            /* SOCK_STREAM or SOCK_DGRAM; the descriptor has it, not the text */
	struct file_id file; /* of a Unix socket that has one: what it was bound to */
};

/* `LISTENER=ADDRESS`, of a Unix socket with a file `LISTENER@DEVICE.INODE=ADDRESS`, with a space
 * for each colon, which separates LISTEN_FDNAMES; an address has no white space.  systemd takes up
 * to 255 bytes. */
enum { SOCKET_NAME_TEXT_MAX = CONFIG_NAME_MAX + ADDRESS_TEXT_MAX + 34 };
char *socket_name_format(const struct socket_name *name, char text[static SOCKET_NAME_TEXT_MAX]);

/* 0, or -EINVAL: it is not such a name. */
int socket_name_parse(const char *text, struct socket_name *ret_name);

/* Can a socket bound to sa, which was made for `had` if it is known for what, serve `wants`?  The
 * type and the address decide; port 0 is whatever port the same listener had for it. */
bool socket_name_fits(const struct socket_name *wants, const struct socket_name *had,
		      const struct sockaddr_storage *sa);
