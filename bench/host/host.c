/* See host.h. */
#include "host.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "boot_id.h"
#include "cores.h"
#include "cpus.h"
#include "energy.h"
#include "field.h"
#include "interface.h"
#include "measure_file.h"
#include "parse.h"
#include "text.h"
#include "util.h"

/* Is CONFIG_IRQ_TIME_ACCOUNTING on?  Since 6.1 Linux has /proc/pressure/irq if it is.  With older
 * kernels, and without pressure stall information, the answer is not known. */
static enum measure_irq_time irq_time(void)
{
	unsigned major = 0, minor = 0;
	struct utsname name;

	if (access("/proc/pressure/irq", F_OK) == 0)
		return IRQ_TIME_APART;
	if (access("/proc/pressure/cpu", F_OK) == 0 && uname(&name) == 0 &&
	    sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	    (major > 6 || (major == 6 && minor >= 1)))
		return IRQ_TIME_IN_THREADS;
	return IRQ_TIME_UNKNOWN;
}

/* Pressure stall information: "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS". */
static uint64_t pressure_ns(void)
{
	unsigned long long us = 0;
	char line[128];

	if (!text_find_line("/proc/pressure/cpu", "some ", line, sizeof(line)) ||
	    sscanf(line, "some %*s %*s %*s total=%llu", &us) != 1)
		return 0;
	return us * NS_PER_US;
}

void host_cpu(const cpu_set_t *served, struct measure_machine *ret)
{
	/* user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user. */
	unsigned long long t[8] = { 0 }, total = 0, irq, softirq, own = 0;
	unsigned cpu;
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
		else if (sscanf(line, "cpu%u %*u %*u %*u %*u %*u %llu %llu", &cpu, &irq,
				&softirq) == 3) {
			ret->cpus++;
			own += CPU_ISSET(cpu, served) ? irq + softirq : 0;
		}
	}
	fclose(from);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		total += t[i];
	ret->total_ns = total * (NS_PER_S / (uint64_t)tick);
	ret->idle_ns = (t[3] + t[4]) * (NS_PER_S / (uint64_t)tick);
	ret->softirq_ns = (t[5] + t[6]) * (NS_PER_S / (uint64_t)tick);
	ret->served_softirq_ns = own * (NS_PER_S / (uint64_t)tick);
	ret->steal_ns = t[7] * (NS_PER_S / (uint64_t)tick);
	ret->pressure_ns = pressure_ns();
	ret->irq_time = irq_time();
}

void host_thread_cpus(const json_t *threads, cpu_set_t *ret_cpus)
{
	json_t *thread;
	size_t i;

	CPU_ZERO(ret_cpus);
	json_array_foreach(threads, i, thread) {
		uint64_t tid = field_uint(thread, "");
		cpu_set_t cpus;

		if (tid > 0 && tid <= INT_MAX && cpus_of((pid_t)tid, &cpus) > 0)
			CPU_OR(ret_cpus, ret_cpus, &cpus);
	}
}

/* ---- Description ---- */

static void set_text(json_t *to, const char *name, const char *text)
{
	json_t *value = json_string(text);

	if (value)
		json_object_set_new(to, name, value);
}

/* x86 has `model name` and `flags`; other architectures have other fields, or none. */
static void describe_cpu(json_t *to)
{
	FILE *from = fopen("/proc/cpuinfo", "re");
	char line[4096];

	while (from && fgets(line, sizeof(line), from)) {
		char *value = strchr(line, ':');

		if (!value)
			continue;
		value += strspn(value, ": \t");
		value[strcspn(value, "\n")] = '\0';
		if ((!strncmp(line, "model name", 10) || !strncmp(line, "cpu\t", 4)) &&
		    !json_object_get(to, "cpu"))
			set_text(to, "cpu", value);
		if ((!strncmp(line, "flags", 5) || !strncmp(line, "Features", 8)) &&
		    !json_object_get(to, "cpu_flags"))
			set_text(to, "cpu_flags", value);
		if (!strncmp(line, "flags", 5) && strstr(value, " hypervisor"))
			json_object_set_new(to, "hypervisor", json_true());
	}
	if (from)
		fclose(from);
	json_object_set_new(to, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
}

/* Vulnerabilities that affect this CPU, with the kernel's mitigation of each. */
static void describe_mitigations(json_t *to)
{
	json_t *mitigations = json_object();
	char state[256];
	glob_t found;

	if (glob("/sys/devices/system/cpu/vulnerabilities/*", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			if (text_file_line(found.gl_pathv[i], state, sizeof(state)) &&
			    strcmp(state, "Not affected") != 0)
				set_text(mitigations, strrchr(found.gl_pathv[i], '/') + 1, state);
		json_object_set(to, "mitigations", mitigations);
		globfree(&found);
	}
	json_decref(mitigations);
}

/* The governor of all CPUs, or all that are in use: "performance, powersave". */
static void describe_governor(json_t *to)
{
	char all[128] = "", one[32];
	glob_t found;

	if (glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		if (text_file_line(found.gl_pathv[i], one, sizeof(one)) && !strstr(all, one))
			text_append(all, sizeof(all), "%s%s", *all ? ", " : "", one);
	globfree(&found);
	set_text(to, "governor", all);
}

/* The file has "always [madvise] never": the word in brackets is in force. */
static void describe_hugepages(json_t *to)
{
	char line[128], *open, *close;

	if (!text_file_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line)) ||
	    !(open = strchr(line, '[')) || !(close = strchr(open, ']')))
		return;
	*close = '\0';
	set_text(to, "transparent_hugepages", open + 1);
}

/* Intel's driver has a file `no_turbo`, the others have `boost`. */
static void describe_turbo(json_t *to)
{
	char line[16];

	if (text_file_line("/sys/devices/system/cpu/intel_pstate/no_turbo", line, sizeof(line)))
		set_text(to, "turbo", *line == '0' ? "on" : "off");
	else if (text_file_line("/sys/devices/system/cpu/cpufreq/boost", line, sizeof(line)))
		set_text(to, "turbo", *line == '1' ? "on" : "off");
}

static unsigned count_files(const char *pattern)
{
	unsigned count = 0;
	glob_t found;

	if (glob(pattern, 0, NULL, &found) == 0) {
		count = (unsigned)found.gl_pathc;
		globfree(&found);
	}
	return count;
}

static void describe_apart(json_t *to)
{
	char text[32] = "";
	int first, other;

	if (cores_apart(&first, &other))
		snprintf(text, sizeof(text), "%d %d", first, other);
	set_text(to, "apart", text);
}

/* ---- Throttling ---- */

static uint64_t read_counter(const char *path, const char *name)
{
	char line[128];

	return text_find_line(path, name, line, sizeof(line))
		       ? strtoull(line + strlen(name), NULL, 10)
		       : 0;
}

/* cgroup v2: `0::/path` in /proc/PID/cgroup; nr_throttled in cpu.stat. */
static uint64_t cgroup_throttled(pid_t pid)
{
	char path[512], line[256];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (!text_find_line(path, "0::", line, sizeof(line)))
		return 0;
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.stat", line + 3);
	return read_counter(path, "nr_throttled ");
}

/* The number of times that CPUs have been throttled so far: by heat, or in the cgroup of the
 * process because it had used up its time.  Counters that this host lacks count as 0. */
static uint64_t throttled(pid_t pid)
{
	uint64_t count = cgroup_throttled(pid) + cgroup_throttled(getpid());
	glob_t found;

	if (glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count", 0, NULL,
		 &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			count += read_counter(found.gl_pathv[i], "");
		globfree(&found);
	}
	return count;
}

json_t *host_describe(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	json_t *made = json_object();
	char kernel[160], clock[64];
	struct utsname name;

	if (uname(&name) == 0) {
		snprintf(kernel, sizeof(kernel), "%s %s", name.sysname, name.release);
		set_text(made, "kernel", kernel);
		set_text(made, "machine", name.machine);
	}
	describe_cpu(made);
	if (pages > 0 && page_bytes > 0)
		json_object_set_new(made, "memory_bytes",
				    json_integer((json_int_t)pages * page_bytes));
	describe_governor(made);
	describe_turbo(made);
	if (text_file_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
			   clock, sizeof(clock)))
		set_text(made, "clocksource", clock);
	describe_hugepages(made);
	json_object_set_new(made, "numa_nodes",
			    json_integer(count_files("/sys/devices/system/node/node[0-9]*")));
	describe_apart(made);
	describe_mitigations(made);
	json_object_set_new(made, "interfaces", interface_describe());
	return made;
}

void host_network(char text[HOST_NETWORK_BYTES])
{
	char name[40] = "";

	if (*boot_id() && readlink("/proc/self/ns/net", name, sizeof(name) - 1) > 0)
		snprintf(text, HOST_NETWORK_BYTES, "%s %s", boot_id(), name);
	else
		*text = '\0';
}

json_t *host_read(pid_t pid, const json_t *threads, const json_t *interfaces)
{
	struct measure_machine machine;
	char list[256];
	cpu_set_t cpus;
	json_t *made;

	host_thread_cpus(threads, &cpus);
	host_cpu(&cpus, &machine);
	made = json_pack("{s:o, s:o*}", "machine", measure_machine_to_json(&machine), "energy",
			 energy_read(ENERGY_TREE));
	if (interfaces)
		json_object_set_new(made, "link", interface_read(interfaces));
	if (pid <= 0)
		return made;
	json_object_set_new(made, "throttled", json_integer((json_int_t)throttled(pid)));
	if (*format_cpus(&cpus, list, sizeof(list)))
		json_object_set_new(made, "listener_cpus", json_string(list));
	return made;
}

/* ---- Energy ---- */

static json_int_t energy_number(const json_t *of, const char *name)
{
	return json_integer_value(json_object_get(of, name));
}

/* -1: not known. */
static json_int_t energy_grown(const json_t *before, const json_t *after)
{
	json_int_t from = energy_number(before, "uj"), to = energy_number(after, "uj");
	json_int_t range = energy_number(after, "range_uj");

	if (!before || from == to || (to < from && range < from))
		return -1;
	return to > from ? to - from : range - from + to;
}

json_t *host_energy_spent(const json_t *before, const json_t *after)
{
	json_t *then = json_object_get(before, "packages"),
	       *now = json_object_get(after, "packages");
	json_t *spent = json_object(), *package;
	const char *name;

	json_object_foreach(now, name, package) {
		json_int_t uj = energy_grown(json_object_get(then, name), package);

		if (uj >= 0)
			json_object_set_new(spent, name, json_integer(uj));
	}
	if (json_object_size(spent) &&
	    json_object_size(spent) == MAX(json_object_size(now), json_object_size(then)))
		return json_pack("{s:I, s:o}", "ns",
				 energy_number(after, "ns") - energy_number(before, "ns"), "uj",
				 spent);
	json_decref(spent);
	return NULL;
}
