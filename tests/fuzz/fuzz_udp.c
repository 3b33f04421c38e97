/* Transport udp: control data, and what is made of a queue.  Never past their ends. */
#include "fuzz.h"
#include "udp/udp.h"

/* The kernel's control data, of any length; as it would be, at the end of its memory. */
static void control(const uint8_t *data, size_t bytes)
{
	char *copy = malloc(bytes + 1);
	struct msghdr msg = { .msg_control = copy, .msg_controllen = bytes };
	uint32_t size;

	assert(copy);
	memcpy(copy, data, bytes);
	size = udp_segment_size(&msg, 3000);
	assert(size < 3000);
	free(copy);
}

static void runs(const uint8_t *data, size_t bytes)
{
	struct view views[64] = { 0 };
	unsigned count = (unsigned)MIN(bytes / 2, ARRAY_SIZE(views));

	for (unsigned i = 0; i < count; i++)
		views[i] = (struct view){ .len = (uint32_t)(data[2 * i] << 8 | data[2 * i + 1]),
					  .next = i + 1 < count ? &views[i + 1] : NULL };
	for (unsigned i = 0, n; i < count; i += n) {
		size_t run;

		n = udp_run(&views[i], 512, &run);
		assert(n >= 1 && i + n <= count && (n == 1 || run <= UDP_BYTES));
		for (unsigned j = 1; j < n; j++)
			assert(views[i + j].len == views[i].len ||
			       (j == n - 1 && views[i + j].len < views[i].len));
	}
}

/* Any address of either family, whole. */
static void address(const uint8_t *data, size_t bytes)
{
	struct sockaddr_in6 name = { .sin6_family = AF_UNSPEC };

	memcpy(&name, data, MIN(bytes, sizeof(name)));
	name.sin6_family = bytes % 2 ? AF_INET6 : AF_INET;
	udp_may_answer((struct sockaddr *)&name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	control(data, bytes);
	runs(data, bytes);
	address(data, bytes);
	return 0;
}
