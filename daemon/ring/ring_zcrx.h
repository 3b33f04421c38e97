/* Zero-copy receive (zcrx) of a ring: the area of pages that the kernel receives into, and the
 * refill queue by which they go back to it.
 *
 * Without a device the kernel copies into the area, and takes nothing from the refill queue by
 * itself; with one, not while all traffic is copied: ring_zcrx_flush() has it do so.  The area
 * belongs to the ring and ends with it.  Worker's thread only. */
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
	/* Of the completion that is being reaped, in the area: the second half of one with 32
	 * bytes. */
	uint64_t offset;
	uint8_t *region; /* the refill queue */
	size_t region_bytes;
	const unsigned *head; /* moved by the kernel */
	unsigned *shared_tail, tail;
	unsigned entries; /* a power of two */
	struct ring_zcrx_entry *queue;
	/* Bytes of a device's traffic that the kernel has copied into the area after all; NULL:
	 * there is no device, and it copies all of them. */
	const uint64_t *copied;
};

/* Called by ring_init() before the ring is enabled: makes an area of `zero-copy-area`
 * bytes and registers it.  0, or -errno with the reason. */
int ring_zcrx_open(struct ring *r, struct reason *reason);
/* After the ring has ended, of which this is a part: there is no call that unregisters an area. */
void ring_zcrx_close(struct ring *r);

/* Does this kernel receive into areas as w->options have it, of a device or of none?  0, or -errno
 * with the reason.  It needs no ring and no capability. */
int ring_zcrx_probe(const struct worker *w, struct reason *reason);

/* Gives back what one completion has brought at `offset`: one entry for each, even of one page. The
 * kernel takes it at the next flush, if not earlier. */
void ring_zcrx_give(struct ring *r, uint64_t offset);
void ring_zcrx_flush(struct ring *r);

/* ring_reap() of a ring with an area, whose completions have 16 or 32 bytes.  done() of one with 32
 * finds the other half in r->zcrx->offset. */
bool ring_reap_mixed(struct ring *r);
