/* Engine `rdma`: checks of --doctor, which tries what this host's devices can do.  Main thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdma_engine.h"
#include "text.h"

enum {
	DOCTOR_TEXT_MAX = 512,
	DOCTOR_REGISTER_BYTES = 16 << 20, /* a worker's registration with the default settings */
};

struct doctor {
	engine_found *found;
	void *context;
	struct ibv_context *verbs;
};

__attribute__((format(printf, 6, 7))) static void doctor_say(const struct doctor *d,
							     const char *name, bool ok,
							     const char *reason, const char *fix,
							     const char *format, ...)
{
	char value[DOCTOR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	d->found(d->context, &(struct engine_finding){ name, value, reason, fix, ok });
}

static const char *gid_type_name(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	default:
		return "InfiniBand or iWARP";
	}
}

static void doctor_gids(const struct doctor *d, const char *name, unsigned port)
{
	struct ibv_gid_entry *entries = NULL;
	ssize_t count = rdma_gid_table(d->verbs, &entries);
	char title[112];

	snprintf(title, sizeof(title), "%s gid", name);
	if (count < 0)
		doctor_say(d, title, false, strerror((int)-count), RDMA_ACCESS_FIX,
			   "the table of addresses cannot be read");
	for (ssize_t i = 0; i < count; i++) {
		char text[INET6_ADDRSTRLEN];

		if (entries[i].port_num != port)
			continue;
		inet_ntop(AF_INET6, entries[i].gid.raw, text, sizeof(text));
		doctor_say(d, title, true, "", "", "%u: %s (%s)", entries[i].gid_index, text,
			   gid_type_name(entries[i].gid_type));
	}
	free(entries);
}

static void doctor_port(const struct doctor *d, unsigned port)
{
	struct ibv_device *device = d->verbs->device;
	struct ibv_port_attr attr;
	char name[96];

	snprintf(name, sizeof(name), "rdma: %s/%u", ibv_get_device_name(device), port);
	if (ibv_query_port(d->verbs, (uint8_t)port, &attr) != 0) {
		doctor_say(d, name, false, strerror(errno), RDMA_ACCESS_FIX, "cannot be queried");
		return;
	}
	doctor_say(d, name, attr.state == IBV_PORT_ACTIVE,
		   "no client can connect through a port that is not active",
		   "ip link set NETDEV up for that of the device (rdma link shows it), or plug in "
		   "the cable",
		   "%s, %s, %s, mtu %u", ibv_port_state_str(attr.state),
		   attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand",
		   rdma_transport(device, attr.link_layer), 128U << attr.active_mtu);
	doctor_gids(d, name, port);
}

/* Memory of this process in huge pages. */
static long doctor_huge_kib(void)
{
	static const char begin[] = "AnonHugePages:";
	char line[64];

	if (!text_find_line("/proc/self/smaps_rollup", begin, line, sizeof(line)))
		return 0;
	return strtol(line + strlen(begin), NULL, 10);
}

/* Tries to register as much memory as a worker does by default, in the same way. */
static void doctor_memory(const struct doctor *d, const char *name)
{
	struct ibv_pd *pd = ibv_alloc_pd(d->verbs);
	void *memory = mmap(NULL, DOCTOR_REGISTER_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = NULL;
	long huge_kib = doctor_huge_kib();
	char title[96], reason[96], value[96];

	errno = ENOMEM;
	if (pd && memory != MAP_FAILED) {
		madvise(memory, DOCTOR_REGISTER_BYTES, MADV_HUGEPAGE);
		mr = ibv_reg_mr(pd, memory, DOCTOR_REGISTER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	}
	snprintf(title, sizeof(title), "%s memory", name);
	snprintf(reason, sizeof(reason), "16 MiB cannot be registered: %s", strerror(errno));
	snprintf(value, sizeof(value), "16 MiB can be registered, %ld KiB of them in huge pages",
		 MAX(doctor_huge_kib() - huge_kib, 0));
	doctor_say(d, title, mr, reason, RDMA_MEMLOCK_FIX, "%s",
		   mr ? value : "too little can be locked");
	if (mr)
		ibv_dereg_mr(mr);
	if (memory != MAP_FAILED)
		munmap(memory, DOCTOR_REGISTER_BYTES);
	if (pd)
		ibv_dealloc_pd(pd);
}

static void doctor_device(struct doctor *d, struct ibv_device *device)
{
	struct ibv_device_attr_ex attr;
	char name[80];

	snprintf(name, sizeof(name), "rdma: %s", ibv_get_device_name(device));
	d->verbs = ibv_open_device(device);
	if (!d->verbs) {
		doctor_say(d, name, false, strerror(errno), RDMA_ACCESS_FIX, "cannot be opened");
		return;
	}
	if (ibv_query_device_ex(d->verbs, NULL, &attr) == 0) {
		const struct ibv_device_attr *a = &attr.orig_attr;

		doctor_say(d, name, true, "", "",
			   "%d queue pairs of %d requests, %d completion queues of %d, %d memory "
			   "regions, %d reads each way",
			   a->max_qp, a->max_qp_wr, a->max_cq, a->max_cqe, a->max_mr,
			   a->max_qp_rd_atom);
		doctor_memory(d, name);
		for (unsigned port = 1; port <= a->phys_port_cnt; port++)
			doctor_port(d, port);
	}
	ibv_close_device(d->verbs);
}

static void doctor_manager(const struct doctor *d)
{
	bool ok = access(RDMA_MANAGER, R_OK | W_OK) == 0;

	doctor_say(d, "rdma: connection manager", ok, strerror(errno),
		   errno == ENOENT ? "modprobe rdma_ucm" : RDMA_ACCESS_FIX, "%s", RDMA_MANAGER);
}

void rdma_examine(engine_found *found, void *context)
{
	struct doctor d = { .found = found, .context = context };
	struct ibv_device **list;
	struct reason why = { "" };
	int count = 0, rc = 0;

	list = ibv_get_device_list(&count);
	if (count == 0)
		rc = rdma_no_devices(&why);
	doctor_say(&d, "rdma: devices", count > 0, why.text,
		   rc == -ENODEV ? RDMA_BY_HAND : RDMA_ACCESS_FIX, "%d", count);
	doctor_manager(&d);
	for (int i = 0; i < count; i++)
		doctor_device(&d, list[i]);
	if (list)
		ibv_free_device_list(list);
}
