/* Engine `af_xdp`, its parts: the program of the interface, and the socket with its rings.  xdp.c
 * is the engine itself, with its keys.  Worker's thread only. */
#pragma once
#include <linux/if_xdp.h>
#include <stdbool.h>
#include <stdint.h>

#include "frames.h"
#include "pool.h"

enum {
	/* Bytes of a frame of the UMEM.  A chunk of the pool begins with one; what it has beyond
	 * that is for datagrams that come by the socket. */
	XDP_CHUNK = 4096,
	/* Of these the kernel keeps XDP_PACKET_HEADROOM (256) free before a received frame. */
	XDP_FRAME_MAX = XDP_CHUNK - 256, /* bytes of the longest frame */
	/* Where the data of a frame that is built in a chunk of its own begins. */
	XDP_DATA_AT = 64,
	XDP_ENTRIES = 2048, /* of each ring; a power of two */
	XDP_FAMILIES = 2,   /* addresses of a listener: one of each */
};

/* ---- The program: xdp_program.c ---- */

/* Descriptors, -1 if there is none: what the kernel keeps of them ends with the last descriptor, so
 * it ends with this process as well. */
struct xdp_program {
	int map, program, link;
};

/* Loads a program that takes the datagrams to these addresses (of zeros: there is none) from the
 * queue, while the map has its socket, and passes all other frames on to the kernel's stack.  0 or
 * -errno. */
int xdp_program_load(struct xdp_program *p, const struct sockaddr_in *four,
		     const struct sockaddr_in6 *six, uint32_t queue);
/* Attaches it to the interface.  0 or -errno. */
int xdp_program_attach(struct xdp_program *p, uint32_t interface, bool generic);
/* From now on the program takes this queue's frames for socket fd.  0 or -errno. */
int xdp_program_take(const struct xdp_program *p, uint32_t queue, int fd);
void xdp_program_close(struct xdp_program *p);

/* ---- The socket: xdp_socket.c ---- */

/* A ring that is shared with the kernel.  `at` is our side: of the next entry that we write, or
 * read. */
struct xdp_ring {
	uint32_t *producer, *consumer, *flags;
	uint32_t at;
	union {
		uint64_t *addresses;
		struct xdp_desc *frames;
	};
	void *memory;
	size_t bytes;
};

/* A socket of AF_XDP whose UMEM is a pool.  A chunk that the kernel has, in the fill or the
 * transmit ring, has one reference for that, and its place in in_kernel[] is set. */
struct xdp_socket {
	int fd; /* -1: there is none */
	struct pool *pool;
	struct xdp_ring fill, completion, rx, tx;
	bool *in_kernel;
	uint32_t posted; /* chunks in the fill ring or the receive ring */
	bool zero_copy;
};

/* Makes the socket with its rings, without a queue; *ret_what: what has failed.  0 or -errno. */
int xdp_socket_open(struct xdp_socket *s, struct pool *pool, const char **ret_what);
/* Binds it to a queue; flags: XDP_COPY, XDP_ZEROCOPY, or 0 for the best of the driver.  0 or
 * -errno. */
int xdp_socket_bind(struct xdp_socket *s, uint32_t interface, uint32_t queue, uint16_t flags);
/* Returns all chunks to the pool. */
void xdp_socket_close(struct xdp_socket *s);

/* Frames that have arrived. */
static inline uint32_t xdp_socket_received(const struct xdp_socket *s)
{
	return __atomic_load_n(s->rx.producer, __ATOMIC_ACQUIRE) - s->rx.at;
}

/* Frames that the kernel has not taken from the transmit ring. */
static inline uint32_t xdp_socket_unsent(const struct xdp_socket *s)
{
	return s->tx.at - __atomic_load_n(s->tx.consumer, __ATOMIC_ACQUIRE);
}

/* Takes the next received frame out of its ring.  Its chunk is the caller's until it is handed to
 * xdp_socket_done(), which receives into it again if no view of it is left. */
struct chunk *xdp_socket_next(struct xdp_socket *s, uint8_t **ret_frame, uint32_t *ret_bytes);
void xdp_socket_done(struct xdp_socket *s, struct chunk *k);
/* Tells the kernel what has been received, and puts chunks into the fill ring, at most half of the
 * pool and none of those that it keeps.  System calls are added to *calls, here and below. */
void xdp_socket_refill(struct xdp_socket *s, unsigned *calls);
/* Queues a frame of chunk k, of which this takes over one reference.  The ring has room. */
void xdp_socket_queue(struct xdp_socket *s, const struct chunk *k, const uint8_t *frame,
		      uint32_t bytes);
/* Has the kernel send what is queued, as much as it takes now, and returns the chunks of frames
 * that were sent to the pool.  0, or -errno if the socket no longer works. */
int xdp_socket_send(struct xdp_socket *s, unsigned *calls);
/* Frames that the kernel has dropped since the socket was made. */
uint64_t xdp_socket_dropped(const struct xdp_socket *s);
