/* See host.h. */
#include "host.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

void host_cpu(struct measure_machine *ret)
{
	/* user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user. */
	unsigned long long t[8] = { 0 }, total = 0;
	FILE *from = fopen("/proc/stat", "re");
	long tick = sysconf(_SC_CLK_TCK);
	char line[512];

	*ret = (struct measure_machine){ 0 };
	if (!from || tick <= 0)
		return;
	while (fgets(line, sizeof(line), from)) {
		if (!strncmp(line, "cpu ", 4))
			sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1],
			       &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
		else if (!strncmp(line, "cpu", 3))
			ret->cpus++;
	}
	fclose(from);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		total += t[i];
	ret->total_ns = total * (NS_PER_S / (uint64_t)tick);
	ret->idle_ns = (t[3] + t[4]) * (NS_PER_S / (uint64_t)tick);
	ret->softirq_ns = (t[5] + t[6]) * (NS_PER_S / (uint64_t)tick);
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0; /* iowait may go back: proc(5) */
}

struct measure_machine host_cpu_delta(const struct measure_machine *before,
				      const struct measure_machine *after)
{
	return (struct measure_machine){
		.cpus = after->cpus,
		.total_ns = grown(before->total_ns, after->total_ns),
		.idle_ns = grown(before->idle_ns, after->idle_ns),
		.softirq_ns = grown(before->softirq_ns, after->softirq_ns),
	};
}

void host_listener_cpus(pid_t pid, const char *listener, cpu_set_t *ret_cpus)
{
	char path[64], prefix[16], name[32];
	struct dirent *entry;
	DIR *tasks;

	CPU_ZERO(ret_cpus);
	snprintf(prefix, sizeof(prefix), "%.12s/", listener); /* as the daemon names them */
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		cpu_set_t cpus;
		FILE *from;

		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/comm", (int)pid, entry->d_name);
		from = fopen(path, "re");
		if (from && fgets(name, sizeof(name), from) &&
		    !strncmp(name, prefix, strlen(prefix)) &&
		    sched_getaffinity(atoi(entry->d_name), sizeof(cpus), &cpus) == 0)
			CPU_OR(ret_cpus, ret_cpus, &cpus);
		if (from)
			fclose(from);
	}
	if (tasks)
		closedir(tasks);
}
