/* The keys of engine `io_uring`.  See ring_keys.h. */
#include "ring_keys.h"

#include <stdio.h>
#include <string.h>

#include "engine_features.h"
#include "parse.h"
#include "util.h"

enum { QUEUE_MAX = 65535, AREA_MIN = 64 * 1024 };

#define GIB (1024 * 1024 * 1024ULL)

bool ring_parse_queue(const char *text, char ret_interface[static IF_NAMESIZE], uint32_t *ret_queue)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	uint64_t queue;

	if (length == 0 || length >= IF_NAMESIZE || strcspn(text, "/") < length ||
	    parse_uint(colon + 1, &queue) < 0 || queue > QUEUE_MAX)
		return false;
	snprintf(ret_interface, IF_NAMESIZE, "%.*s", (int)length, text);
	*ret_queue = (uint32_t)queue;
	return true;
}

/* `copy`, or a receive queue of an interface. */
static bool zero_copy_parse(const char *text, struct zero_copy_receive *ret)
{
	*ret = (struct zero_copy_receive){ .mode = ZERO_COPY_COPY };
	if (!strcmp(text, "copy"))
		return true;
	ret->mode = ZERO_COPY_DEVICE;
	return ring_parse_queue(text, ret->interface, &ret->queue);
}

static bool zero_copy_valid(const char *text)
{
	struct zero_copy_receive parsed;

	return zero_copy_parse(text, &parsed);
}

struct zero_copy_receive ring_zero_copy_receive(const struct worker_options *options)
{
	struct zero_copy_receive parsed;

	if (zero_copy_parse(ring_options(options)->zero_copy_receive, &parsed))
		return parsed;
	return (struct zero_copy_receive){ .mode = ZERO_COPY_NO };
}

/* A power of two, as the ring of the pages that are given back is.  buffer_size 0: of the default.
 */
size_t ring_area_bytes(const struct worker_options *options)
{
	uint64_t bytes = (uint64_t)options->buffers * options->buffer_size, area = AREA_MIN;

	while (area * 2 <= MIN(bytes, GIB))
		area *= 2;
	return area;
}

static const struct key ring_keys[] = {
	{ "sqpoll", "no", "a kernel thread polls the submission queue; a number: on that CPU",
	  KEY_FIELD(struct ring_options, sqpoll), .type = KEY_CPU },
	{ "zero-copy-min", "0", "sends from this size on avoid a copy; 0: none do",
	  KEY_FIELD(struct ring_options, zero_copy_min), .type = KEY_SIZE, .max = GIB,
	  .streams = true, .of_user = true },
	{ "zero-copy-receive", "no",
	  "experimental: into pages that a receive queue of a device fills; copy: that the kernel "
	  "does",
	  KEY_FIELD(struct ring_options, zero_copy_receive), .type = KEY_TEXT, .word = "no",
	  .valid = zero_copy_valid, .form = "copy or INTERFACE:QUEUE such as eth0:4",
	  .streams = true, .of_user = true },
};

enum { DEVICE_CLIENT_BYTES = 128 * 1024 };

/* A device fills the area before any client's data is read.  So the area must have room
 * for twice the data that the sockets of all clients may hold.  A receive queue is bound
 * to the area of one worker. */
static void check_device(struct key_check *check)
{
	uint64_t clients = ring_area_bytes(check->options) / DEVICE_CLIENT_BYTES;

	if (check->workers != 1)
		check->refuse(check, "zero-copy-receive", "with a device requires workers = 1");
	if (check->max_connections < 1 || check->max_connections > clients)
		check->refuse(check, "zero-copy-receive",
			      "with a device requires max-connections from 1 to %llu, one for each "
			      "128K of `buffers` times `buffer-size`",
			      (unsigned long long)clients);
}

/* Zero-copy receive needs TCP, and a ring whose work the kernel defers.  `engine = auto` is
 * refused, since it could choose another engine. */
static void check_area(struct key_check *check)
{
	static const char *const key = "zero-copy-receive";
	const uint64_t needs = FEATURE_BIT(single_issuer) | FEATURE_BIT(defer_taskrun);

	if (!ring_wants_area(check->options) || check->options->datagrams)
		return;
	if (!check->engine) {
		check->refuse(check, key, "requires engine = io_uring (engine is auto)");
		return;
	}
	if (ring_zero_copy_receive(check->options).mode == ZERO_COPY_DEVICE)
		check_device(check);
	if (ring_options(check->options)->sqpoll)
		check->refuse(check, key, "requires sqpoll = no");
	if (check->options->features_off & needs)
		check->refuse(
			check, key,
			"requires single_issuer and defer_taskrun (features switches them off)");
	if (check->local)
		check->refuse(check, key, "requires addresses of IP (one is a Unix socket)");
}

const struct key_table ring_key_table =
	KEY_TABLE(ring_keys, struct ring_options, .check = check_area);
