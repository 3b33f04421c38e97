/* netperf's messages on its control connection: 656 bytes, numbers big-endian.  Pure.
 *
 * Source: netperf 2.7.0 (Debian), whose client encodes every classic test in one form, "omni".
 * Meanings were observed between netperf and its own server; for UDP, src/nettest_omni.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NETPERF_MESSAGE = 656,
	NETPERF_HEAD = 8,                    /* bytes that distinguish a message from data */
	NETPERF_SIZE_MAX = 64 * 1024 * 1024, /* bytes of a request, a response, a buffer */
	NETPERF_DATAGRAM_MAX = 65507,
	NETPERF_TIME_MAX_S = 24 * 3600,
	NETPERF_CONGESTION_MAX = 17,
};

/* Tests, by what their data connections do. */
enum netperf_kind {
	NETPERF_STREAM, /* the client sends */
	NETPERF_MAERTS, /* the server sends */
	NETPERF_RR,     /* requests and responses on one connection */
	NETPERF_CRR,    /* a connection for each request */
};

struct netperf_request {
	enum netperf_kind kind;
	bool datagrams;                         /* over UDP: NETPERF_STREAM or NETPERF_RR */
	uint32_t request_bytes, response_bytes; /* RR and CRR: 1 at least */
	uint32_t send_bytes;                    /* bytes to send at a time; 0: any */
	int send_buffer, receive_buffer; /* of the socket, as for setsockopt(); 0: unchanged */
	uint32_t time_s;                 /* 0: ends by limit */
	uint64_t limit;                  /* bytes or transactions; 0: ends by time */
	bool wants_cpu;
	uint16_t port;                           /* for data; 0: any */
	int traffic_class;                       /* -1: unchanged */
	char congestion[NETPERF_CONGESTION_MAX]; /* "": unchanged */
};

/* The answer to a request: the port for data connections. */
struct netperf_response {
	int receive_buffer, send_buffer;
	uint16_t port;
};

struct netperf_result {
	uint64_t bytes_in, bytes_out, transactions;
	uint32_t receives, sends, retransmits;
	int receive_buffer, send_buffer;
	double elapsed_s;
	double cpu_percent; /* of all of this host's CPUs */
	unsigned cpus;
	char congestion[NETPERF_CONGESTION_MAX];
};

/* Can a connection's first bytes be the begin of a message rather than data?  At most NETPERF_HEAD
 * of them are examined. */
bool netperf_is_message(const uint8_t *head, size_t bytes);
/* 0; -EPROTO: not a message; any other -errno is sent to the client: the test is not supported. */
int netperf_parse(const uint8_t message[static NETPERF_MESSAGE], struct netperf_request *ret);

/* Writes the request as options of netperf. */
void netperf_write_options(const struct netperf_request *request, char *text, size_t size);

/* Write whole messages.  error: an errno. */
void netperf_format_error(uint8_t message[static NETPERF_MESSAGE], int error);
void netperf_format_response(uint8_t message[static NETPERF_MESSAGE],
			     const struct netperf_request *request,
			     const struct netperf_response *response);
void netperf_format_result(uint8_t message[static NETPERF_MESSAGE],
			   const struct netperf_result *result);
