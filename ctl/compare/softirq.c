/* See softirq.h. */
#include "softirq.h"

#if NB_BPF
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "field.h"
#include "must.h"
#include "util.h"

/* The compiled softirq.bpf.c.  It is part of nbctl's read-only data: as a file of its own it might
 * be missing, or of another version. */
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	"softirq_object:\n"
	".incbin \"" NB_BPF_OBJECT "\"\n"
	"softirq_object_end:\n"
	".popsection\n");
extern const char softirq_object[], softirq_object_end[];

enum { PROGRAMS_MAX = 16 };

struct softirq {
	struct bpf_object *object;
	struct bpf_link *links[PROGRAMS_MAX];
	unsigned link_count;
	int times; /* the map's file descriptor */
	int cpus;
	/* An element of the map: the kernel writes a value for each possible CPU, also for those
	 * that are offline. */
	struct softirq_times *of_cpus;
	json_t *status; /* its listeners are slots 1, 2, ... */
};

/* ---- What libbpf says of a failure ---- */

static char complaint[256];

/* Keeps only libbpf's first warning, which tells the cause. */
static int keep_complaint(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN && !*complaint) {
		vsnprintf(complaint, sizeof(complaint), format, arguments);
		complaint[strcspn(complaint, "\n")] = '\0';
	}
	return 0;
}

static int refused(int error)
{
	if (error == EPERM || error == EACCES)
		ctl_warn("--softirq needs CAP_BPF and CAP_PERFMON, or root");
	else if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		ctl_warn("--softirq needs a kernel with BTF (CONFIG_DEBUG_INFO_BTF): "
			 "/sys/kernel/btf/vmlinux: %s",
			 strerror(errno));
	else
		ctl_warn("--softirq: the kernel refuses the program: %s%s%s", strerror(error),
			 *complaint ? ": " : "", complaint);
	return CTL_CANNOT_RUN;
}

/* ---- The program ---- */

/* libbpf reads CONFIG_IRQ_TIME_ACCOUNTING from the kernel's configuration file.  If there is none,
 * as in a container, returns a text in which it is not set. */
static const char *kernel_config(void)
{
	char path[160];
	struct utsname name;

	if (uname(&name) < 0)
		return NULL;
	snprintf(path, sizeof(path), "/boot/config-%s", name.release);
	if (access(path, R_OK) == 0 || access("/proc/config.gz", R_OK) == 0)
		return NULL;
	return "CONFIG_IRQ_TIME_ACCOUNTING=n\n";
}

static int load(struct softirq *s, uint32_t pid)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "nbctl_softirq",
		    .kconfig = kernel_config());
	struct bpf_program *program;

	s->object = bpf_object__open_mem(softirq_object,
					 (size_t)(softirq_object_end - softirq_object), &options);
	if (!s->object)
		return refused(errno);
	/* The kernel takes constants when it loads the program, and verifies it with them. */
	bpf_map__set_initial_value(bpf_object__find_map_by_name(s->object, ".rodata.daemon"), &pid,
				   sizeof(pid));
	if (bpf_object__load(s->object) < 0)
		return refused(errno);
	bpf_object__for_each_program(program, s->object)
	{
		struct bpf_link *link = bpf_program__attach(program);

		if (!link)
			return refused(errno);
		s->links[s->link_count++] = link;
	}
	s->times = bpf_object__find_map_fd_by_name(s->object, "times");
	return CTL_DONE;
}

/* ---- Ports ---- */

/* A listener's slot is given to its port unless an earlier listener has it: the program finds one
 * owner for a packet. */
static void add_port(int map, const json_t *listener, const char *address, uint32_t slot,
		     json_t *listeners)
{
	const char *name = field_text(listener, "name"), *colon = strrchr(address, ':');
	bool udp = !strcmp(field_text(listener, "transport"), "udp");
	struct softirq_port port = { (uint16_t)(colon ? atoi(colon + 1) : 0),
				     udp ? IPPROTO_UDP : IPPROTO_TCP };
	uint32_t other;

	if (port.number == 0 || !strncmp(address, "unix:", 5))
		return;
	if (bpf_map_update_elem(map, &port, &slot, BPF_NOEXIST) == 0)
		return;
	if (bpf_map_lookup_elem(map, &port, &other) == 0 && other != slot)
		ctl_warn(
			"--softirq: the listeners '%s' and '%s' have the same port %u: the packets of both are charged to '%s'",
			field_text(json_array_get(listeners, other - 1), "name"), name, port.number,
			field_text(json_array_get(listeners, other - 1), "name"));
}

static void add_ports(struct softirq *s)
{
	json_t *listeners = field_get(s->status, "listeners"), *listener, *address;
	int map = bpf_object__find_map_fd_by_name(s->object, "ports");
	size_t i, j;

	json_array_foreach(listeners, i, listener)
		json_array_foreach(field_get(listener, "addresses"), j, address)
			if (i + 1 < SOFTIRQ_SLOTS)
				add_port(map, listener, field_text(address, ""), (uint32_t)i + 1,
					 listeners);
}

/* ---- Open, read, close ---- */

int softirq_open(struct softirq **ret, struct ctl *ctl)
{
	struct softirq *s = must(calloc(1, sizeof(*s)));
	int rc;

	*ret = s;
	rc = ctl_call(ctl, "GetStatus", NULL, &s->status);
	if (rc != CTL_DONE)
		return rc;
	libbpf_set_print(keep_complaint);
	rc = load(s, (uint32_t)field_uint(s->status, "pid"));
	if (rc != CTL_DONE)
		return rc;
	add_ports(s);
	s->cpus = libbpf_num_possible_cpus();
	s->of_cpus = must(calloc((size_t)MAX(s->cpus, 1), sizeof(*s->of_cpus)));
	return CTL_DONE;
}

void softirq_close(struct softirq *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->link_count; i++)
		bpf_link__destroy(s->links[i]);
	bpf_object__close(s->object);
	json_decref(s->status);
	free(s->of_cpus);
	free(s);
}

static void add_times(struct softirq_times *to, const struct softirq_times *from)
{
	for (unsigned kind = 0; kind < SOFTIRQ_KINDS; kind++)
		for (unsigned inside = 0; inside < 2; inside++)
			to->ns[kind][inside] += from->ns[kind][inside];
}

static uint32_t slots_used(const struct softirq *s)
{
	return MIN((uint32_t)json_array_size(field_get(s->status, "listeners")) + 1,
		   (uint32_t)SOFTIRQ_SLOTS);
}

/* CPUs count on while their values are read one after the other, so a reading is of a span of some
 * microseconds, not of one moment. */
void softirq_read(struct softirq *s, struct softirq_reading *ret)
{
	*ret = (struct softirq_reading){};
	for (uint32_t slot = 0; slot < slots_used(s); slot++)
		if (bpf_map_lookup_elem(s->times, &slot, s->of_cpus) == 0)
			for (int cpu = 0; cpu < s->cpus; cpu++)
				add_times(&ret->slots[slot], &s->of_cpus[cpu]);
}

static uint64_t both(const struct softirq_times *t, enum softirq_kind kind)
{
	return t->ns[kind][0] + t->ns[kind][1];
}

static uint64_t sum(const struct softirq_times *t)
{
	uint64_t ns = 0;

	for (unsigned kind = 0; kind < SOFTIRQ_KINDS; kind++)
		ns += both(t, kind);
	return ns;
}

static struct softirq_times delta(const struct softirq_times *before,
				  const struct softirq_times *after)
{
	struct softirq_times d;

	for (unsigned kind = 0; kind < SOFTIRQ_KINDS; kind++)
		for (unsigned inside = 0; inside < 2; inside++)
			d.ns[kind][inside] = after->ns[kind][inside] - before->ns[kind][inside];
	return d;
}

static void set_row(struct measure *row, const struct softirq_times *t)
{
	row->softirq.receive_ns = both(t, SOFTIRQ_RECEIVE);
	row->softirq.transmit_ns = both(t, SOFTIRQ_TRANSMIT);
	row->softirq.peer_ns = both(t, SOFTIRQ_PEER);
	row->softirq.inside_ns = t->ns[SOFTIRQ_RECEIVE][1] + t->ns[SOFTIRQ_TRANSMIT][1];
	row->softirq.peer_inside_ns = t->ns[SOFTIRQ_PEER][1];
}

void softirq_set(const struct softirq *s, const struct softirq_reading *before,
		 const struct softirq_reading *after, struct measures *m, unsigned first)
{
	struct softirq_reading d = {};
	uint64_t total = 0;

	for (uint32_t slot = 0; slot < slots_used(s); slot++) {
		d.slots[slot] = delta(&before->slots[slot], &after->slots[slot]);
		total += sum(&d.slots[slot]);
	}
	for (unsigned i = first; i < m->count; i++) {
		struct measure *row = m->rows[i];

		row->softirq = (struct measure_softirq){
			.total_ns = total,
			.unattributed_ns = sum(&d.slots[SOFTIRQ_NOBODY]),
		};
		for (uint32_t slot = 1; slot < slots_used(s); slot++)
			if (!strcmp(row->listener,
				    field_text(json_array_get(field_get(s->status, "listeners"),
							      slot - 1),
					       "name")))
				set_row(row, &d.slots[slot]);
	}
}

#else /* built without libbpf */

int softirq_open(struct softirq **ret, struct ctl *ctl)
{
	(void)ctl;
	*ret = NULL;
	ctl_warn(
		"--softirq: this nbctl was built without libbpf (make deps DEPS=bpf; make BPF=yes)");
	return CTL_CANNOT_RUN;
}

void softirq_close(struct softirq *s)
{
	(void)s;
}

void softirq_read(struct softirq *s, struct softirq_reading *ret)
{
	(void)s;
	*ret = (struct softirq_reading){};
}

void softirq_set(const struct softirq *s, const struct softirq_reading *before,
		 const struct softirq_reading *after, struct measures *m, unsigned first)
{
	(void)s, (void)before, (void)after, (void)m, (void)first;
}
#endif
