/* iperf3's control protocol as a server sees it: states of one byte, and JSON behind a
 * be32 length.  Pure: no I/O.
 *
 * Source: iperf3's src/iperf_api.[ch], versions 3.1 to 3.21, and
 * observed messages of its client. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	IPERF3_COOKIE = 37,           /* bytes a connection starts with: 36 characters and a NUL */
	IPERF3_LENGTH = 4,            /* be32, before JSON */
	IPERF3_PARAMS_MAX = 8 * 1024, /* bytes of JSON */
	IPERF3_RESULTS_MAX = 256 * 1024,
	IPERF3_ERROR = 9,          /* bytes of IPERF3_SERVER_ERROR with its numbers */
	IPERF3_PARALLEL_MAX = 128, /* this and the following are iperf3's own limits: of -P, ... */
	IPERF3_TIME_MAX_S = 86400,
	IPERF3_OMIT_MAX_S = 600,
	IPERF3_LEN_MAX = 1024 * 1024,
	IPERF3_DATAGRAM_MIN = 16, /* bytes of a datagram */
	IPERF3_DATAGRAM_MAX = 65507,
	IPERF3_DATAGRAM = 1460,  /* bytes; the default */
	IPERF3_HANDSHAKE = 4,    /* bytes of the first datagram of a stream, and of the answer */
	IPERF3_HEADER = 16,      /* bytes of the longest header of a datagram */
	IPERF3_LEN = 128 * 1024, /* bytes of a block over TCP; the default */
	IPERF3_WINDOW_MAX = 512 * 1024 * 1024,
	IPERF3_MSS_MAX = 32 * 1024 - 1,
	IPERF3_BURST_MAX = 1000,
	IPERF3_CONGESTION_MAX = 16, /* with its NUL: TCP_CA_NAME_MAX */
};

enum iperf3_state {
	IPERF3_TEST_START = 1,
	IPERF3_TEST_RUNNING = 2,
	IPERF3_TEST_END = 4,
	IPERF3_PARAM_EXCHANGE = 9,
	IPERF3_CREATE_STREAMS = 10,
	IPERF3_SERVER_TERMINATE = 11,
	IPERF3_CLIENT_TERMINATE = 12,
	IPERF3_EXCHANGE_RESULTS = 13,
	IPERF3_DISPLAY_RESULTS = 14,
	IPERF3_DONE = 16,
	IPERF3_ACCESS_DENIED = 0xff,
	IPERF3_SERVER_ERROR = 0xfe, /* then be32 of enum iperf3_error, be32 errno */
};

/* iperf3's error numbers, sent after IPERF3_SERVER_ERROR; the client has texts for them. */
enum iperf3_error {
	IPERF3_BAD_DURATION = 5,
	IPERF3_BAD_PARALLEL = 6,
	IPERF3_BAD_LEN = 7,
	IPERF3_BAD_WINDOW = 8,
	IPERF3_BAD_MSS = 10,
	IPERF3_BAD_OMIT = 12,
	IPERF3_BAD_BURST = 15,
	IPERF3_BAD_DATAGRAM = 20,
	IPERF3_NO_SCTP = 18,
	IPERF3_BAD_TOS = 21,
	IPERF3_REVERSE_BIDIR = 25,
	IPERF3_NO_TEST = 100,
	IPERF3_BAD_PARAMS = 114,
	IPERF3_MSS_FAILED = 123,
	IPERF3_BUFFER_FAILED = 124,
	IPERF3_TOS_FAILED = 125,
	IPERF3_NO_PROTOCOL = 131, /* UDP: "protocol does not exist" */
	IPERF3_CONGESTION_FAILED = 134,
	IPERF3_PACING_FAILED = 140,
	IPERF3_BUFFER_SMALL = 141,
	IPERF3_NO_AUTHORIZATION = 142,
	IPERF3_STREAM_LOST = 200,
};

struct iperf3_params {
	bool sends, receives;    /* the server */
	bool skip_copy;          /* --skip-rx-copy: the receiver need not copy (iperf 3.19) */
	bool datagrams, wide;    /* UDP; its counters have 64 bits */
	unsigned parallel;       /* streams of each direction */
	unsigned time_s, omit_s; /* time_s 0: until the client ends it */
	uint64_t limit_bytes;    /* -n, -k: total that the senders send; 0: no limit */
	uint32_t len, burst;     /* bytes of a block, blocks sent at once */
	uint64_t rate, fq_rate;  /* bits/s of each stream; 0: no limit */
	int window, mss, tos;    /* 0: as they are */
	char congestion[IPERF3_CONGESTION_MAX];
};

struct iperf3_stream_result {
	bool sends; /* the server */
	uint64_t bytes;
	uint32_t retransmits; /* if it sends */
	double seconds;
	bool datagrams;
	uint64_t packets, omitted_packets; /* of datagrams: with those that were omitted */
	uint64_t lost, omitted_lost;
	double jitter_s;
};

/* A stream's counts as the client reports them; 0 if it does not. */
struct iperf3_counted {
	uint64_t bytes, packets;
};

/* Counts of a stream's received datagrams, by iperf3's rules.  Sequence numbers of 32 bits wrap
 * around and are compared by RFC 1982; `high` does not wrap. */
struct iperf3_arrivals {
	/* The highest number; missing datagrams, less one for each late or duplicate one. */
	uint64_t high, lost;
	double jitter_s, transit_s;
	bool begun; /* transit_s holds the value of an earlier datagram */
};

struct iperf3_results {
	double cpu_user, cpu_system; /* percent of the test's time */
	const char *congestion;      /* NULL: unknown */
	const struct iperf3_stream_result *streams;
	unsigned count;
};

/* Is this a valid cookie, with which iperf3 begins a connection? */
bool iperf3_is_cookie(const uint8_t cookie[static IPERF3_COOKIE]);

/* The number of bytes of JSON that follow; -EPROTO: 0, or more than `max`. */
int iperf3_parse_length(const uint8_t length[static IPERF3_LENGTH], int max);

/* Parses the client's parameters.  0, or the enum iperf3_error to refuse them with. */
int iperf3_parse_params(const char *json, size_t bytes, struct iperf3_params *ret_params);

/* The client's results: ret[i] is its count for the stream iperf3_stream_id(i), 0 if there is
 * none.  0 or -EPROTO. */
int iperf3_parse_results(const char *json, size_t bytes, struct iperf3_counted *ret,
			 unsigned count);

/* Writes the parameters as options of iperf3. */
void iperf3_write_options(const struct iperf3_params *params, char *text, size_t size);

/* Is this the first datagram of a stream?  If so, also fills in the answer. */
bool iperf3_is_handshake(const uint8_t *datagram, size_t bytes,
			 uint8_t ret_answer[static IPERF3_HANDSHAKE]);

/* The header of a datagram: 16 bytes with wide counters, else 12. */
static inline unsigned iperf3_header_bytes(bool wide)
{
	return wide ? IPERF3_HEADER : IPERF3_HEADER - 4;
}
void iperf3_build_header(uint8_t *to, bool wide, uint64_t sent_ns, uint64_t number);
/* Counts a datagram with this header that arrived at now_ns (of any clock; the
 * client's may be another). */
void iperf3_arrived(struct iperf3_arrivals *a, const uint8_t *header, bool wide, uint64_t now_ns);

/* 1, 3, 4, 5, ... */
unsigned iperf3_stream_id(unsigned index);

/* The server's results as JSON with the length prefix; the caller frees them.  *ret_bytes: their
 * size.  NULL: no memory. */
char *iperf3_build_results(const struct iperf3_results *results, size_t *ret_bytes);

/* IPERF3_SERVER_ERROR. */
void iperf3_build_error(int error, uint8_t to[static IPERF3_ERROR]);
