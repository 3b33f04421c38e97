/* TLS in the kernel (kTLS, module tls): the calls for one socket.  Any thread. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "library.h"

/* Bits: the kernel seals the records that the server sends, and opens
 * those that the client sends. */
enum kernel_direction { KERNEL_SENDS = 1 << 0, KERNEL_RECEIVES = 1 << 1 };

/* The directions that the kernel handles in this mode of enum tls_mode. */
static inline unsigned kernel_directions(unsigned mode)
{
	return (tls_in_kernel(mode) ? KERNEL_SENDS : 0) | (mode == TLS_KTLS ? KERNEL_RECEIVES : 0);
}

/* Prepares a connected socket for keys; until it has some, bytes pass as before.  0 or -errno;
 * -ENOENT: the kernel has no TLS. */
int kernel_attach(int fd);

/* From the next byte on the kernel seals what is sent, or opens what was received.  cipher: an
 * index in tls_ciphers.  0 or -errno. */
int kernel_give(int fd, enum kernel_direction direction, unsigned cipher,
		const struct tls_keys *keys);

/* Sends close_notify.  0 or -errno; -EAGAIN: the socket has no room now. */
int kernel_close_notify(int fd);

/* Receives a control record, which a plain receive refuses with EIO, and its content type (RFC
 * 8446, 5.1).  Returns the number of its bytes, of which `to` holds the first ones, or -errno. */
ssize_t kernel_receive_control(int fd, uint8_t *ret_type, uint8_t *to, size_t bytes);
