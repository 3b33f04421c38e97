/* The figures of a row, in the order of the terminal's columns: what `enum figure` calls each, its
 * value as a formula of the row, and the members of struct figure_info.  To be included with
 * FIGURE(id, formula, ...) defined; see figure.c for what formulas are made of.  A new figure is
 * an entry here. */
/* clang-format off */
FIGURE(REQUEST_RATE, known(row->generator.result.requests_per_s),
	.name = "requests_per_s", .title = "reqs", .unit = "/s", .words = "requests",
	.meaning = "requests per second, as the generator counted them",
	.scale = 1, .apart = true, .answer = true)
FIGURE(RATE, PER_S(row->count),
	.name = "operations_per_s", .title = "ops", .unit = "/s", .words = "operations",
	.meaning = "operations per second, as the listener counted them",
	.scale = 1, .apart = true, .rank = 2)
FIGURE(BANDWIDTH, PER_S(bytes_of(row)),
	.name = "bytes_per_s", .title = "MB", .unit = "/s", .words = "MB",
	.meaning = "bytes per second that the listener received and sent",
	.scale = 1e-6, .rank = 3)
FIGURE(GENERATOR_BANDWIDTH, known(row->generator.result.bytes_per_s),
	.name = "generator_bytes_per_s", .title = "genMB", .unit = "/s",
	.words = "MB by the generator",
	.meaning = "bytes per second, as the generator counted its payload",
	.scale = 1e-6, .rank = 6)
FIGURE(TRIP50, trip(row, 0.5),
	.name = "trip50_ns", .title = "trip50", .unit = "us", .words = "round trip p50",
	.meaning = "the median of the generator's round trips",
	.scale = 1e-3, .apart = true, .rank = 5)
FIGURE(TRIP99, trip(row, 0.99),
	.name = "trip99_ns", .title = "trip99", .unit = "us", .words = "round trip p99",
	.meaning = "the 99th percentile of the generator's round trips",
	.scale = 1e-3, .rank = 4)
FIGURE(CYCLE, cycle_of(row),
	.name = "connections_over_rate_ns", .title = "cycle", .unit = "us",
	.words = "connections over rate",
	.meaning = "open connections over the rate (of requests, else of operations): the "
		   "time from one request of a connection to its next, which is the round trip if it has one request in flight at a time; "
		   "not over UDP, where clients that have gone count as open for a time",
	.scale = 1e-3, .apart = true, .rank = 5)
FIGURE(P50, latency(&row->latency, 0.5),
	.name = "p50_ns", .title = "p50", .unit = "us", .words = "p50",
	.meaning = "the median latency in the server, from the request in the worker's "
		   "hands to the reply in the kernel's; sampled",
	.scale = 1e-3, .pooled = true, .apart = true, .answer = true)
FIGURE(P99, latency(&row->latency, 0.99),
	.name = "p99_ns", .title = "p99", .unit = "us", .words = "p99",
	.meaning = "its 99th percentile, if ten samples lie beyond it",
	.scale = 1e-3, .pooled = true, .answer = true)
FIGURE(P99_9, latency(&row->latency, 0.999),
	.name = "p99_9_ns", .title = "p99.9", .unit = "us", .words = "p99.9",
	.meaning = "its 99.9th percentile, if ten samples lie beyond it",
	.scale = 1e-3, .pooled = true, .rank = 6)
FIGURE(P99_99, latency(&row->latency, 0.9999),
	.name = "p99_99_ns", .title = "p99.99", .unit = "us",
	.words = "p99.99",
	.meaning = "its 99.99th percentile, if ten samples lie beyond it",
	.scale = 1e-3, .pooled = true, .rank = 13)
FIGURE(SAMPLES, (double)row->latency.count,
	.name = "latency_samples", .title = "samples", .words = "samples",
	.meaning = "operations whose latency was sampled",
	.scale = 1, .pooled = true, .rank = 13)
FIGURE(TURN_P99, is_busy(row) ? latency(&row->turn, 0.99) : NAN,
	.name = "turn_p99_ns", .title = "turn99", .unit = "us", .words = "turn p99",
	.meaning = "the 99th percentile of the length of a worker's turn, while the "
		   "workers are busy: a request may wait that long in its socket before p50 and p99 begin to count",
	.scale = 1e-3, .pooled = true, .rank = 6)
FIGURE(CPU_PER_REQUEST, PER_REQUEST(measure_serving_ns(row)),
	.name = "cpu_ns_per_request", .title = "CPU/req", .unit = "us",
	.words = "CPU per request",
	.meaning = "CPU time of the listener's threads, and of the kernel's that work for "
		   "them, per request of the generator; TLS handshakes have columns of their own",
	.scale = 1e-3, .apart = true, .answer = true)
FIGURE(CPU_PER_OP, PER_OP(measure_serving_ns(row)),
	.name = "cpu_ns_per_operation", .title = "CPU/op", .unit = "us",
	.words = "CPU per operation",
	.meaning = "the same per operation of the listener",
	.scale = 1e-3, .apart = true)
FIGURE(CPU_PER_BYTE, RATIO(measure_serving_ns(row), bytes_of(row)),
	.name = "cpu_ns_per_byte", .title = "CPU/GB", .unit = "ms", .words = "CPU per GB",
	.meaning = "the same per byte received or sent; the column is per GB",
	.scale = 1e3)
FIGURE(HOST_PER_REQUEST, PER_REQUEST(busy_ns(row)),
	.name = "machine_cpu_ns_per_request", .title = "host/req", .unit = "us",
	.words = "CPU of the host per request",
	.meaning = "busy time of all CPUs of the listener's host per request of the generator: interrupts, which are "
		   "no thread's, and every program, so the generator, too, if it runs there",
	.scale = 1e-3, .rank = 7)
FIGURE(HOST_PER_OP, PER_OP(busy_ns(row)),
	.name = "machine_cpu_ns_per_operation", .title = "host/op", .unit = "us",
	.words = "CPU of the host per operation",
	.meaning = "the same per operation of the listener",
	.scale = 1e-3, .rank = 7)
FIGURE(HOST_PER_BYTE, RATIO(busy_ns(row), bytes_of(row)),
	.name = "machine_cpu_ns_per_byte", .title = "host/GB", .unit = "ms",
	.words = "CPU of the host per GB",
	.meaning = "the same per byte received or sent; the column is per GB",
	.scale = 1e3, .rank = 7)
FIGURE(KERNEL_SHARE, known(RATIO(row->kernel_cpu_ns, row->cpu_ns)),
	.name = "kernel_threads_share", .title = "kthread", .unit = "%",
	.words = "in the kernel's threads",
	.meaning = "the part of the CPU time that the kernel's own threads took: the one that polls for "
		   "sqpoll, and those of a ring that carry out what would wait",
	.scale = 1, .form = FORM_PERCENT, .answer = true)
FIGURE(HANDSHAKE_RATE, known(PER_S(row->handshakes)),
	.name = "handshakes_per_s", .title = "handshakes", .unit = "/s",
	.words = "TLS handshakes",
	.meaning = "TLS handshakes per second",
	.scale = 1, .apart = true, .answer = true, .rank = 1)
FIGURE(CPU_PER_HANDSHAKE, known(RATIO(row->handshake_cpu_ns, row->handshakes)),
	.name = "cpu_ns_per_handshake", .title = "CPU/handshake", .unit = "us",
	.words = "CPU per TLS handshake",
	.meaning = "CPU time of a TLS handshake, which is not in the CPU time of requests",
	.scale = 1e-3, .answer = true)
FIGURE(USER_SHARE, OF_TICKS(RATIO(row->cpu_user_ns, row->cpu_ns)),
	.name = "cpu_user_share", .title = "user", .unit = "%", .words = "in user space",
	.meaning = "the part of the CPU time in user space; the kernel tells it by clock "
		   "ticks, so it is unknown below a second of CPU time",
	.scale = 1, .form = FORM_PERCENT, .pooled = true, .rank = 7)
FIGURE(USER_PER_OP, OF_TICKS(PER_OP(row->cpu_user_ns)),
	.name = "cpu_user_ns_per_operation", .title = "user", .unit = "us",
	.words = "user CPU per operation",
	.meaning = "CPU time in user space per operation, by the same ticks; with TLS handshakes",
	.scale = 1e-3, .pooled = true, .rank = 13)
FIGURE(SYSTEM_PER_OP, OF_TICKS(PER_OP(row->cpu_system_ns)),
	.name = "cpu_system_ns_per_operation", .title = "system", .unit = "us",
	.words = "system CPU per operation",
	.meaning = "CPU time in the kernel per operation, by the same ticks; with TLS handshakes",
	.scale = 1e-3, .pooled = true, .rank = 13)
FIGURE(SYSCALLS_PER_OP, PER_OP(row->syscalls),
	.name = "syscalls_per_operation", .title = "calls", .unit = "/op",
	.words = "system calls per operation",
	.meaning = "system calls of the listener's threads per operation",
	.scale = 1, .form = FORM_RATIO, .apart = true)
FIGURE(SYSCALLS_PER_REQUEST, PER_REQUEST(row->syscalls),
	.name = "syscalls_per_request", .title = "calls", .unit = "/req",
	.words = "system calls per request",
	.meaning = "the same per request of the generator, of which one receive may bring several",
	.scale = 1, .form = FORM_RATIO, .apart = true)
FIGURE(SYSCALLS_PER_BYTE, RATIO(row->syscalls, bytes_of(row)),
	.name = "syscalls_per_byte", .title = "calls", .unit = "/MB",
	.words = "system calls per MB",
	.meaning = "the same per byte received or sent; the column is per MB",
	.scale = 1e6, .form = FORM_RATIO, .apart = true)
FIGURE(SWITCHES_PER_REQUEST, OF_SWITCHES(PER_REQUEST(row->switches)),
	.name = "context_switches_per_request", .title = "switches", .unit = "/req",
	.words = "context switches per request",
	.meaning = "context switches of the listener's threads, voluntary or not, per request of the generator",
	.scale = 1, .form = FORM_RATIO, .rank = 8)
FIGURE(SWITCHES_PER_OP, OF_SWITCHES(PER_OP(row->switches)),
	.name = "context_switches_per_operation", .title = "switches", .unit = "/op",
	.words = "context switches per operation",
	.meaning = "the same per operation of the listener",
	.scale = 1, .form = FORM_RATIO, .rank = 13)
FIGURE(SWITCHES_PER_BYTE, OF_SWITCHES(RATIO(row->switches, bytes_of(row))),
	.name = "context_switches_per_byte", .title = "switches", .unit = "/MB",
	.words = "context switches per MB",
	.meaning = "the same per byte received or sent; the column is per MB",
	.scale = 1e6, .form = FORM_RATIO, .rank = 13)
FIGURE(WAKEUPS_PER_REQUEST, known(PER_REQUEST(row->wakeups)),
	.name = "wakeups_per_request", .title = "wakeups", .unit = "/req",
	.words = "wake-ups per request",
	.meaning = "those context switches that were voluntary, of a thread that slept and was woken",
	.scale = 1, .form = FORM_RATIO, .rank = 13)
FIGURE(INSTRUCTIONS_PER_REQUEST, known(PER_REQUEST(row->instructions)),
	.name = "instructions_per_request", .title = "instr", .unit = "/req",
	.words = "instructions per request",
	.meaning = "instructions of the listener's threads, and of the kernel's that work for them, per request of "
		   "the generator; with `counters`, where the CPU counts",
	.scale = 1, .apart = true, .answer = true)
FIGURE(INSTRUCTIONS_PER_OP, known(PER_OP(row->instructions)),
	.name = "instructions_per_operation", .title = "instr", .unit = "/op",
	.words = "instructions per operation",
	.meaning = "the same per operation of the listener",
	.scale = 1, .rank = 9)
FIGURE(INSTRUCTIONS_PER_BYTE, known(RATIO(row->instructions, bytes_of(row))),
	.name = "instructions_per_byte", .title = "instr", .unit = "/MB",
	.words = "instructions per MB",
	.meaning = "the same per byte received or sent; the column is per MB",
	.scale = 1e6, .rank = 13)
FIGURE(CYCLES_PER_REQUEST, known(PER_REQUEST(row->cycles)),
	.name = "cycles_per_request", .title = "cycles", .unit = "/req",
	.words = "cycles per request",
	.meaning = "CPU cycles of the same threads per request of the generator",
	.scale = 1, .answer = true)
FIGURE(CYCLES_PER_OP, known(PER_OP(row->cycles)),
	.name = "cycles_per_operation", .title = "cycles", .unit = "/op",
	.words = "cycles per operation",
	.meaning = "the same per operation of the listener",
	.scale = 1, .rank = 9)
FIGURE(CYCLES_PER_BYTE, known(RATIO(row->cycles, bytes_of(row))),
	.name = "cycles_per_byte", .title = "cycles", .unit = "/MB",
	.words = "cycles per MB",
	.meaning = "the same per byte received or sent; the column is per MB",
	.scale = 1e6, .rank = 13)
FIGURE(IPC, known(RATIO(row->instructions, row->cycles)),
	.name = "instructions_per_cycle", .title = "IPC", .unit = "", .words = "instructions per cycle",
	.meaning = "instructions per cycle of the same threads",
	.scale = 1, .form = FORM_RATIO, .answer = true)
FIGURE(ENERGY_PER_REQUEST, known(PER_REQUEST(net_joules(row))),
	.name = "joules_per_request", .title = "J/1000", .unit = "req",
	.words = "joules per 1000 requests",
	.meaning = "energy of the CPU's packages of the listener's host, whoever used it, less what they "
		   "use without load, per request of the generator; the column is per 1000",
	.scale = 1e3, .form = FORM_RATIO, .answer = true)
FIGURE(USER_INSTRUCTIONS_PER_REQUEST, known(PER_REQUEST(row->user_instructions)),
	.name = "user_instructions_per_request", .title = "uinstr", .unit = "/req",
	.words = "instructions in user space per request",
	.meaning = "instructions in user space alone, where the kernel refuses to have itself counted",
	.scale = 1, .apart = true, .answer = true)
FIGURE(USER_INSTRUCTIONS_PER_OP, known(PER_OP(row->user_instructions)),
	.name = "user_instructions_per_operation", .title = "uinstr", .unit = "/op",
	.words = "instructions in user space per operation",
	.meaning = "the same per operation of the listener",
	.scale = 1, .rank = 9)
FIGURE(USER_INSTRUCTIONS_PER_BYTE, known(RATIO(row->user_instructions, bytes_of(row))),
	.name = "user_instructions_per_byte", .title = "uinstr", .unit = "/MB",
	.words = "instructions in user space per MB",
	.meaning = "the same per byte received or sent; the column is per MB",
	.scale = 1e6, .rank = 13)
FIGURE(OPS_PER_TURN, RATIO(row->listener_count, row->turns),
	.name = "operations_per_turn", .title = "ops", .unit = "/turn",
	.words = "operations per turn",
	.meaning = "operations that a worker did between two waits",
	.scale = 1, .rank = 9)
FIGURE(CPU_SHARE, RATIO(row->cpu_ns, row->interval_ns),
	.name = "cpu_share", .title = "CPU", .unit = "%", .words = "server's CPU",
	.meaning = "CPU use of the listener; 1 is one CPU fully busy",
	.scale = 1, .form = FORM_PERCENT, .rank = 8)
FIGURE(GENERATOR_SHARE, generator_share_of(&row->generator),
	.name = "generator_busiest_share", .title = "busiest", .unit = "%",
	.words = "generator's busiest thread",
	.meaning = "CPU use of the generator's busiest thread in its busiest 100 ms; 1 is fully "
		   "busy",
	.scale = 1, .form = FORM_PERCENT, .rank = 13)
FIGURE(GENERATOR_CPU, RATIO(row->generator.cpu_ns, row->generator.wall_ns),
	.name = "generator_cpu_share", .title = "gen", .unit = "%",
	.words = "generator's CPU",
	.meaning = "CPU use of the whole generator; 1 is one CPU fully busy",
	.scale = 1, .form = FORM_PERCENT, .rank = 8)
FIGURE(GENERATOR_PER_REQUEST, PER_REQUEST(known((double)row->generator.cpu_ns)),
	.name = "generator_cpu_ns_per_request", .title = "gen/req", .unit = "us",
	.words = "generator's CPU per request",
	.meaning = "CPU time of the generator per request: where it does the same work, it tells how fast the machine was",
	.scale = 1e-3, .rank = 12)
FIGURE(SOFTIRQ, MACHINE(row->machine.softirq_ns),
	.name = "machine_softirq_share", .title = "irq", .unit = "%",
	.words = "softirqs, machine",
	.meaning = "softirqs and interrupts of the whole machine, 1 is one CPU; without "
		   "CONFIG_IRQ_TIME_ACCOUNTING they are in the time of threads, too",
	.scale = 1, .form = FORM_PERCENT, .apart = true,
	.rank = 10)
FIGURE(SERVED_SOFTIRQ, known(RATIO(row->machine.served_softirq_ns, row->interval_ns)),
	.name = "served_softirq_share", .title = "irq own", .unit = "%",
	.words = "softirqs, server's CPUs",
	.meaning = "softirqs and interrupts of the CPUs that the listener's threads may use; 1 is one CPU",
	.scale = 1, .form = FORM_PERCENT, .rank = 10)
FIGURE(IDLE, MACHINE(row->machine.idle_ns),
	.name = "machine_idle_share", .title = "idle", .unit = "%", .words = "idle, machine",
	.meaning = "idle time of the whole machine; 1 is one CPU always idle",
	.scale = 1, .form = FORM_PERCENT, .rank = 11)
FIGURE(STEAL, MACHINE(row->machine.steal_ns),
	.name = "machine_steal_share", .title = "steal", .unit = "%",
	.words = "steal, machine",
	.meaning = "time that the hypervisor gave to others; 1 is one CPU",
	.scale = 1, .form = FORM_PERCENT, .rank = 10)
/* At most 1: the machine is read a little after the daemon, so its interval may be longer. */
FIGURE(PRESSURE,
       row->machine.pressure_ns ?
	       fmin(RATIO(row->machine.pressure_ns, row->interval_ns), 1) : NAN,
	.name = "machine_pressure_share", .title = "waits", .unit = "%",
	.words = "waits for CPUs, machine",
	.meaning = "the part of the time in which any thread of the machine waited for a "
		   "CPU, by /proc/pressure/cpu",
	.scale = 1, .form = FORM_PERCENT, .rank = 12)
FIGURE(OTHER, row->generator.wall_ns ? machine_share(row, other_ns(row)) : NAN,
	.name = "machine_other_share", .title = "other", .unit = "%",
	.words = "other programs",
	.meaning = "CPU use of programs that are neither the server nor the generator, 1 "
		   "is one CPU; unknown where the parts do not add up",
	.scale = 1, .form = FORM_PERCENT, .rank = 12)
FIGURE(LINK_RECEIVED, RATIO(row->link.received_bps, row->link.speed_bps),
	.name = "link_received_share", .title = "link in", .unit = "%",
	.words = "link, received",
	.meaning = "what the listener's network interface received, with framing; 1 is its speed",
	.scale = 1, .form = FORM_PERCENT, .apart = true,
	.rank = 12)
FIGURE(LINK_SENT, RATIO(row->link.sent_bps, row->link.speed_bps),
	.name = "link_sent_share", .title = "link out", .unit = "%", .words = "link, sent",
	.meaning = "what the listener's network interface sent, with framing; 1 is its speed",
	.scale = 1, .form = FORM_PERCENT, .rank = 12)
FIGURE(RETRANSMITTED, RATIO(row->link.retransmitted, row->link.segments),
	.name = "retransmitted_share", .title = "again", .unit = "%",
	.words = "TCP segments sent again",
	.meaning = "of the TCP segments that the listeners' host sent, those that it sent again",
	.scale = 1, .form = FORM_PERCENT, .rank = 12)
