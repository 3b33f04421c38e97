/* The keys of engine `io_uring`, most of which are of its ring. */
#pragma once
#include <net/if.h>

#include "worker_options.h"

/* Does the engine receive into an area of its own?  ZERO_COPY_COPY: the kernel copies into it, for
 * any interface; ZERO_COPY_DEVICE: the interface fills it from one of its receive queues. */
enum zero_copy_mode { ZERO_COPY_NO, ZERO_COPY_COPY, ZERO_COPY_DEVICE };
struct zero_copy_receive {
	enum zero_copy_mode mode;
	uint32_t queue;
	char interface[IF_NAMESIZE];
};

/* INTERFACE:QUEUE, a receive queue of an interface.  False: text is none. */
bool ring_parse_queue(const char *text, char ret_interface[static IF_NAMESIZE],
		      uint32_t *ret_queue);

enum { RING_QUEUE_BYTES = IF_NAMESIZE + 6 }; /* of its text */

struct ring_options {
	uint64_t sqpoll; /* see KEY_CPU */
	/* bytes; sends of at least this size use SEND_ZC; 0: never. */
	uint64_t zero_copy_min;
	char zero_copy_receive[RING_QUEUE_BYTES]; /* see ring_zero_copy_receive(); "": no */
};
extern const struct key_table ring_key_table;

/* The struct in a worker's options. */
static inline const struct ring_options *ring_options(const struct worker_options *options)
{
	return options_of(options, &ring_key_table);
}

static inline bool ring_wants_area(const struct worker_options *options)
{
	return ring_options(options)->zero_copy_receive[0] != '\0';
}
/* For set-up. */
struct zero_copy_receive ring_zero_copy_receive(const struct worker_options *options);
/* Bytes of a worker's area, as many as its pool has or somewhat fewer. */
size_t ring_area_bytes(const struct worker_options *options);
