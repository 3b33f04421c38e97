/* Writing of new storage, for a limited time.  See file.h. */
#include "file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

enum {
	FILL_BYTES = 1 << 20, /* at a time */
	FILL_PAGE = 4096,
	/* less than the time that opening an export may take */
	FILL_S = 8,
};

/* Bytes that do not compress. */
static void fill_noise(uint64_t *to)
{
	uint64_t x = 0x9e3779b97f4a7c15;

	for (size_t i = 0; i < FILL_BYTES / sizeof(*to); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		to[i] = x;
	}
}

static int fill_all(const struct export *e, uint64_t *data)
{
	uint64_t end_ns = clock_ns() + (uint64_t)FILL_S * NS_PER_S, at = 0;

	while (at < e->size) {
		size_t bytes = (size_t)MIN(e->size - at, FILL_BYTES);
		ssize_t n;

		/* No two pages are the same, for file systems that store those once. */
		for (size_t i = 0; i < FILL_BYTES; i += FILL_PAGE)
			data[i / sizeof(*data)] = at + i;
		n = pwrite(e->fd, data, bytes, (off_t)at);
		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (uint64_t)n : 0;
		if (at < e->size && clock_ns() >= end_ns)
			return -ETIME;
	}
	return 0;
}

int fill_export(const struct export *e, struct reason *reason)
{
	uint64_t *data = aligned_alloc(FILL_PAGE, FILL_BYTES);
	int rc;

	if (!data)
		return reason_set(reason, -ENOMEM, "no memory");
	fill_noise(data);
	rc = fill_all(e, data);
	free(data);
	if (rc == -ETIME)
		return reason_set(reason, rc,
				  "cannot write its %llu bytes within %d s; say `fill = no`, and "
				  "write it as a client",
				  (unsigned long long)e->size, FILL_S);
	return rc < 0 ? reason_set(reason, rc, "cannot write its %llu bytes: %s; say `fill = no`",
				   (unsigned long long)e->size, strerror(-rc))
		      : 0;
}
