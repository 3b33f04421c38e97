/* Zero-copy receive (zcrx) of a ring: the area of pages that the kernel receives into, and the
 * refill queue by which pages go back to it.
 *
 * Without a device the kernel copies received data into the area, and takes pages from the refill
 * queue only when it is asked to (ring_zcrx_flush()).  With a device it takes them when the device
 * needs pages, but not while all traffic is copied, so it is asked then, too.  The area belongs to
 * the ring and ends with it.  Worker's thread only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reason;
struct ring;
struct worker;

/* Bits of a completion's offset that name the area; there is one. */
#define RING_ZCRX_AREA_SHIFT 48

/* An entry of the refill queue; the kernel's format. */
struct ring_zcrx_entry {
	uint64_t offset; /* in the area, with the area's token */
	uint32_t bytes, zero;
};

struct ring_zcrx {
	uint8_t *area; /* page aligned */
	size_t area_bytes;
	uint32_t page_bytes; /* of each buffer of the area */
	uint32_t id;         /* what receives name it by */
	uint64_t token;      /* or-ed into each offset that is given back */
	/* Offset in the area of the data of the completion that is being reaped: the second half of
	 * a completion of 32 bytes. */
	uint64_t offset;
	uint8_t *region; /* the refill queue */
	size_t region_bytes;
	const unsigned *head; /* moved by the kernel */
	unsigned *shared_tail, tail;
	unsigned entries; /* a power of two */
	struct ring_zcrx_entry *queue;
	/* Bytes of a device's traffic that the kernel had to copy into the area.  NULL: there is no
	 * device, so all traffic is copied. */
	const uint64_t *copied;
};

/* Called by ring_init() before the ring is enabled: makes an area of ring_area_bytes()
 * bytes and registers it.  0, or -errno with the reason. */
int ring_zcrx_open(struct ring *r, struct reason *reason);
/* Frees what ring_zcrx_open() made, after the ring has ended: there is no call
 * that unregisters an area. */
void ring_zcrx_close(struct ring *r);

/* Can this kernel receive into areas in the mode of w->options, with or without a device?  0, or
 * -errno with the reason.  It needs no ring and no capability. */
int ring_zcrx_probe(const struct worker *w, struct reason *reason);

/* Gives back the pages of one completion, whose data began at `offset`: one entry
 * for each completion, even if several were in one page.  The kernel takes it at the
 * next flush, if not earlier. */
void ring_zcrx_give(struct ring *r, uint64_t offset);
void ring_zcrx_flush(struct ring *r);

/* ring_reap() of a ring with an area, whose completions have 16 or 32 bytes.  done() of one with 32
 * finds the other half in r->zcrx->offset. */
bool ring_reap_mixed(struct ring *r);
