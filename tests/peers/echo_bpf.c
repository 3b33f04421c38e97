/* The floor under every echo over io_uring: one whose turns run in the kernel (echo_bpf.bpf.c), so
 * that echoes make no system call.  Only for measuring: the program owns the thread, and a
 * connection whose client does not take its answers is ended.
 *
 *   echo_bpf PROGRAM    the object file of echo_bpf.bpf.c; needs CAP_BPF and CAP_PERFMON
 *
 * Connections are accepted and closed here: the loop stops for those.  Status 77, with the reason:
 * this host cannot. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <liburing.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "bench.h"
#include "echo_bpf.h"

enum {
	CANNOT = 77,
	LINKED = 1 << 13, /* BPF_F_LINK and BPF_STRUCT_OPS, which Debian 12's headers lack */
	STRUCT_OPS = 44,
	REGISTER_REGION = 34, /* IORING_REGISTER_MEM_REGION and its structures: Linux 6.13 */
	REGION_USER = 1,
};

struct region {
	uint64_t address, bytes;
	uint32_t flags, id;
	uint64_t offset, zero[4];
};
struct region_reg {
	uint64_t region, flags, zero[2];
};

static struct io_uring ring;
static struct io_uring_buf_ring *buffer_ring;
static uint8_t *buffers;

/* ---- Submissions.  The next call submits them, and the program puts its own behind them. ---- */

static struct io_uring_sqe *sqe_next(void)
{
	return &ring.sq.sqes[*ring.sq.ktail & (ECHO_SQ - 1)];
}

static void sqe_queue(struct io_uring_sqe *sqe, enum echo_kind kind, unsigned slot)
{
	sqe->user_data = (uint64_t)slot << 8 | kind;
	io_uring_smp_store_release(ring.sq.ktail, *ring.sq.ktail + 1);
}

static void accept_start(int listen_fd)
{
	struct io_uring_sqe *sqe = sqe_next();

	memset(sqe, 0, sizeof(*sqe));
	io_uring_prep_multishot_accept_direct(sqe, listen_fd, NULL, NULL, 0);
	sqe_queue(sqe, ECHO_ACCEPT, 0);
}

static void receive_start(unsigned slot)
{
	struct io_uring_sqe *sqe = sqe_next();

	memset(sqe, 0, sizeof(*sqe));
	io_uring_prep_recv_multishot(sqe, (int)slot, NULL, 0, 0);
	sqe->flags = IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
	sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	sqe_queue(sqe, ECHO_RECEIVE, slot);
}

static void end(enum echo_kind kind, unsigned slot)
{
	struct io_uring_sqe *sqe = sqe_next();

	memset(sqe, 0, sizeof(*sqe));
	if (kind == ECHO_CLOSE) {
		io_uring_prep_close_direct(sqe, slot);
	} else { /* a send fell short: the receive ends, and then closes */
		io_uring_prep_shutdown(sqe, (int)slot, SHUT_RDWR);
		sqe->flags = IOSQE_FIXED_FILE;
	}
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe_queue(sqe, kind, slot);
}

/* ---- What stops the loop ---- */

static void complete(const struct io_uring_cqe *cqe, int listen_fd)
{
	unsigned slot = (unsigned)(cqe->user_data >> 8);
	enum echo_kind kind = cqe->user_data & 0xff;

	if (kind == ECHO_ACCEPT) {
		if (cqe->res >= 0)
			receive_start((unsigned)cqe->res);
		if (!(cqe->flags & IORING_CQE_F_MORE)) {
			if (cqe->res < 0)
				errx(1, "accept: %s", strerror(-cqe->res));
			accept_start(listen_fd);
		}
	} else if (kind == ECHO_RECEIVE && cqe->res == -ENOBUFS) {
		receive_start(slot);
	} else if (kind == ECHO_RECEIVE) { /* without bytes: the queue has room for all buffers */
		end(ECHO_CLOSE, slot);
	} else if (kind == ECHO_SEND) {
		end(ECHO_SHUTDOWN, slot);
	}
}

/* Runs the loop until it stops, and then takes what the program has left at the queue's head; what
 * it would take itself, behind that, stays. */
static void turn(int listen_fd)
{
	const struct io_uring_cq *cq = &ring.cq;
	const struct io_uring_cqe *cqe;
	unsigned head;

	if (syscall(__NR_io_uring_enter, ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 &&
	    errno != EINTR)
		err(1, "io_uring_enter");
	for (head = *cq->khead; head != io_uring_smp_load_acquire(cq->ktail); head++) {
		cqe = &cq->cqes[head & (ECHO_CQ - 1)];
		if ((cqe->user_data & 0xff) == ECHO_RECEIVE && (cqe->flags & IORING_CQE_F_MORE))
			break;
		if (*ring.sq.ktail - *ring.sq.khead >= ECHO_SQ / 2)
			break; /* the next call submits those */
		complete(cqe, listen_fd);
	}
	io_uring_smp_store_release(cq->khead, head);
}

/* ---- Start ---- */

static void ring_init(void)
{
	struct io_uring_params params = { .cq_entries = ECHO_CQ,
					  .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL |
						   IORING_SETUP_SINGLE_ISSUER |
						   IORING_SETUP_DEFER_TASKRUN };
	int result = io_uring_queue_init_params(ECHO_SQ, &ring, &params);

	if (result < 0)
		errx(CANNOT, "no io_uring: %s", strerror(-result));
	result = io_uring_register_files_sparse(&ring, ECHO_CONNECTIONS);
	if (result < 0)
		errx(CANNOT, "no registered files: %s", strerror(-result));
	for (unsigned i = 0; i < ECHO_SQ; i++)
		ring.sq.array[i] = i;
	if (dup2(ring.ring_fd, ECHO_RING_FD) < 0)
		err(1, "dup2");
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	return p;
}

/* The page with the ring of buffers is the ring's region of memory as well, so that the program can
 * give buffers back. */
static void buffers_init(void)
{
	struct io_uring_buf_reg buffer_reg = { .ring_entries = ECHO_BUFFERS };
	size_t page = ECHO_BUFFERS * sizeof(struct io_uring_buf);
	struct region region = { .bytes = page, .flags = REGION_USER };
	struct region_reg region_reg = { .region = (uintptr_t)&region };

	buffers = map((size_t)ECHO_BUFFERS * ECHO_BYTES);
	buffer_ring = map(page);
	for (unsigned i = 0; i < ECHO_BUFFERS; i++)
		io_uring_buf_ring_add(buffer_ring, buffers + (size_t)i * ECHO_BYTES, ECHO_BYTES,
				      (uint16_t)i, ECHO_BUFFERS - 1, (int)i);
	io_uring_buf_ring_advance(buffer_ring, ECHO_BUFFERS);
	buffer_reg.ring_addr = region.address = (uintptr_t)buffer_ring;
	if (io_uring_register_buf_ring(&ring, &buffer_reg, 0) < 0 ||
	    syscall(__NR_io_uring_register, ring.ring_fd, REGISTER_REGION, &region_reg, 1) < 0)
		errx(CANNOT, "no ring of buffers in a region (Linux 6.13)");
}

static unsigned place(const void *p)
{
	return (unsigned)((const uint8_t *)p - (const uint8_t *)ring.sq.ring_ptr);
}

/* Has the ring run the program instead of waiting, as long as this process lives. */
static void program_load(const char *path)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	const struct echo_places places = {
		.cq_head = place(ring.cq.khead),
		.cq_tail = place(ring.cq.ktail),
		.cqes = place(ring.cq.cqes),
		.sq_head = place(ring.sq.khead),
		.sq_tail = place(ring.sq.ktail),
		.buffers = (uintptr_t)buffers,
	};
	struct bpf_map *constants, *ops;

	if (!object)
		errx(1, "%s: %s", path, strerror(errno));
	constants = bpf_object__find_map_by_name(object, ".rodata");
	ops = bpf_object__find_map_by_name(object, "echo_ops");
	if (!constants || !ops ||
	    bpf_map__set_initial_value(constants, &places, sizeof(places)) < 0)
		errx(1, "%s is not what echo_bpf.bpf.c makes", path);
	bpf_program__set_flags(bpf_object__find_program_by_name(object, "echo_step"),
			       BPF_F_SLEEPABLE);
	bpf_map__set_map_flags(ops, LINKED); /* it ends with the process */
	if (bpf_object__load(object) < 0)
		errx(CANNOT, "no loop of io_uring in BPF (Linux 7.1, CAP_BPF and CAP_PERFMON): %s",
		     strerror(errno));
	if (!bpf_map__attach_struct_ops(ops))
		errx(CANNOT, "the ring does not take the program: %s", strerror(errno));
	/* libbpf before 1.2 only makes it ready. */
	if (LIBBPF_MAJOR_VERSION * 100 + LIBBPF_MINOR_VERSION < 102 &&
	    bpf_link_create(bpf_map__fd(ops), 0, (enum bpf_attach_type)STRUCT_OPS, NULL) < 0)
		errx(CANNOT, "the ring does not take the program: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	int listen_fd;

	if (argc != 2)
		errx(2, "usage: echo_bpf PROGRAM");
	raise_nofile();
	ring_init();
	buffers_init();
	program_load(argv[1]);
	listen_fd = listen_loopback();
	accept_start(listen_fd);
	for (;;)
		turn(listen_fd);
}
