/* The keys of engine `io_uring`.  See ring_keys.h. */
#include "ring_keys.h"

#include "util.h"

#define DAY_NS (24 * 3600 * (uint64_t)NS_PER_S)
#define GIB    (1024 * 1024 * 1024ULL)

/* By enum ring_batch. */
static const char *const ring_batch_words[] = { "yes", "no", NULL };

static const struct key ring_keys[] = {
	{ "sqpoll", "no", "a kernel thread polls the submission queue",
	  KEY_FIELD(struct ring_options, sqpoll), .type = KEY_BOOL },
	{ "sqpoll-idle", "1s",
	  "that thread, and on another CPU the worker, look for work so long before they sleep",
	  KEY_FIELD(struct ring_options, sqpoll_idle_ns), KEY_DURATION, .min = NS_PER_MS,
	  .max = DAY_NS, .anywhere = true },
	{ "sqpoll-cpu", "any", "CPU that this thread is bound to",
	  KEY_FIELD(struct ring_options, sqpoll_cpu), KEY_CPU, .word = "any",
	  .word_value = UINT64_MAX, .anywhere = true },
	{ "ring-batch", "yes", "no: a system call for each submission, for comparison",
	  KEY_FIELD(struct ring_options, batch), KEY_CHOICE, .words = ring_batch_words,
	  .streams = true },
	{ "zero-copy-min", "0", "sends from this size on avoid a copy; 0: none do",
	  KEY_FIELD(struct ring_options, zero_copy_min), KEY_SIZE, .max = GIB, .streams = true,
	  .of_user = true },
};

/* With sqpoll the kernel's thread takes the submissions, however many there are. */
static void check_ring(struct key_check *check)
{
	const struct ring_options *o = ring_options(check->options);

	if (o->batch == RING_BATCH_NO && o->sqpoll)
		check->refuse(check, "ring-batch", "requires sqpoll = no (sqpoll is yes)");
}

const struct key_table ring_key_table =
	KEY_TABLE(ring_keys, struct ring_options, .check = check_ring);
