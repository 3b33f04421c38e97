/* Datagrams of iperf 2.  See simple/iperf2_proto.h. */
#include "iperf2_proto.h"

#include <math.h>

#include "bytes.h"
#include "util.h"

enum {
	/* A first datagram with a larger number does not begin a test, or is not from iperf. */
	FIRST_MAX = 1000,
	US_PER_S = 1000000,
	VERSION_1 = 0x80000000,
};

/* The header of a datagram: lower half of its number, s, us, upper half.  The number of the last
 * one is negative. */
enum { HEADER = 16 };
struct header {
	int64_t number;
	uint32_t s, us;
};

static struct header header_of(const uint8_t *data)
{
	uint64_t number = (uint64_t)get_be32(data + 12) << 32 | get_be32(data);

	return (struct header){ (int64_t)number, get_be32(data + 4), get_be32(data + 8) };
}

static void count(struct iperf2_peer *p, const struct header *h, uint64_t number, uint64_t now_ns)
{
	double transit = (double)now_ns * 1e-9 - (double)h->s - (double)h->us * 1e-6;
	double d = p->datagrams ? fabs(transit - p->transit_s) : 0;

	p->jitter_s += (d - p->jitter_s) / 16;
	p->transit_s = transit;
	if (!p->datagrams++) {
		p->begin_ns = now_ns;
		p->lost = number > 1 ? number - 1 : 0; /* numbers begin with 0 or 1 */
		p->high = number;
	} else if (number > p->high) {
		p->lost += number - p->high - 1;
		p->high = number;
	} else {
		p->order++;
		p->lost -= p->lost > 0;
	}
	p->end_ns = now_ns;
}

static void report(const struct iperf2_peer *p, const uint8_t *data, uint8_t *to)
{
	uint64_t us = (p->end_ns - p->begin_ns) / NS_PER_US;
	uint64_t jitter_us = (uint64_t)MIN(p->jitter_s * 1e6, 4e9 * 1e6);
	const uint32_t words[] = {
		VERSION_1,
		(uint32_t)(p->bytes >> 32),
		(uint32_t)p->bytes,
		(uint32_t)(us / US_PER_S),
		(uint32_t)(us % US_PER_S),
		(uint32_t)p->lost,
		(uint32_t)p->order,
		(uint32_t)p->high,
		(uint32_t)(jitter_us / US_PER_S),
		(uint32_t)(jitter_us % US_PER_S),
	};

	memcpy(to, data, HEADER);
	to += HEADER;
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
		to = put_be32(to, words[i]);
}

bool iperf2_take(struct iperf2_peer *p, const uint8_t *data, uint32_t bytes, uint64_t now_ns,
		 uint8_t ret_report[static IPERF2_REPORT])
{
	struct header h;
	int64_t number;

	if (p->state == IPERF2_OTHER)
		return false;
	/* Too short to be answered; also ends an exchange with a peer that echoes reports. */
	if (bytes <= IPERF2_REPORT) {
		p->state = IPERF2_OTHER;
		return false;
	}
	h = header_of(data);
	number = h.number;
	/* The peer begins another test. */
	if (p->state == IPERF2_OVER && number >= 0 && number <= 1)
		*p = (struct iperf2_peer){ 0 };
	if (h.us >= US_PER_S || (!p->datagrams && (number < 0 || number > FIRST_MAX))) {
		p->state = IPERF2_OTHER;
		return false;
	}
	if (number >= 0 || number == INT64_MIN) {
		if (p->state == IPERF2_OVER)
			return false; /* late */
		count(p, &h, (uint64_t)MAX(number, 0), now_ns);
		p->bytes += bytes;
		return false;
	}
	if (p->datagrams < 2 || (uint64_t)-number < p->high)
		return false;
	if (p->state != IPERF2_OVER) { /* repetitions of the last one do not count */
		count(p, &h, (uint64_t)-number, now_ns);
		p->bytes += bytes;
		p->state = IPERF2_OVER;
	}
	report(p, data, ret_report);
	return true;
}
