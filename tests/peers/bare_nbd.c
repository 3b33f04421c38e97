/* The yardstick: an NBD server of one file for one client, as little as it can do.
 *
 *   bare_nbd calls|splice|pread|linked FILE
 *
 * calls: recv, pread or pwrite, send, and no waiting for anything else: the least that the kernel
 * takes for it.  splice: the same, but what is written goes from the socket through a pipe to the
 * file, copied once instead of twice.  The others are for a client that waits for each answer, on a
 * ring: pread makes the file's part by a call of its own, and one io_uring_enter sends the answer
 * and waits for the next request; linked has file and answer linked in that one call.  Prints "port
 * N"; no answer is checked for being short. */
#include <endian.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "bench.h"

enum { HEADER = 28, REPLY = 16, PAYLOAD_MAX = 1 << 20, MAGIC_REPLY = 0x67446698, WRITE = 1 };
enum { OPTION_GO = 7, REP_ACK = 1, REP_INFO = 3, FLAGS = 1 /* that there are flags */ };
#define REP_UNSUPPORTED (1U << 31 | 1)

static struct {
	int file, client, pipe[2]; /* pipe: used if `splices` */
	bool splices;
	uint64_t size;
	struct io_uring ring;
	uint8_t request[HEADER + PAYLOAD_MAX], reply[REPLY + PAYLOAD_MAX];
} s;

/* False: the client has gone. */
static bool receive(void *to, size_t bytes)
{
	return bytes == 0 || recv(s.client, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static bool transmit(const void *from, size_t bytes)
{
	return send(s.client, from, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static uint32_t get32(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return be32toh(value);
}

static bool option_reply(uint32_t option, uint32_t type, const void *data, uint32_t bytes)
{
	uint8_t reply[64];
	const uint64_t magic = htobe64(0x3e889045565a9);
	const uint32_t rest[] = { htobe32(option), htobe32(type), htobe32(bytes) };

	memcpy(reply, &magic, 8);
	memcpy(reply + 8, rest, 12);
	memcpy(reply + 20, data, bytes);
	return transmit(reply, 20 + bytes);
}

/* Whatever name is asked for, it is the file. */
static bool shake_hands(void)
{
	uint8_t info[12] = { 0 };
	const uint64_t size = htobe64(s.size);
	uint32_t option = 0;

	memcpy(info + 2, &size, 8);
	info[11] = FLAGS;
	if (!transmit("NBDMAGICIHAVEOPT\0\3", 18) || !receive(s.request, 4))
		return false;
	while (option != OPTION_GO) {
		uint32_t answer = REP_UNSUPPORTED;

		if (!receive(s.request, 16) || get32(s.request + 12) > PAYLOAD_MAX ||
		    !receive(s.request + 16, get32(s.request + 12)))
			return false;
		option = get32(s.request + 8);
		if (option == OPTION_GO)
			answer = option_reply(option, REP_INFO, info, sizeof(info)) ? REP_ACK : 0;
		if (!option_reply(option, answer, "", 0))
			return false;
	}
	return true;
}

struct request {
	bool write;
	uint64_t offset;
	uint32_t bytes;
};

/* Makes the header of the reply as well.  False: it is no read and no write. */
static bool parse(struct request *r)
{
	const uint32_t magic = htobe32(MAGIC_REPLY);

	memcpy(&r->offset, s.request + 16, 8);
	r->offset = be64toh(r->offset);
	r->bytes = get32(s.request + 24);
	r->write = s.request[7] == WRITE;
	memcpy(s.reply, &magic, 4);
	memcpy(s.reply + 8, s.request + 8, 8);
	return s.request[7] <= WRITE && r->bytes <= PAYLOAD_MAX;
}

static void transfer(const struct request *r)
{
	ssize_t n = r->write ? pwrite(s.file, s.request + HEADER, r->bytes, (off_t)r->offset)
			     : pread(s.file, s.reply + REPLY, r->bytes, (off_t)r->offset);

	if (n != (ssize_t)r->bytes)
		err(1, "the file");
}

/* False: the client has gone. */
static bool splice_payload(const struct request *r)
{
	off_t at = (off_t)r->offset, end = at + r->bytes;

	while (at < end) {
		ssize_t n = splice(s.client, NULL, s.pipe[1], NULL, (size_t)(end - at), 0);

		if (n <= 0)
			return false;
		for (ssize_t m; n > 0; n -= m) {
			m = splice(s.pipe[0], NULL, s.file, &at, (size_t)n, 0);
			if (m <= 0)
				err(1, "splice to the file");
		}
	}
	return true;
}

static bool receive_and_transfer(const struct request *r)
{
	if (r->write && s.splices)
		return splice_payload(r);
	if (!receive(s.request + HEADER, r->write ? r->bytes : 0))
		return false;
	transfer(r);
	return true;
}

static void serve_calls(void)
{
	struct request r;

	while (receive(s.request, HEADER) && parse(&r) && receive_and_transfer(&r)) {
		if (!transmit(s.reply, REPLY + (r.write ? 0 : r.bytes)))
			return;
	}
}

/* Sends what is queued, and waits for the next request, which is the client's only one. */
static bool ring_receive(struct request *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s.ring);
	struct io_uring_cqe *cqe;
	int got;

	io_uring_prep_recv(sqe, s.client, s.request, sizeof(s.request), 0);
	sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	if (io_uring_submit_and_wait(&s.ring, 1) < 0 || io_uring_peek_cqe(&s.ring, &cqe) != 0)
		err(1, "io_uring");
	got = cqe->res;
	io_uring_cqe_seen(&s.ring, cqe);
	if (got < HEADER || !parse(r))
		return false;
	return !r->write || receive(s.request + got, HEADER + r->bytes - (unsigned)got);
}

static void serve_ring(bool linked)
{
	const unsigned link = IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
	struct io_uring_sqe *sqe;
	struct request r;

	while (ring_receive(&r)) {
		if (!linked) {
			transfer(&r);
		} else if (r.write) {
			sqe = io_uring_get_sqe(&s.ring);
			io_uring_prep_write(sqe, s.file, s.request + HEADER, r.bytes, r.offset);
			sqe->flags = link;
		} else {
			sqe = io_uring_get_sqe(&s.ring);
			io_uring_prep_read(sqe, s.file, s.reply + REPLY, r.bytes, r.offset);
			sqe->flags = link;
		}
		sqe = io_uring_get_sqe(&s.ring);
		io_uring_prep_send(sqe, s.client, s.reply, REPLY + (r.write ? 0 : r.bytes),
				   MSG_NOSIGNAL | MSG_WAITALL);
		sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
	}
}

int main(int argc, char **argv)
{
	bool splices = argc == 3 && !strcmp(argv[1], "splice");
	bool calls = splices || (argc == 3 && !strcmp(argv[1], "calls"));
	bool linked = argc == 3 && !strcmp(argv[1], "linked");
	const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	struct stat st;
	int listener;

	if (argc != 3 || (!calls && !linked && strcmp(argv[1], "pread") != 0))
		errx(2, "usage: bare_nbd calls|splice|pread|linked FILE");
	s.file = open(argv[2], O_RDWR | O_CLOEXEC);
	if (s.file < 0 || fstat(s.file, &st) < 0)
		err(1, "%s", argv[2]);
	s.size = (uint64_t)st.st_size;
	if (!calls && io_uring_queue_init(8, &s.ring, flags) < 0)
		errx(77, "no io_uring with deferred work here");
	s.splices = splices;
	if (splices &&
	    (pipe2(s.pipe, O_CLOEXEC) < 0 || fcntl(s.pipe[1], F_SETPIPE_SZ, PAYLOAD_MAX) < 0))
		err(1, "a pipe");
	listener = listen_loopback();
	while ((s.client = accept(listener, NULL, NULL)) >= 0) {
		if (!shake_hands())
			; /* it only looked whether somebody listens */
		else if (calls)
			serve_calls();
		else
			serve_ring(linked);
		close(s.client);
	}
	err(1, "accept");
}
