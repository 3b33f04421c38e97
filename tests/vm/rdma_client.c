/* A client of the services over RDMA, for the tests in the VM.
 *
 *   rdma_client echo ADDRESS PORT CONNECTIONS BYTES COUNT DEPTH
 *       COUNT messages over each connection, DEPTH of them in flight; BYTES 0: of many sizes up to
 *       16 KiB.  Each must come back whole, in order, and as one message.  Prints `ok MESSAGES`.
 *   rdma_client latency ADDRESS PORT BYTES COUNT
 *       COUNT messages, one after the other.  Prints the median of the round trips in nanoseconds.
 *   rdma_client greet ADDRESS PORT HEX READS [MESSAGE COUNT]
 *       Connects with this private data, and allows READS reads of its memory in flight.  Prints
 *       `accepted HEX` or `refused HEX`: the private data of the answer.  Then sends MESSAGE (in
 *       HEX) COUNT times at once, and prints `answered HEX` or `ended`, whichever comes first.
 *   rdma_client talk ADDRESS PORT MESSAGE...
 *       Sends each MESSAGE when the one before was answered.  Prints a line for each, as `greet`
 *       does, and no more after `ended`.
 *   rdma_client hold ADDRESS PORT CONNECTIONS
 *       Connects, prints `connected`, and waits until each was disconnected: `disconnected`.
 *   rdma_client send ADDRESS PORT BYTES COUNT
 *       COUNT messages to who does not answer, then waits for the end of standard input.
 *
 * One that is refused prints `refused: REASON` and ends with 1. */
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BYTES_MAX = 32 * 1024, DEPTH_MAX = 64, CONNECTIONS_MAX = 2048 };

struct client {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t *memory; /* `depth` messages to send, as many to receive into */
	unsigned depth;
	unsigned sent, got;
};

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(2);
}

static uint8_t *send_slot(const struct client *c, unsigned i)
{
	return c->memory + (size_t)(i % c->depth) * BYTES_MAX;
}

static uint8_t *receive_slot(const struct client *c, unsigned i)
{
	return c->memory + (size_t)(c->depth + i % c->depth) * BYTES_MAX;
}

static void post_receive(struct client *c, unsigned i)
{
	if (rdma_post_recv(c->id, NULL, receive_slot(c, i), BYTES_MAX, c->mr) != 0)
		die("rdma_post_recv");
}

static uint8_t private_data[UINT8_MAX] = "nbserved";
static uint8_t private_bytes, reads;

/* 0, or -1: it is refused, and c->id->event says why. */
static int try_to_connect(struct client *c, const char *address, const char *port, unsigned depth)
{
	struct rdma_addrinfo hints = {
		.ai_port_space = RDMA_PS_TCP,
		.ai_qp_type = IBV_QPT_RC,
	};
	struct rdma_addrinfo *to;
	struct ibv_qp_init_attr attr = {
		.qp_type = hints.ai_qp_type,
		.cap = { .max_send_wr = DEPTH_MAX,
			 .max_recv_wr = DEPTH_MAX,
			 .max_send_sge = 2,
			 .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_conn_param param = {
		.responder_resources = reads,
		.private_data = private_data,
		.private_data_len = private_bytes,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	if (rdma_getaddrinfo(address, port, &hints, &to) != 0)
		die("rdma_getaddrinfo");
	if (rdma_create_ep(&c->id, to, NULL, &attr) != 0)
		die("rdma_create_ep");
	rdma_freeaddrinfo(to);
	c->depth = depth;
	c->memory = calloc(2UL * depth, BYTES_MAX);
	c->mr = c->memory ? rdma_reg_msgs(c->id, c->memory, 2UL * depth * BYTES_MAX) : NULL;
	if (!c->mr)
		die("rdma_reg_msgs");
	for (unsigned i = 0; i < depth; i++)
		post_receive(c, i);
	return rdma_connect(c->id, &param);
}

static void connect_one(struct client *c, const char *address, const char *port, unsigned depth)
{
	if (try_to_connect(c, address, port, depth) != 0) {
		const struct rdma_cm_event *event = c->id->event;

		printf("refused: %.*s\n", event ? (int)event->param.conn.private_data_len : 0,
		       event && event->param.conn.private_data
			       ? (const char *)event->param.conn.private_data
			       : "");
		exit(1);
	}
}

static unsigned parse_hex(const char *hex, uint8_t *ret, unsigned max)
{
	unsigned bytes = 0;

	for (; bytes < max && sscanf(hex, "%2hhx", &ret[bytes]) == 1; hex += 2)
		bytes++;
	return bytes;
}

static void print_hex(const char *word, const uint8_t *data, unsigned bytes)
{
	printf("%s ", word);
	for (unsigned i = 0; data && i < bytes; i++)
		printf("%02x", data[i]);
	putchar('\n');
}

/* Sends a message `count` times, and tells what the server answers to the first.  False: it ends.
 */
static bool say(const struct client *c, const char *hex, unsigned count)
{
	unsigned bytes = parse_hex(hex, send_slot(c, 0), BYTES_MAX);
	struct pollfd ends = { .fd = c->id->channel->fd, .events = POLLIN };
	struct ibv_wc wc;

	for (unsigned i = 0; i < count; i++)
		if (rdma_post_send(c->id, NULL, send_slot(c, 0), bytes, c->mr, 0) != 0)
			die("rdma_post_send");
	for (;;) {
		int n = ibv_poll_cq(c->id->recv_cq, 1, &wc);

		if (n > 0 && wc.status == IBV_WC_SUCCESS) {
			print_hex("answered", receive_slot(c, 0), wc.byte_len);
			return true;
		}
		if (n != 0 || poll(&ends, 1, 1) > 0) {
			puts("ended");
			return false;
		}
	}
}

/* Events of a call are the identifier's until the next. */
static void greet(const char *address, const char *port, const char *hex, const char *allowed,
		  const char *message, unsigned count)
{
	static struct client c;
	const struct rdma_conn_param *said;
	bool accepted;

	reads = (uint8_t)atoi(allowed);
	private_bytes = (uint8_t)parse_hex(hex, private_data, sizeof(private_data));
	/* iWARP ends a connection whose answer finds no receive. */
	accepted = try_to_connect(&c, address, port, count ? count : 1) == 0;
	said = c.id->event ? &c.id->event->param.conn : NULL;
	print_hex(accepted ? "accepted" : "refused", said ? said->private_data : NULL,
		  said ? said->private_data_len : 0);
	if (accepted && message)
		say(&c, message, count);
}

static unsigned size_of(unsigned bytes, unsigned i)
{
	return bytes ? bytes : 1 + i * 7919 % (16 * 1024);
}

static void send_one(struct client *c, unsigned bytes)
{
	unsigned size = size_of(bytes, c->sent);
	uint8_t *to = send_slot(c, c->sent);

	for (unsigned i = 0; i < size; i++)
		to[i] = (uint8_t)(c->sent * 131 + i);
	if (rdma_post_send(c->id, NULL, to, size, c->mr, 0) != 0)
		die("rdma_post_send");
	c->sent++;
}

static void take_sent(struct client *c)
{
	struct ibv_wc wc;

	if (rdma_get_send_comp(c->id, &wc) != 1)
		die("rdma_get_send_comp");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "send %u: %s\n", c->sent, ibv_wc_status_str(wc.status));
		exit(3);
	}
}

static void check_one(struct client *c, unsigned bytes)
{
	unsigned number = c->got, size = size_of(bytes, number);
	const uint8_t *at = receive_slot(c, number);
	struct ibv_wc wc;

	if (rdma_get_recv_comp(c->id, &wc) != 1)
		die("rdma_get_recv_comp");
	if (wc.status != IBV_WC_SUCCESS || wc.byte_len != size) {
		fprintf(stderr, "message %u: %s, %u bytes of %u\n", number,
			ibv_wc_status_str(wc.status), wc.byte_len, size);
		exit(3);
	}
	for (unsigned i = 0; i < size; i++)
		if (at[i] != (uint8_t)(number * 131 + i)) {
			fprintf(stderr, "message %u: byte %u differs\n", number, i);
			exit(3);
		}
	c->got++;
	post_receive(c, number + c->depth);
}

static void talk(struct client *c, char **messages)
{
	for (; *messages && say(c, *messages, 1); messages++) {
		take_sent(c);
		post_receive(c, 0);
	}
}

static void echo(struct client *clients, unsigned count, char **words)
{
	unsigned bytes = (unsigned)atoi(words[0]), messages = (unsigned)atoi(words[1]);
	unsigned depth = (unsigned)atoi(words[2]), total = 0;

	for (unsigned i = 0; i < count; i++)
		while (clients[i].sent < depth && clients[i].sent < messages)
			send_one(&clients[i], bytes);
	for (unsigned done = 0; done < count * messages; done++) {
		struct client *c = &clients[done % count];

		check_one(c, bytes);
		take_sent(c);
		if (c->sent < messages)
			send_one(c, bytes);
		total++;
	}
	printf("ok %u\n", total);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void latency(struct client *c, char **words)
{
	unsigned bytes = (unsigned)atoi(words[0]), count = (unsigned)atoi(words[1]);
	uint64_t *took = calloc(count, sizeof(*took));

	if (!took || count == 0)
		exit(2);
	for (unsigned i = 0; i < count; i++) {
		uint64_t start = now_ns();

		send_one(c, bytes);
		check_one(c, bytes);
		took[i] = now_ns() - start;
		take_sent(c);
	}
	qsort(took, count, sizeof(*took), by_size);
	printf("%llu\n", (unsigned long long)took[count / 2]);
	free(took);
}

static void hold(struct client *clients, unsigned count)
{
	puts("connected");
	fflush(stdout);
	for (unsigned i = 0; i < count; i++) {
		struct rdma_cm_event *event;

		if (rdma_get_cm_event(clients[i].id->channel, &event) != 0 ||
		    event->event != RDMA_CM_EVENT_DISCONNECTED)
			exit(3);
		rdma_ack_cm_event(event);
	}
	puts("disconnected");
}

static void send_only(struct client *c, char **words)
{
	unsigned bytes = (unsigned)atoi(words[0]), messages = (unsigned)atoi(words[1]);

	while (c->sent < messages) {
		send_one(c, bytes);
		take_sent(c);
	}
	printf("ok %u\n", c->sent);
	fflush(stdout);
	while (read(STDIN_FILENO, &(char){ 0 }, 1) > 0)
		;
}

/* Each connection takes three. */
static void raise_descriptors(void)
{
	const struct rlimit limit = { 4 * CONNECTIONS_MAX, 4 * CONNECTIONS_MAX };

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("RLIMIT_NOFILE");
}

int main(int argc, char **argv)
{
	static struct client clients[CONNECTIONS_MAX];
	bool is_send = argc > 1 && !strcmp(argv[1], "send");
	bool is_latency = argc == 6 && !strcmp(argv[1], "latency");
	bool is_talk = argc > 1 && !strcmp(argv[1], "talk");
	unsigned count;

	if (argc < 5)
		return 2;
	if ((argc == 6 || argc == 8) && !strcmp(argv[1], "greet")) {
		greet(argv[2], argv[3], argv[4], argv[5], argv[6],
		      argc == 8 ? (unsigned)atoi(argv[7]) : 0);
		return 0;
	}
	count = is_send || is_latency || is_talk ? 1 : (unsigned)atoi(argv[4]);
	if (count > CONNECTIONS_MAX)
		return 2;
	raise_descriptors();
	for (unsigned i = 0; i < count; i++)
		connect_one(&clients[i], argv[2], argv[3],
			    !strcmp(argv[1], "echo") && argc == 8 ? (unsigned)atoi(argv[7]) : 1);
	if (!strcmp(argv[1], "hold")) {
		hold(clients, count);
		return 0; /* on iWARP a second disconnect waits for ever */
	}
	if (!strcmp(argv[1], "echo") && argc == 8)
		echo(clients, count, argv + 5);
	else if (is_latency)
		latency(clients, argv + 4);
	else if (is_talk)
		talk(clients, argv + 4);
	else if (is_send && argc == 6)
		send_only(clients, argv + 4);
	else
		return 2;
	for (unsigned i = 0; i < count; i++)
		rdma_disconnect(clients[i].id);
	return 0;
}
