/* perftest's control messages.  See perftest/proto.h. */
#include "proto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"

const uint8_t perftest_version[PERFTEST_VERSION] = "6.06";

/* Offsets in a message about a queue pair, and its two lengths. */
enum { QUEUE_NUMBER = 8, QUEUE_KEY = 16, QUEUE_ADDRESS = 24, QUEUE_SHORT = 56, QUEUE_LONG = 64 };

static bool is_version(const uint8_t *m)
{
	return m[0] >= '1' && m[0] <= '9' && m[1] == '.' && m[2] >= '0' && m[2] <= '9' &&
	       m[PERFTEST_VERSION - 1] == '\0';
}

int perftest_parse(const uint8_t *message, uint32_t bytes)
{
	switch (bytes) {
	case PERFTEST_VERSION:
		return is_version(message) ? PERFTEST_HELLO : -EPROTO;
	case 2: /* MTU */
	case 4: /* page, cache line */
		return PERFTEST_VALUE;
	case 8:
		return PERFTEST_REPORT;
	case QUEUE_SHORT:
	case QUEUE_LONG:
		return PERFTEST_QUEUE;
	default:
		return -EPROTO;
	}
}

struct perftest_queue perftest_get_queue(const uint8_t *message)
{
	return (struct perftest_queue){ .address = get_be64(message + QUEUE_ADDRESS),
					.number = get_be32(message + QUEUE_NUMBER),
					.key = get_be32(message + QUEUE_KEY) };
}

void perftest_set_memory(uint8_t *message, uint64_t address, uint32_t key)
{
	put_be32(message + QUEUE_KEY, key);
	put_be64(message + QUEUE_ADDRESS, address);
}

/* ---- Over TCP ---- */

enum {
	STEP_MTU = 1 + EXCHANGE_VALUES,
	STEP_KEYS,
	VALUE_BYTES = 4,
	MTU_BYTES = 2,
	REPORT_BYTES = 8,
};

static const uint8_t exchange_end[EXCHANGE_KIND_BYTES] = "done";

/* The first byte of a report is the highest of a number of bytes; of a key it is a digit. */
static bool is_report(const struct exchange *x, const uint8_t *data)
{
	return x->reports > 0 || data[0] == 0;
}

static bool is_end(const uint8_t *data)
{
	return memcmp(data, exchange_end, sizeof(exchange_end)) == 0;
}

unsigned perftest_exchange_bytes(const struct exchange *x, const uint8_t *data, unsigned have)
{
	if (x->step == 0)
		return PERFTEST_VERSION;
	if (x->step < STEP_MTU)
		return VALUE_BYTES;
	if (x->step == STEP_MTU)
		return MTU_BYTES;
	if (have < EXCHANGE_KIND_BYTES)
		return EXCHANGE_KIND_BYTES;
	if (is_report(x, data))
		return REPORT_BYTES;
	return is_end(data) ? sizeof(exchange_end) : EXCHANGE_KEY;
}

/* Reads `digits` hexadecimal digits and the colon after them, and moves *at behind it. */
static bool take(const uint8_t **at, unsigned digits, uint64_t *ret)
{
	uint64_t value = 0;

	for (; digits > 0; digits--, (*at)++) {
		uint8_t d = **at;

		if (d >= '0' && d <= '9')
			d = (uint8_t)(d - '0');
		else if (d >= 'a' && d <= 'f')
			d = (uint8_t)(d - 'a' + 10);
		else
			return false;
		value = value << 4 | d;
	}
	*ret = value;
	return *(*at)++ == ':';
}

static int parse_key(const uint8_t *data, struct exchange_key *ret_key)
{
	enum { LID, READS, NUMBER, SEQUENCE, KEY, ADDRESS, FIELDS };
	static const uint8_t digits[FIELDS] = { 4, 4, 6, 6, 8, 16 };
	const uint8_t *at = data;
	uint64_t fields[FIELDS], shared, byte;

	for (unsigned i = 0; i < FIELDS; i++)
		if (!take(&at, digits[i], &fields[i]))
			return -EPROTO;
	*ret_key = (struct exchange_key){ .lid = (uint16_t)fields[LID],
					  .reads = (uint16_t)fields[READS],
					  .number = (uint32_t)fields[NUMBER],
					  .sequence = (uint32_t)fields[SEQUENCE],
					  .key = (uint32_t)fields[KEY],
					  .address = fields[ADDRESS] };
	for (unsigned i = 0; i < EXCHANGE_GID; i++) {
		if (!take(&at, 2, &byte))
			return -EPROTO;
		ret_key->gid[i] = (uint8_t)byte;
	}
	return take(&at, 8, &shared) && *at == '\0' ? EXCHANGE_IS_KEY : -EPROTO;
}

void perftest_exchange_write_key(const struct exchange_key *key,
				 uint8_t message[static EXCHANGE_KEY])
{
	char *at = (char *)message, *end = at + EXCHANGE_KEY;

	at += snprintf(at, (size_t)(end - at), "%04x:%04x:%06x:%06x:%08x:%016llx:", key->lid,
		       key->reads, key->number & 0xffffff, key->sequence & 0xffffff, key->key,
		       (unsigned long long)key->address);
	for (unsigned i = 0; i < EXCHANGE_GID; i++)
		at += snprintf(at, (size_t)(end - at), "%02x:", key->gid[i]);
	snprintf(at, (size_t)(end - at), "%08x:", 0); /* no shared receives */
}

static int parse_later(struct exchange *x, const uint8_t *data, struct exchange_key *ret_key)
{
	if (is_report(x, data)) {
		x->reports = (uint8_t)((x->reports + 1) % EXCHANGE_REPORTS);
		return EXCHANGE_IS_REPORT;
	}
	return is_end(data) ? EXCHANGE_IS_END : parse_key(data, ret_key);
}

int perftest_exchange_parse(struct exchange *x, const uint8_t *data, struct exchange_key *ret_key)
{
	unsigned step = x->step;

	if (step >= STEP_KEYS)
		return parse_later(x, data, ret_key);
	x->step++;
	if (step == 0)
		return perftest_parse(data, PERFTEST_VERSION) == PERFTEST_HELLO
			       ? EXCHANGE_IS_VERSION
			       : -EPROTO;
	if (step < STEP_MTU)
		return EXCHANGE_IS_VALUE;
	return data[0] >= '0' + EXCHANGE_MTU_FIRST && data[0] <= '0' + EXCHANGE_MTU_LAST &&
			       data[1] == '\0'
		       ? EXCHANGE_IS_MTU
		       : -EPROTO;
}

/* Is it the beginning of `LID:QPN:PSN:GID` in hexadecimal digits? */
static bool is_pingpong(const uint8_t *data)
{
	uint64_t field;

	return take(&data, 4, &field) && take(&data, 6, &field);
}

const char *perftest_exchange_wrong(const struct exchange *x, const uint8_t *data)
{
	if (x->step > 1)
		return "its MTU or key is invalid, or its key has no GID";
	if (is_pingpong(data))
		return "it uses the protocol of ibv_rc_pingpong; only clients of perftest (ib_send_bw and the "
		       "like) are served";
	return "it sent no version; only clients of perftest (ib_send_bw and the like) are served";
}
