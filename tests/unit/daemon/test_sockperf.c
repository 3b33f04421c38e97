/* service/sockperf/sockperf.c: a message's header in two pieces of memory. */
#include "bytes.h"
#include "registry.h"
#include "service_case.h"
#include "sockperf/proto.h"

enum { PING = SOCKPERF_CLIENT | SOCKPERF_PONG_REQUEST, CHUNK = 4096 };

/* The first `cut` bytes of the second header end a chunk. */
TEST(a_header_may_be_cut_anywhere)
{
	for (uint32_t cut = 1; cut < SOCKPERF_HEADER; cut++) {
		CLEANUP(case_free_p)
		struct service_case *t = case_new(registry_service("sockperf"), 64, CHUNK);
		uint8_t data[CHUNK + SOCKPERF_HEADER] = { [9] = PING };
		uint32_t second = CHUNK - cut, bytes = second + SOCKPERF_HEADER;

		put_be32(data + 10, second);
		data[second + 9] = PING;
		put_be32(data + second + 10, SOCKPERF_HEADER);
		case_input(t, data, bytes, CHUNK);
		data[9] = data[second + 9] = SOCKPERF_PONG_REQUEST;
		assert_int_equal(t->out_bytes, bytes);
		assert_memory_equal(t->out, data, bytes);
		assert_int_equal(stat_load(t->worker.stats.operations[0].count), 2);
	}
}
