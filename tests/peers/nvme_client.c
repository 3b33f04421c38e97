/* A host that reads or writes random blocks of a namespace over NVMe/TCP, or of an NBD export, by
 * one thread, as fast as the server answers: so that both are compared by the same client.
 *
 *   nvme_client [-n] [-q QUEUES] [-d DEPTH] [-s BYTES] [-w] [-t SECONDS] [-c CAPSULE] [-g] [-G]
 *               [-f] [-b] [-r RATE] HOST PORT NAME
 *
 * -n: NBD; -w: writes, those up to CAPSULE bytes with their command; -g, -G: digests of headers and
 * of data; -f: flow control of the queues; -b: spins instead of sleeping; -r: so many
 * operations a second, one at a time.  Prints operations per
 * second, and the percentiles 50 and 99 of their latency in ns.  Whatever breaks the protocol ends
 * it. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crc32c.h"
#include "histogram.h"
#include "util.h"

enum { QUEUES_MAX = 128, DEPTH_MAX = 1024, BUFFER = 5 << 19, IC = 128, CMD = 72, SHORT = 24 };
enum { ICREQ, ICRESP, COMMAND = 4, RSP, H2C_DATA, C2H_DATA, R2T = 9 };
enum { HDGST = 1, DDGST = 2, LAST = 4, SUCCESS = 8 };

/* A command's place: its index is the command's id. */
struct slot {
	uint64_t start_ns; /* 0: free */
	uint32_t done;     /* bytes that have come, or were asked for */
};

struct queue {
	int fd;
	struct slot slots[DEPTH_MAX];
	uint8_t *in, *out;
	size_t in_bytes, out_bytes, out_sent;
	uint32_t h2c_max;
};

static struct {
	bool nbd, writes, flow, spins;
	uint8_t digests;
	unsigned queues, depth;
	double seconds;
	unsigned rate; /* operations per second; 0: as fast as the server answers */
	uint32_t bytes, capsule;
	const char *host, *port, *name;
} options = { .queues = 1, .depth = 1, .seconds = 1, .bytes = 4096, .capsule = 4096 };

static struct {
	uint64_t blocks, random, end_ns, next_ns, ops;
	uint32_t block; /* bytes */
	uint8_t *payload;
	uint32_t payload_digest;
	struct histogram latency;
} state = { .random = 88172645463325252 };

static void die(const char *what)
{
	fprintf(stderr, "nvme_client: %s (%s)\n", what, errno ? strerror(errno) : "protocol");
	exit(1);
}

static void check(bool good, const char *what)
{
	if (!good) {
		errno = 0;
		die(what);
	}
}

static void put16(uint8_t *to, unsigned v)
{
	to[0] = (uint8_t)v;
	to[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *to, uint32_t v)
{
	put16(to, v & 0xffff);
	put16(to + 2, v >> 16);
}

static uint32_t get16(const uint8_t *from)
{
	return from[0] | (uint32_t)from[1] << 8;
}

static uint32_t get32(const uint8_t *from)
{
	return get16(from) | get16(from + 2) << 16;
}

/* ---- Out ---- */

static uint8_t *out_room(struct queue *q, size_t bytes)
{
	uint8_t *at = q->out + q->out_bytes;

	check(q->out_bytes + bytes <= 2 * BUFFER, "no room to send");
	q->out_bytes += bytes;
	return at;
}

/* The beginning of a PDU, and behind its header what belongs there; returns where its data goes. */
static uint8_t *put_pdu(struct queue *q, uint8_t type, uint8_t hlen, const uint8_t *rest,
			uint32_t data, uint8_t flags)
{
	uint32_t hdgst = options.digests & HDGST && type != ICREQ ? 4 : 0;
	uint32_t ddgst = options.digests & DDGST && data ? 4 : 0;
	uint8_t *to = out_room(q, hlen + hdgst + data + ddgst);

	to[0] = type;
	to[1] = (uint8_t)(flags | (hdgst ? HDGST : 0) | (ddgst ? DDGST : 0));
	to[2] = hlen;
	to[3] = data ? (uint8_t)(hlen + hdgst) : 0;
	put32(to + 4, hlen + hdgst + data + ddgst);
	memcpy(to + 8, rest, hlen - 8U);
	if (hdgst)
		put32(to + hlen, crc32c(0, to, hlen));
	return to + hlen + hdgst;
}

static void put_data(uint8_t *to, const uint8_t *data, uint32_t bytes)
{
	memcpy(to, data, bytes);
	if (options.digests & DDGST)
		put32(to + bytes, data == state.payload && bytes == options.bytes
					  ? state.payload_digest
					  : crc32c(0, data, bytes));
}

static void out_flush(struct queue *q)
{
	while (q->out_sent < q->out_bytes) {
		ssize_t n = send(q->fd, q->out + q->out_sent, q->out_bytes - q->out_sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			die("send");
		q->out_sent += (size_t)n;
	}
	q->out_sent = q->out_bytes = 0;
}

/* An SQE behind the common header; data: bytes of it, 0 if the controller asks for it. */
static void sqe_init(uint8_t sqe[64], uint8_t opcode, unsigned cid, uint32_t nsid, uint32_t bytes,
		     bool capsule)
{
	memset(sqe, 0, 64);
	sqe[0] = opcode;
	sqe[1] = 0x40;
	put16(sqe + 2, cid);
	put32(sqe + 4, nsid);
	put32(sqe + 32, bytes);
	sqe[39] = capsule ? 0x01 : bytes ? 0x5a : 0;
}

/* ---- Operations ---- */

static uint64_t random_block(void)
{
	uint32_t each = options.bytes / state.block;

	state.random ^= state.random << 13; /* xorshift64 */
	state.random ^= state.random >> 7;
	state.random ^= state.random << 17;
	return state.random % (state.blocks / each) * each;
}

static void start_nvme(struct queue *q, unsigned cid)
{
	bool capsule = options.writes && options.bytes <= options.capsule;
	uint64_t block = random_block();
	uint8_t sqe[64], *data;

	sqe_init(sqe, options.writes ? 1 : 2, cid, 1, options.bytes, capsule);
	put32(sqe + 40, (uint32_t)block);
	put32(sqe + 44, (uint32_t)(block >> 32));
	put32(sqe + 48, options.bytes / state.block - 1);
	data = put_pdu(q, COMMAND, CMD, sqe, capsule ? options.bytes : 0, 0);
	if (capsule)
		put_data(data, state.payload, options.bytes);
}

static void start_nbd(struct queue *q, unsigned cid)
{
	uint64_t offset = htobe64(random_block() * state.block);
	uint32_t magic = htobe32(0x25609513), length = htobe32(options.bytes);
	uint8_t *to = out_room(q, 28 + (options.writes ? options.bytes : 0));

	memset(to, 0, 28);
	memcpy(to, &magic, 4);
	to[7] = options.writes;
	put32(to + 8, cid);
	memcpy(to + 16, &offset, 8);
	memcpy(to + 24, &length, 4);
	if (options.writes)
		memcpy(to + 28, state.payload, options.bytes);
}

static void start(struct queue *q, unsigned cid)
{
	q->slots[cid] = (struct slot){ .start_ns = clock_ns() };
	(options.nbd ? start_nbd : start_nvme)(q, cid);
}

/* Sleeps until the next operation is to begin. */
static void pace(uint64_t now)
{
	struct timespec at;

	state.next_ns = MAX(state.next_ns + NS_PER_S / options.rate, now);
	at = (struct timespec){ (time_t)(state.next_ns / NS_PER_S),
				(long)(state.next_ns % NS_PER_S) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static void finish(struct queue *q, unsigned cid)
{
	uint64_t now = clock_ns();

	check(cid < options.depth && q->slots[cid].start_ns, "no such command");
	check(options.writes || q->slots[cid].done == options.bytes, "a read is not complete");
	histogram_add(&state.latency, now - q->slots[cid].start_ns, 1);
	q->slots[cid].start_ns = 0;
	state.ops++;
	if (now >= state.end_ns)
		return;
	if (options.rate)
		pace(now);
	start(q, cid);
}

/* ---- In ---- */

static void take_asked(struct queue *q, const uint8_t *pdu)
{
	unsigned cid = get16(pdu + 8);
	uint32_t at = get32(pdu + 12), end = at + get32(pdu + 16);

	check(cid < options.depth && q->slots[cid].start_ns && options.writes, "R2T of no write");
	check(at == q->slots[cid].done && end > at && end <= options.bytes,
	      "R2T of what is not next");
	q->slots[cid].done = end;
	for (uint32_t n; at < end; at += n) {
		uint8_t rest[16] = { 0 };

		n = MIN(end - at, q->h2c_max);
		memcpy(rest, pdu + 8, 4);
		put32(rest + 4, at);
		put32(rest + 8, n);
		put_data(put_pdu(q, H2C_DATA, SHORT, rest, n, at + n == end ? LAST : 0),
			 state.payload + at, n);
	}
}

static void take_data(struct queue *q, const uint8_t *pdu, uint32_t plen)
{
	unsigned cid = get16(pdu + 8);
	uint32_t bytes = get32(pdu + 16), ddgst = options.digests & DDGST ? 4 : 0;

	check(cid < options.depth && q->slots[cid].start_ns && !options.writes, "data of no read");
	check(get32(pdu + 12) == q->slots[cid].done, "data out of order");
	check(plen == pdu[3] + bytes + ddgst && bytes > 0, "length of data");
	check(!ddgst || (pdu[1] & DDGST &&
			 crc32c(0, pdu + pdu[3], bytes) == get32(pdu + pdu[3] + bytes)),
	      "digest of data");
	q->slots[cid].done += bytes;
	check(!!(pdu[1] & LAST) == (q->slots[cid].done == options.bytes), "last PDU");
	check(!(pdu[1] & SUCCESS) || !options.flow, "success with flow control");
	if (pdu[1] & SUCCESS)
		finish(q, cid);
}

/* Takes one PDU of `bytes`; returns its bytes, 0: not all of it is there. */
static size_t take_pdu(struct queue *q, const uint8_t *pdu, size_t bytes)
{
	uint32_t plen = bytes >= 8 ? get32(pdu + 4) : 0;

	if (bytes < 8 || bytes < plen)
		return 0;
	check(pdu[2] == SHORT && plen >= SHORT && plen <= BUFFER, "header of a PDU");
	check(!(options.digests & HDGST) ||
		      (pdu[1] & HDGST && crc32c(0, pdu, SHORT) == get32(pdu + SHORT)),
	      "digest of a header");
	if (pdu[0] == C2H_DATA) {
		take_data(q, pdu, plen);
	} else if (pdu[0] == R2T) {
		take_asked(q, pdu);
	} else {
		check(pdu[0] == RSP, "type of a PDU");
		check(get16(pdu + 22) >> 1 == 0, "a command has failed");
		finish(q, get16(pdu + 20));
	}
	return plen;
}

static size_t take_nbd(struct queue *q, const uint8_t *reply, size_t bytes)
{
	size_t whole = 16 + (options.writes ? 0 : options.bytes);
	unsigned cid;

	if (bytes < whole)
		return 0;
	check(be32toh(*(const uint32_t *)(const void *)reply) == 0x67446698 &&
		      get32(reply + 4) == 0,
	      "an NBD reply");
	cid = get32(reply + 8);
	check(cid < options.depth, "an NBD cookie");
	q->slots[cid].done = options.bytes;
	finish(q, cid);
	return whole;
}

static void queue_receive(struct queue *q)
{
	ssize_t n = recv(q->fd, q->in + q->in_bytes, 2 * BUFFER - q->in_bytes, MSG_DONTWAIT);
	size_t at = 0, took;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		die("the server has closed");
	q->in_bytes += (size_t)n;
	while ((took = (options.nbd ? take_nbd : take_pdu)(q, q->in + at, q->in_bytes - at)) > 0)
		at += took;
	q->in_bytes -= at;
	memmove(q->in, q->in + at, q->in_bytes);
}

/* ---- The beginning: blocking ---- */

static void queue_open(struct queue *q)
{
	struct addrinfo *found, hints = { .ai_socktype = SOCK_STREAM };
	int one = 1;

	if (getaddrinfo(options.host, options.port, &hints, &found) != 0)
		die("no such address");
	q->fd = socket(found->ai_family, SOCK_STREAM, 0);
	if (q->fd < 0 || connect(q->fd, found->ai_addr, found->ai_addrlen) < 0)
		die("connect");
	freeaddrinfo(found);
	setsockopt(q->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	q->in = malloc(2 * BUFFER);
	q->out = malloc(2 * BUFFER);
	check(q->in && q->out, "memory");
}

static void read_all(const struct queue *q, void *to, size_t bytes)
{
	if (bytes && recv(q->fd, to, bytes, MSG_WAITALL) != (ssize_t)bytes)
		die("the server has closed");
}

/* Runs a command; its result, and the data that it reads. */
static uint64_t run(struct queue *q, uint8_t sqe[64], const void *write, uint32_t bytes,
		    uint8_t *read)
{
	uint8_t pdu[SHORT + 4];
	uint32_t hdgst = options.digests & HDGST ? 4 : 0, ddgst = options.digests & DDGST ? 4 : 0;
	uint8_t *data = put_pdu(q, COMMAND, CMD, sqe, write ? bytes : 0, 0);

	if (write)
		put_data(data, write, bytes);
	out_flush(q);
	for (;;) {
		read_all(q, pdu, SHORT + hdgst);
		if (pdu[0] != C2H_DATA)
			break;
		check(get32(pdu + 16) == bytes && pdu[3] == SHORT + hdgst, "data of a command");
		read_all(q, read, bytes);
		read_all(q, pdu, ddgst);
		if (pdu[1] & SUCCESS)
			return 0;
	}
	check(pdu[0] == RSP && get16(pdu + 22) >> 1 == 0, "a command has failed");
	return get32(pdu + 8);
}

/* Makes the connection a queue; returns its controller's id. */
static unsigned queue_connect(struct queue *q, unsigned qid, unsigned cntlid)
{
	uint8_t sqe[64], data[1024] = { 0 }, ic[IC] = { 0 };

	queue_open(q);
	ic[11 - 8] = options.digests;
	put_pdu(q, ICREQ, IC, ic, 0, 0);
	out_flush(q);
	read_all(q, ic, IC);
	check(ic[0] == ICRESP && ic[11] == options.digests && ic[10] == 0, "ICResp");
	q->h2c_max = get32(ic + 12);
	data[0] = (uint8_t)getpid();
	put16(data + 16, cntlid);
	strcpy((char *)data + 256, options.name);
	snprintf((char *)data + 512, 256, "nqn.2014-08.org.nvmexpress:uuid:bench-%d",
		 (int)getpid());
	sqe_init(sqe, 0x7f, 0, 1, sizeof(data), true);
	put16(sqe + 42, qid);
	put16(sqe + 44, qid ? MAX(options.depth, 2U) - 1 : 31);
	sqe[46] = options.flow || !qid ? 0 : 4;
	return (unsigned)run(q, sqe, data, sizeof(data), NULL) & 0xffff;
}

static void fabrics(struct queue *q, uint8_t fctype, uint32_t at, uint32_t value, uint64_t *ret)
{
	uint8_t sqe[64];

	sqe_init(sqe, 0x7f, 0, fctype, 0, false);
	put32(sqe + 44, at);
	put32(sqe + 48, value);
	*ret = run(q, sqe, NULL, 0, NULL);
}

static void connect_nvme(struct queue *admin, struct queue *queues)
{
	static uint8_t page[4096];
	unsigned cntlid = queue_connect(admin, 0, 0xffff);
	uint64_t result = 0;
	uint8_t sqe[64];

	fabrics(admin, 0, 0x14, 0x460001, &result);
	do
		fabrics(admin, 4, 0x1c, 0, &result);
	while (!(result & 1));
	sqe_init(sqe, 0x09, 0, 0, 0, false);
	sqe[40] = 7;
	put16(sqe + 44, options.queues - 1);
	put16(sqe + 46, options.queues - 1);
	run(admin, sqe, NULL, 0, NULL);
	sqe_init(sqe, 0x06, 0, 1, sizeof(page), false);
	run(admin, sqe, NULL, sizeof(page), page);
	state.block = 1U << page[130 + 4 * (page[26] & 15)];
	state.blocks = get32(page) | (uint64_t)get32(page + 4) << 32;
	for (unsigned i = 0; i < options.queues; i++)
		queue_connect(&queues[i], i + 1, cntlid);
}

static void connect_nbd(struct queue *q)
{
	uint8_t greeting[18], go[64] = "\0\0\0\3IHAVEOPT\0\0\0\7", header[20], data[256] = { 0 };
	size_t name = strlen(options.name);
	uint64_t bytes = 0;

	queue_open(q);
	read_all(q, greeting, sizeof(greeting));
	check(name < 40, "a name");
	go[19] = (uint8_t)(name + 6);
	go[23] = (uint8_t)name;
	memcpy(go + 24, options.name, name);
	memcpy(out_room(q, 26 + name), go, 26 + name);
	out_flush(q);
	for (uint32_t type = 0; type != 1;) {
		uint32_t length;

		read_all(q, header, sizeof(header));
		memcpy(&type, header + 12, 4);
		memcpy(&length, header + 16, 4);
		type = be32toh(type);
		length = be32toh(length);
		check(type < 4 && length <= sizeof(data), "an NBD option");
		read_all(q, data, length);
		if (type == 3 && data[1] == 0)
			memcpy(&bytes, data + 2, 8);
	}
	state.block = 512;
	state.blocks = be64toh(bytes) / 512;
}

/* ---- The end ---- */

static bool is_busy(const struct queue *q)
{
	for (unsigned i = 0; i < options.depth; i++)
		if (q->slots[i].start_ns)
			return true;
	return false;
}

static void parse(int argc, char **argv)
{
	for (int c; (c = getopt(argc, argv, "nq:d:s:wt:c:gGfbr:")) != -1;) {
		unsigned value = optarg ? (unsigned)strtoul(optarg, NULL, 10) : 0;

		switch (c) {
		case 'n':
			options.nbd = true;
			break;
		case 'q':
			options.queues = value;
			break;
		case 'd':
			options.depth = value;
			break;
		case 's':
			options.bytes = value;
			break;
		case 'w':
			options.writes = true;
			break;
		case 't':
			options.seconds = strtod(optarg, NULL);
			break;
		case 'c':
			options.capsule = value;
			break;
		case 'g':
			options.digests |= HDGST;
			break;
		case 'G':
			options.digests |= DDGST;
			break;
		case 'f':
			options.flow = true;
			break;
		case 'b':
			options.spins = true;
			break;
		case 'r':
			options.rate = value;
			break;
		default:
			exit(2);
		}
	}
	if (argc - optind != 3 || !options.queues || options.queues > QUEUES_MAX ||
	    !options.depth || options.depth > DEPTH_MAX ||
	    (options.rate && options.depth * options.queues > 1))
		exit(2);
	options.host = argv[optind];
	options.port = argv[optind + 1];
	options.name = argv[optind + 2];
}

int main(int argc, char **argv)
{
	static struct queue admin, queues[QUEUES_MAX];
	struct pollfd fds[QUEUES_MAX];
	static struct histogram_sum latency;
	uint64_t begun;
	bool busy = true;

	parse(argc, argv);
	if (options.nbd)
		for (unsigned i = 0; i < options.queues; i++)
			connect_nbd(&queues[i]);
	else
		connect_nvme(&admin, queues);
	check(state.block > 0 && options.bytes % state.block == 0 &&
		      state.blocks >= options.bytes / state.block,
	      "a namespace that is large enough");
	state.payload = malloc(options.bytes);
	check(state.payload, "memory");
	for (uint32_t i = 0; i < options.bytes; i++)
		state.payload[i] = (uint8_t)(i * 131 + i / 257);
	state.payload_digest = crc32c(0, state.payload, options.bytes);
	/* A sleep that ends 50 us late, the default, would miss the next time. */
	check(!options.rate || prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0) == 0,
	      "a timer slack of 1 ns");
	begun = clock_ns();
	state.next_ns = begun;
	state.end_ns = begun + (uint64_t)(options.seconds * NS_PER_S);
	for (unsigned i = 0; i < options.queues; i++)
		for (unsigned j = 0; j < options.depth; j++)
			start(&queues[i], j);
	while (busy) {
		busy = false;
		for (unsigned i = 0; i < options.queues; i++) {
			out_flush(&queues[i]);
			fds[i] = (struct pollfd){ .fd = queues[i].fd, .events = POLLIN };
			if (queues[i].out_bytes)
				fds[i].events |= POLLOUT;
		}
		if (!options.spins || options.queues > 1)
			poll(fds, options.queues, options.spins ? 0 : -1);
		for (unsigned i = 0; i < options.queues; i++) {
			if (options.queues == 1 || fds[i].revents & POLLIN)
				queue_receive(&queues[i]);
			busy |= is_busy(&queues[i]);
		}
	}
	histogram_merge(&latency, &state.latency);
	printf("%.0f %llu %llu\n", (double)state.ops * 1e9 / (double)(clock_ns() - begun),
	       (unsigned long long)histogram_quantile(&latency, 0.5),
	       (unsigned long long)histogram_quantile(&latency, 0.99));
	return 0;
}
