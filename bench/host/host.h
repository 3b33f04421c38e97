/* This host: CPU time from /proc/stat (proc(5)), and its description.  With -H, `nbbench bridge`
 * reads the same on the other host. */
#pragma once
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "measure.h"

/* CPU time since boot; all 0: /proc/stat cannot be read.  served: the CPUs of the listener. */
void host_cpu(const cpu_set_t *served, struct measure_machine *ret);

/* The CPUs on which any of the threads may run: an array of their ids, as GetStats has it. */
void host_thread_cpus(const json_t *threads, cpu_set_t *ret_cpus);

/* Names this host and network namespace: "" if that cannot be read. */
enum { HOST_NETWORK_BYTES = 96 };
void host_network(char text[HOST_NETWORK_BYTES]);

/* A new reference: machine (see measure_machine_to_json()), energy (see energy_read(); only where
 * there is a reading), and of a process, if pid is not 0,
 * throttled (how often CPUs have been throttled so far, by heat or in the cgroup of the process)
 * and of the threads, see host_thread_cpus(), listener_cpus, as "0-3"; interface_read() of the
 * interfaces, unless that is NULL, as link. */
json_t *host_read(pid_t pid, const json_t *threads, const json_t *interfaces);

/* A new reference: kernel, machine, cpu (its model), cpu_flags ("fpu vme ..."), cpus (how many are
 * online), memory_bytes, governor (of cpufreq), turbo (on, off), clocksource,
 * transparent_hugepages, numa_nodes, apart (two CPUs of different cores: "0 2"; "": there are
 * none), mitigations ({ name: state } of whatever affects this CPU), hypervisor (true: it is a
 * virtual machine), interfaces (of interface_describe()).  Unknown properties are omitted. */
json_t *host_describe(void);

/* What grew between two readings of energy_read(): {"ns", "uj": {"package-0": UJ}}, a new
 * reference.  A counter that is less than before has wrapped at its range, once: that takes
 * minutes.  NULL: not known, as a reading is NULL, a package came or went, or a counter does not
 * move. */
json_t *host_energy_spent(const json_t *before, const json_t *after);
