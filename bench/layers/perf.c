/* See perf.h. */
#include "perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "must.h"
#include "text.h"
#include "util.h"

const char *const perf_kind_names[] = { [PERF_CLOCK] = "cpu-clock", [PERF_CYCLES] = "cycles" };

enum { RING_BYTES = 512 * 1024 }; /* for a second of long chains; may be mapped by each user */

static int open_event(int cpu, enum perf_kind kind)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = kind == PERF_CYCLES ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
		.config = kind == PERF_CYCLES ? (uint64_t)PERF_COUNT_HW_CPU_CYCLES
					      : (uint64_t)PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = PERF_HZ,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD |
			       PERF_SAMPLE_CALLCHAIN,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.disabled = 1,
		.exclude_hv = 1,
		.exclude_idle = 1,
	};
	long fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* ---- What is missing ---- */

static int number_of(const char *path)
{
	char line[32];

	return text_file_line(path, line, sizeof(line)) ? atoi(line) : 0;
}

static int refused(int error, struct reason *reason)
{
	int rate = number_of("/proc/sys/kernel/perf_event_max_sample_rate");
	int paranoid = number_of("/proc/sys/kernel/perf_event_paranoid");

	if (access("/proc/sys/kernel/perf_event_paranoid", F_OK) < 0 || error == -ENOSYS)
		return reason_set(reason, error,
				  "this kernel has no perf events (CONFIG_PERF_EVENTS)");
	if (error == -EACCES || error == -EPERM)
		return reason_set(
			reason, error,
			"CPUs may not be sampled: run it as root or with CAP_PERFMON and "
			"CAP_SYSLOG, or `sysctl kernel.perf_event_paranoid=0` (it is %d); "
			"a container's filter must allow perf_event_open",
			paranoid);
	if (error == -EINVAL && rate < PERF_HZ)
		return reason_set(reason, error,
				  "samples are limited to %d/s: `sysctl "
				  "kernel.perf_event_max_sample_rate=%d`",
				  rate, 100 * 1000);
	return reason_set(reason, error, "perf_event_open: %s", strerror(-error));
}

/* ---- Open, close ---- */

static size_t ring_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE) + RING_BYTES;
}

static int open_cpu(struct perf *p, int cpu, struct reason *reason)
{
	struct perf_cpu *c = &p->cpus[p->count];
	int rc = open_event(cpu, p->kind);

	if (rc == -ENODEV) /* the CPU is offline */
		return 0;
	if (rc < 0)
		return rc;
	c->fd = rc;
	c->ring = mmap(NULL, ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (c->ring == MAP_FAILED) {
		rc = -errno;
		close(c->fd);
		return reason_set(reason, rc,
				  "no memory for samples: %s: run it as root, or `sysctl "
				  "kernel.perf_event_mlock_kb=%zu`",
				  strerror(-rc), ring_bytes() / 1024);
	}
	p->count++;
	return 0;
}

int perf_open(struct perf *ret, struct reason *reason)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_CONF), rc;

	/* Samples of cycles come by an interrupt that cannot be masked, so they see all
	 * of the kernel. */
	*ret = (struct perf){ .kind = PERF_CYCLES };
	rc = open_event(0, PERF_CYCLES);
	if (rc >= 0)
		close(rc);
	else
		ret->kind = PERF_CLOCK;
	ret->cpus = must(calloc((size_t)cpus, sizeof(*ret->cpus)));
	*reason = (struct reason){ "" };
	for (int cpu = rc = 0; cpu < cpus && rc == 0; cpu++)
		rc = open_cpu(ret, cpu, reason);
	return rc < 0 && !*reason->text ? refused(rc, reason) : rc;
}

void perf_close(struct perf *p)
{
	for (unsigned i = 0; i < p->count; i++) {
		munmap(p->cpus[i].ring, ring_bytes());
		close(p->cpus[i].fd);
	}
	free(p->cpus);
	*p = (struct perf){ 0 };
}

static void discard(void *context, const struct perf_sample *sample)
{
	(void)context, (void)sample;
}

void perf_enable(struct perf *p, bool on)
{
	if (on)
		perf_read(p, UINT64_MAX, discard, NULL);
	for (unsigned i = 0; i < p->count; i++)
		ioctl(p->cpus[i].fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

/* ---- Records ---- */

bool perf_sample_parse(const void *body, size_t bytes, struct perf_sample *ret)
{
	/* The fields of sample_type, in the order of perf_event_open(2). */
	const struct fields {
		uint32_t pid, tid;
		uint64_t time, period, count, chain[];
	} *f = body;

	if (bytes < sizeof(*f) || f->count > (bytes - sizeof(*f)) / sizeof(f->chain[0]))
		return false;
	*ret = (struct perf_sample){ (pid_t)f->tid, f->time, f->period, f->chain,
				     (unsigned)f->count };
	return true;
}

/* Copies a part of the ring. */
static void copy(const unsigned char *data, uint64_t at, void *to, size_t bytes)
{
	size_t from = at % RING_BYTES, part = MIN(bytes, RING_BYTES - from);

	memcpy(to, data + from, part);
	memcpy((char *)to + part, data, bytes - part);
}

static uint64_t read_cpu(const struct perf_cpu *c, uint64_t until_ns,
			 void (*take)(void *context, const struct perf_sample *sample),
			 void *context)
{
	struct perf_event_mmap_page *page = c->ring;
	const unsigned char *data = (unsigned char *)c->ring + sysconf(_SC_PAGESIZE);
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t at = page->data_tail, lost = 0;
	uint64_t record[UINT16_MAX / sizeof(uint64_t) + 1]; /* its size has 16 bits */
	struct perf_event_header header;
	struct perf_sample sample;

	while (head - at >= sizeof(header)) {
		copy(data, at, &header, sizeof(header));
		if (header.size < sizeof(header) || header.size > head - at) {
			at = head;
			break;
		}
		copy(data, at + sizeof(header), record, header.size - sizeof(header));
		if (header.type == PERF_RECORD_LOST) { /* id, lost */
			lost += record[1];
		} else if (header.type == PERF_RECORD_SAMPLE &&
			   perf_sample_parse(record, header.size - sizeof(header), &sample)) {
			if (sample.time_ns > until_ns)
				break;
			take(context, &sample);
		}
		at += header.size;
	}
	__atomic_store_n(&page->data_tail, at, __ATOMIC_RELEASE);
	return lost;
}

uint64_t perf_read(struct perf *p, uint64_t until_ns,
		   void (*take)(void *context, const struct perf_sample *sample), void *context)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < p->count; i++)
		lost += read_cpu(&p->cpus[i], until_ns, take, context);
	return lost;
}
