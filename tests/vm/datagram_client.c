/* A client of the services over RDMA datagrams, for the tests in the VM.
 *
 *   datagram_client echo ADDRESS PORT CLIENTS BYTES COUNT
 *       COUNT datagrams from each of CLIENTS queue pairs, one after the other; BYTES 0: of every
 *       size up to the MTU.  Each must come back whole, and to who sent it.  Prints `ok DATAGRAMS`.
 *   datagram_client flood ADDRESS PORT BYTES COUNT
 *       COUNT datagrams as fast as they can be sent; prints `sent N got M`.
 *   datagram_client burst ADDRESS PORT CLIENTS BYTES
 *       Prints `connected`, and at the end of the standard input sends one datagram from each of
 *       CLIENTS queue pairs, all before the first answer is looked for; prints `sent N got M`.
 *   datagram_client oversize ADDRESS PORT
 *       One that is longer than the MTU; prints `refused`, or `sent` if the device says so.
 *
 * One that is refused prints `refused: REASON` and ends with 1. */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	GRH = 40,
	BYTES_MAX = 8192,
	DEPTH = 64,
	CLIENTS_MAX = 2048,
	QUIET_MS = 1000,
	WAIT_MS = 20000
};

struct client {
	struct rdma_cm_id *id;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	uint8_t *memory; /* one to send, DEPTH to receive into */
	uint32_t qp_num, qkey;
	unsigned posted, got;
};

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(2);
}

static uint8_t *receive_slot(const struct client *c, unsigned i)
{
	return c->memory + (size_t)(1 + i % DEPTH) * BYTES_MAX;
}

static void post_receive(struct client *c)
{
	if (rdma_post_recv(c->id, NULL, receive_slot(c, c->posted), BYTES_MAX, c->mr) != 0)
		die("rdma_post_recv");
	c->posted++;
}

static void open_one(struct client *c, const char *address, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP }, *to;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_cm_event *event;

	if (rdma_getaddrinfo(address, port, &hints, &to) != 0)
		die("rdma_getaddrinfo");
	if (rdma_create_ep(&c->id, to, NULL, &attr) != 0)
		die("rdma_create_ep");
	rdma_freeaddrinfo(to);
	c->memory = calloc(DEPTH + 1, BYTES_MAX);
	c->mr = c->memory ? rdma_reg_msgs(c->id, c->memory, (size_t)(DEPTH + 1) * BYTES_MAX) : NULL;
	if (!c->mr)
		die("rdma_reg_msgs");
	while (c->posted < DEPTH)
		post_receive(c);
	if (rdma_connect(c->id, NULL) != 0) {
		event = c->id->event;
		printf("refused: %.*s\n", event ? (int)event->param.ud.private_data_len : 0,
		       event && event->param.ud.private_data
			       ? (const char *)event->param.ud.private_data
			       : "");
		exit(1);
	}
	event = c->id->event;
	c->ah = ibv_create_ah(c->id->pd, &event->param.ud.ah_attr);
	if (!c->ah)
		die("ibv_create_ah");
	c->qp_num = event->param.ud.qp_num;
	c->qkey = event->param.ud.qkey;
}

static void fill(const struct client *c, unsigned number, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		c->memory[i] = (uint8_t)(number * 131 + i);
}

/* False: the device did not take it. */
static bool send_one(struct client *c, unsigned bytes)
{
	struct ibv_sge sge = { (uintptr_t)c->memory, bytes, c->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = { c->ah, c->qp_num, c->qkey },
	};
	struct ibv_wc wc;

	return ibv_post_send(c->id->qp, &wr, &bad) == 0 && rdma_get_send_comp(c->id, &wc) == 1 &&
	       wc.status == IBV_WC_SUCCESS;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The bytes of the next datagram, or -1 after wait_ms. */
static int take_one(struct client *c, uint8_t **ret_data, unsigned wait_ms)
{
	uint64_t end = now_ms() + wait_ms;
	struct ibv_wc wc;

	while (ibv_poll_cq(c->id->recv_cq, 1, &wc) == 0) {
		if (now_ms() > end)
			return -1;
		sched_yield(); /* the server may have no other CPU */
	}
	if (wc.status != IBV_WC_SUCCESS)
		die(ibv_wc_status_str(wc.status));
	*ret_data = receive_slot(c, c->got++) + GRH;
	post_receive(c);
	return (int)wc.byte_len - GRH;
}

static unsigned mtu_of(const struct client *c)
{
	struct ibv_port_attr port;

	if (ibv_query_port(c->id->verbs, c->id->port_num, &port) != 0)
		die("ibv_query_port");
	return 128U << port.active_mtu;
}

static void echo_one(struct client *c, unsigned number, unsigned bytes)
{
	uint8_t *data = NULL;
	int got;

	fill(c, number, bytes);
	if (!send_one(c, bytes))
		die("send");
	got = take_one(c, &data, WAIT_MS);
	if (got != (int)bytes || memcmp(data, c->memory, bytes) != 0) {
		fprintf(stderr, "datagram %u of %u bytes: got %d\n", number, bytes, got);
		exit(3);
	}
}

static void echo(struct client *clients, unsigned count, unsigned bytes, unsigned datagrams)
{
	unsigned mtu = mtu_of(clients);

	for (unsigned i = 0; i < datagrams; i++)
		for (unsigned j = 0; j < count; j++)
			echo_one(&clients[j], i * count + j, bytes ? bytes : 1 + i % mtu);
	printf("ok %u\n", count * datagrams);
}

static void flood(struct client *c, unsigned bytes, unsigned datagrams)
{
	uint8_t *data;
	unsigned sent = 0;

	while (sent < datagrams && send_one(c, bytes))
		sent++;
	while (take_one(c, &data, QUIET_MS) >= 0)
		;
	printf("sent %u got %u\n", sent, c->got);
}

static void burst(struct client *clients, unsigned count, unsigned bytes)
{
	unsigned got = 0;
	uint8_t *data;

	puts("connected");
	fflush(stdout);
	while (read(STDIN_FILENO, &(char){ 0 }, 1) > 0)
		;
	for (unsigned i = 0; i < count; i++)
		if (!send_one(&clients[i], bytes))
			die("send");
	for (unsigned i = 0; i < count; i++)
		got += take_one(&clients[i], &data, got == i ? WAIT_MS : 0) >= 0;
	printf("sent %u got %u\n", count, got);
}

int main(int argc, char **argv)
{
	static struct client clients[CLIENTS_MAX];
	bool is_echo = argc == 7 && !strcmp(argv[1], "echo");
	bool is_burst = argc == 6 && !strcmp(argv[1], "burst");
	unsigned count = is_echo || is_burst ? (unsigned)atoi(argv[4]) : 1;

	if (argc < 4 || count > CLIENTS_MAX)
		return 2;
	for (unsigned i = 0; i < count; i++)
		open_one(&clients[i], argv[2], argv[3]);
	if (is_echo)
		echo(clients, count, (unsigned)atoi(argv[5]), (unsigned)atoi(argv[6]));
	else if (is_burst)
		burst(clients, count, (unsigned)atoi(argv[5]));
	else if (argc == 6 && !strcmp(argv[1], "flood"))
		flood(clients, (unsigned)atoi(argv[4]), (unsigned)atoi(argv[5]));
	else if (argc == 4 && !strcmp(argv[1], "oversize"))
		puts(send_one(clients, mtu_of(clients) + 1) ? "sent" : "refused");
	else
		return 2;
	return 0;
}
