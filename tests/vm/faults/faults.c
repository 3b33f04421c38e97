/* Linked into a second daemon, build/vm/nbserved_faults: verbs that fail when a test says so.
 *
 * NBSERVED_FAULTS names a folder.  A file VERB in it, with `SKIP TIMES`, has the verb succeed SKIP
 * times and then fail TIMES times; it is removed with the last of them.  A file VERB.hold or
 * VERB.spin is renamed to VERB.held by the next call, which sleeps or works until that is removed.
 * The functions are replaced by the linker (--wrap); those that <infiniband/verbs.h> calls through
 * a table of the device, in that table. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool fault_take(const char *path)
{
	FILE *file = fopen(path, "r+e");
	unsigned skip = 0, times = 0;
	bool fails;

	if (!file)
		return false;
	fails = fscanf(file, "%u %u", &skip, &times) == 2 && skip == 0 && times > 0;
	rewind(file);
	fprintf(file, "%u %u ", skip > 0 ? skip - 1 : 0, times - fails);
	fclose(file);
	if (fails && times == 1)
		unlink(path);
	return fails;
}

/* Sleeps until the file is removed, without any CPU time. */
static void fault_sleep(const char *held)
{
	char event[sizeof(struct inotify_event)];
	int fd = inotify_init1(IN_CLOEXEC);

	if (inotify_add_watch(fd, held, IN_DELETE_SELF) >= 0)
		while (access(held, F_OK) == 0 && read(fd, event, sizeof(event)) < 0)
			continue;
	close(fd);
}

static void fault_hold(const char *path, bool works)
{
	char hold[300], held[300];

	snprintf(hold, sizeof(hold), "%s.%s", path, works ? "spin" : "hold");
	snprintf(held, sizeof(held), "%s.held", path);
	if (rename(hold, held) < 0)
		return;
	if (!works)
		fault_sleep(held);
	while (access(held, F_OK) == 0)
		sched_yield();
}

/* Does this call of the verb fail?  Then errno says so. */
static bool fault(const char *verb)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const char *folder = getenv("NBSERVED_FAULTS");
	char path[256];
	bool fails;

	if (!folder)
		return false;
	snprintf(path, sizeof(path), "%s/%s", folder, verb);
	fault_hold(path, false);
	fault_hold(path, true);
	pthread_mutex_lock(&lock);
	fails = fault_take(path);
	pthread_mutex_unlock(&lock);
	if (fails)
		errno = ENOMEM;
	return fails;
}

/* ---- Through the device's table ---- */

static struct ibv_context_ops real;

static int fault_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (!fault("ibv_post_send"))
		return real.post_send(qp, wr, bad);
	*bad = wr;
	return ENOMEM;
}

static int fault_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (!fault("ibv_post_recv"))
		return real.post_recv(qp, wr, bad);
	*bad = wr;
	return ENOMEM;
}

static int fault_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return fault("ibv_req_notify_cq") ? ENOMEM : real.req_notify_cq(cq, solicited_only);
}

/* One kind of device: its functions are the same for all.  Listeners start side by side, and two
 * that patched at once would save the patched functions as the real ones, which then call
 * themselves for ever. */
static void fault_patch(struct ibv_context *context)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	if (context->ops.post_send != fault_post_send) {
		real = context->ops;
		context->ops.post_send = fault_post_send;
		context->ops.post_recv = fault_post_recv;
		context->ops.req_notify_cq = fault_req_notify_cq;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- By the linker ---- */

/* <infiniband/verbs.h> has ibv_reg_mr() call this. */
struct ibv_mr *__real_ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t bytes, uint64_t iova,
				       unsigned int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t bytes, uint64_t iova,
				       unsigned int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t bytes, uint64_t iova,
				       unsigned int access)
{
	if ((access & IBV_ACCESS_RELAXED_ORDERING) && fault("relaxed")) {
		errno = EINVAL;
		return NULL;
	}
	return fault("ibv_reg_mr") ? NULL : __real_ibv_reg_mr_iova2(pd, at, bytes, iova, access);
}

/* TYPE NAME(PARAMETERS), called with ARGUMENTS, or FAILS. */
#define WRAP(type, name, parameters, arguments, fails)                                             \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		return fault(#name) ? (fails) : __real_##name arguments;                           \
	}

struct ibv_cq *__real_ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector)
{
	fault_patch(context);
	return fault("ibv_create_cq")
		       ? NULL
		       : __real_ibv_create_cq(context, cqe, cq_context, channel, vector);
}

#undef ibv_query_port
WRAP(int, ibv_query_device, (struct ibv_context * context, struct ibv_device_attr *attr),
     (context, attr), ENOMEM)
WRAP(int, ibv_query_port,
     (struct ibv_context * context, uint8_t port, struct _compat_ibv_port_attr *attr),
     (context, port, attr), ENOMEM)
WRAP(ssize_t, _ibv_query_gid_table,
     (struct ibv_context * context, struct ibv_gid_entry *entries, size_t room, uint32_t flags,
      size_t entry_bytes),
     (context, entries, room, flags, entry_bytes), -EIO)
WRAP(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context), (context), NULL)
WRAP(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * context), (context),
     NULL)
WRAP(int, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask),
     ENOMEM)
WRAP(struct rdma_event_channel *, rdma_create_event_channel, (void), (), NULL)
WRAP(int, rdma_create_id,
     (struct rdma_event_channel * channel, struct rdma_cm_id **id, void *context,
      enum rdma_port_space space),
     (channel, id, context, space), -1)
WRAP(int, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr *address), (id, address), -1)
WRAP(int, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog), -1)
WRAP(int, rdma_migrate_id, (struct rdma_cm_id * id, struct rdma_event_channel *channel),
     (id, channel), -1)
WRAP(int, rdma_create_qp,
     (struct rdma_cm_id * id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (id, pd, attr), -1)
WRAP(int, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param), -1)
WRAP(struct ibv_context **, rdma_get_devices, (int *count), (count), NULL)

void *__wrap_calloc(size_t count, size_t size)
{
	return fault("calloc") ? NULL : __real_calloc(count, size);
}
