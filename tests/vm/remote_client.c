/* Clients of the services that read and write their clients' memory, for operations that rping does
 * not do.
 *
 *   remote_client rping ADDRESS PORT FIRST LAST
 *       A ping of each size, each checked.  Prints `ok PINGS`.
 *   remote_client wrong ADDRESS PORT WHAT
 *       Half a ping, then one whose WHAT is wrong: `key`, `size` (beyond what is registered),
 * `sink` (its key), `length` (17 bytes of message), `none` (connects and is silent).  Prints
 *       `connected`, and `disconnected` when the server has ended the connection.
 *   remote_client private ADDRESS PORT
 *       Connects with private data of every length that can be asked for, 0 to 255 bytes.  Prints
 *       `carries 0 to BYTES`: with more it could not.
 *   remote_client region ADDRESS PORT BYTES BUFFERS
 *       As fio would: asks for BUFFERS buffers of BYTES bytes, fills each with a pattern of its
 *       own, all but the first with a write that tells the server (not over iWARP), and reads all
 *       back.
 *       Prints `ok BUFFERS`.
 *   remote_client beyond ADDRESS PORT BYTES
 *       Asks for two buffers and writes one byte beyond the second.  Prints what the device says.
 */
#include <endian.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PING_MESSAGE = 16,
	PING_MAX = 65535,
	QUEUE = 16,
	FIO_HEAD = 16,
	FIO_BUFFER = 16,
	FIO_MESSAGE = FIO_HEAD + 512 * FIO_BUFFER,
	FIO_WRITE = 1,
};

static struct rdma_cm_id *id;
static uint8_t source[PING_MAX], sink[PING_MAX + 1];
static uint8_t message[FIO_MESSAGE], reply[FIO_MESSAGE];
static struct ibv_mr *source_mr, *sink_mr, *message_mr, *reply_mr;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(2);
}

static struct ibv_mr *share(void *memory, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(id->pd, memory, bytes,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					       IBV_ACCESS_REMOTE_WRITE);

	if (!mr)
		die("ibv_reg_mr");
	return mr;
}

static void post_reply(void)
{
	if (rdma_post_recv(id, NULL, reply, sizeof(reply), reply_mr) != 0)
		die("rdma_post_recv");
}

/* False: refused. */
static bool connect_to(const char *address, const char *port, size_t private_bytes)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *to;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = QUEUE,
			 .max_recv_wr = QUEUE,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.private_data = source,
		.private_data_len = (uint8_t)private_bytes,
	};

	if (rdma_getaddrinfo(address, port, &hints, &to) != 0)
		die("rdma_getaddrinfo");
	if (rdma_create_ep(&id, to, NULL, &attr) != 0)
		die("rdma_create_ep");
	rdma_freeaddrinfo(to);
	source_mr = share(source, sizeof(source));
	sink_mr = share(sink, sizeof(sink));
	message_mr = share(message, sizeof(message));
	reply_mr = share(reply, sizeof(reply));
	post_reply();
	return rdma_connect(id, &param) == 0;
}

static void check(int count, const struct ibv_wc *wc, const char *what)
{
	if (count != 1)
		die(what);
	if (wc->status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc->status));
	exit(3);
}

/* ---- rping ---- */

static void advertise(const void *memory, uint32_t key, uint32_t size, size_t bytes)
{
	uint64_t address = htobe64((uintptr_t)memory);
	struct ibv_wc wc;

	key = htobe32(key);
	size = htobe32(size);
	memcpy(message, &address, 8);
	memcpy(message + 8, &key, 4);
	memcpy(message + 12, &size, 4);
	if (rdma_post_send(id, NULL, message, bytes, message_mr, 0) != 0)
		die("rdma_post_send");
	check(rdma_get_send_comp(id, &wc), &wc, "send");
}

static void take_reply(uint32_t bytes)
{
	struct ibv_wc wc;

	check(rdma_get_recv_comp(id, &wc), &wc, "reply");
	if (wc.byte_len != bytes) {
		fprintf(stderr, "a reply of %u bytes\n", wc.byte_len);
		exit(3);
	}
	post_reply();
}

static void ping(uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		source[i] = (uint8_t)(i * 31 + size);
	memset(sink, 0, size + 1);
	advertise(source, source_mr->rkey, size, PING_MESSAGE);
	take_reply(PING_MESSAGE);
	memset(source, 0x55, size); /* it has been read */
	advertise(sink, sink_mr->rkey, size, PING_MESSAGE);
	take_reply(PING_MESSAGE);
	for (uint32_t i = 0; i <= size; i++)
		if (sink[i] != (i < size ? (uint8_t)(i * 31 + size) : 0)) {
			fprintf(stderr, "ping of %u bytes: byte %u differs\n", size, i);
			exit(3);
		}
}

static void do_rping(char **words)
{
	unsigned count = 0;

	for (unsigned size = (unsigned)atoi(words[0]); size <= (unsigned)atoi(words[1]); size++) {
		ping(size);
		count++;
	}
	printf("ok %u\n", count);
	rdma_disconnect(id);
}

static void do_wrong(char **words)
{
	const char *what = words[0];
	struct rdma_cm_event *event;

	puts("connected");
	fflush(stdout);
	if (!strcmp(what, "key"))
		advertise(source, source_mr->rkey ^ 0xff00, 1000, PING_MESSAGE);
	else if (!strcmp(what, "size"))
		advertise(source + 1, source_mr->rkey, PING_MAX, PING_MESSAGE);
	else if (!strcmp(what, "length"))
		advertise(source, source_mr->rkey, 1000, PING_MESSAGE + 1);
	else if (!strcmp(what, "sink")) {
		advertise(source, source_mr->rkey, 1000, PING_MESSAGE);
		take_reply(PING_MESSAGE);
		advertise(sink, sink_mr->rkey ^ 0xff00, 1000, PING_MESSAGE);
	}
	if (rdma_get_cm_event(id->channel, &event) != 0 ||
	    event->event != RDMA_CM_EVENT_DISCONNECTED)
		exit(3);
	rdma_ack_cm_event(event);
	puts("disconnected");
}

/* ---- fio ---- */

static void put(uint8_t *to, uint32_t n)
{
	n = htobe32(n);
	memcpy(to, &n, sizeof(n));
}

static uint32_t get(const uint8_t *from)
{
	uint32_t n;

	memcpy(&n, from, sizeof(n));
	return be32toh(n);
}

/* Buffer i of the reply. */
static uint64_t address_of(unsigned i, uint32_t *ret_key)
{
	const uint8_t *from = reply + FIO_HEAD + (size_t)i * FIO_BUFFER;
	uint64_t address;

	memcpy(&address, from, sizeof(address));
	*ret_key = get(from + 8);
	return be64toh(address);
}

static void ask(uint32_t bytes, uint32_t buffers)
{
	struct ibv_wc wc;

	put(message, FIO_WRITE);
	put(message + 4, buffers);
	put(message + 8, bytes);
	if (rdma_post_send(id, NULL, message, FIO_MESSAGE, message_mr, 0) != 0)
		die("rdma_post_send");
	check(rdma_get_send_comp(id, &wc), &wc, "send");
	take_reply(FIO_MESSAGE);
	if (get(reply + 4) == buffers && get(reply + 8) == bytes)
		return;
	fprintf(stderr, "%u buffers of %u bytes\n", get(reply + 4), get(reply + 8));
	exit(3);
}

/* One operation; its completion. */
static struct ibv_wc operate(enum ibv_wr_opcode opcode, void *memory, struct ibv_mr *mr,
			     uint32_t bytes, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = { (uintptr_t)memory, bytes, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(77),
		.wr.rdma = { address, key },
	};
	struct ibv_wc wc;

	errno = ibv_post_send(id->qp, &wr, &bad);
	if (errno != 0)
		die("ibv_post_send");
	if (rdma_get_send_comp(id, &wc) != 1)
		die("rdma_get_send_comp");
	return wc;
}

static void do_region(char **words)
{
	uint32_t bytes = (uint32_t)atoi(words[0]), buffers = (uint32_t)atoi(words[1]), key;
	bool has_immediate = id->verbs->device->transport_type == IBV_TRANSPORT_IB;
	struct ibv_wc wc;

	ask(bytes, buffers);
	for (unsigned i = 0; i < buffers; i++) {
		bool tells = i > 0 && has_immediate;
		uint64_t address = address_of(i, &key);

		memset(source, (int)(i + 1), bytes);
		wc = operate(tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, source,
			     source_mr, bytes, address, key);
		check(1, &wc, "write");
	}
	for (unsigned i = 0; i < buffers; i++) {
		uint64_t address = address_of(i, &key);

		memset(sink, 0, bytes);
		wc = operate(IBV_WR_RDMA_READ, sink, sink_mr, bytes, address, key);
		check(1, &wc, "read");
		for (uint32_t j = 0; j < bytes; j++)
			if (sink[j] != (uint8_t)(i + 1)) {
				fprintf(stderr, "buffer %u: byte %u differs\n", i, j);
				exit(3);
			}
	}
	printf("ok %u\n", buffers);
	rdma_disconnect(id);
}

static void do_beyond(char **words)
{
	uint32_t bytes = (uint32_t)atoi(words[0]), key;
	uint64_t address;
	struct ibv_wc wc;

	ask(bytes, 2);
	address = address_of(1, &key);
	wc = operate(IBV_WR_RDMA_WRITE, source, source_mr, bytes, address + 1, key);
	puts(ibv_wc_status_str(wc.status));
}

/* ---- Others ---- */

static int do_private(const char *address, const char *port)
{
	int carried = -1;

	for (int bytes = 0; bytes <= UINT8_MAX; bytes++) {
		if (connect_to(address, port, (size_t)bytes)) {
			if (carried != bytes - 1) {
				fprintf(stderr, "%d bytes, but not %d\n", bytes, carried + 1);
				return 3;
			}
			carried = bytes;
			rdma_disconnect(id);
		}
		rdma_dereg_mr(source_mr);
		rdma_dereg_mr(sink_mr);
		rdma_dereg_mr(message_mr);
		rdma_dereg_mr(reply_mr);
		rdma_destroy_ep(id);
	}
	printf("carries 0 to %d\n", carried);
	return 0;
}

static const struct {
	const char *name;
	int words;
	void (*run)(char **words);
} modes[] = { { "rping", 2, do_rping },
	      { "wrong", 1, do_wrong },
	      { "region", 2, do_region },
	      { "beyond", 1, do_beyond } };

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "private"))
		return do_private(argv[2], argv[3]);
	for (unsigned i = 0; argc >= 4 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) != 0 || argc != 4 + modes[i].words)
			continue;
		if (!connect_to(argv[2], argv[3], 0))
			die("rdma_connect");
		modes[i].run(argv + 4);
		return 0;
	}
	return 2;
}
