/* The figures of a row, in the order of the terminal's columns: what `enum figure` calls each, its
 * value as a formula of the row, and the members of struct figure_info.  To be included with
 * FIGURE(id, formula, ...) defined; see figure.c for what formulas are made of.  A new figure is
 * an entry here, and in nbbench(1), COLUMNS. */
/* clang-format off */

/* What is divided: by the generator's requests, by the listener's operations, and by bytes, which
 * are three figures in this order.  TIME_PER: of nanoseconds; COUNT_PER: of anything else.  rank: of
 * the first one's column, others: of the two other ones'. */
#define TIME_PER(id, part_ns, name_, title_, words_, rank_, others, ...) \
	FIGURE(id##_PER_REQUEST, PER_REQUEST(part_ns), .name = name_ "_per_request", .words = words_ " per request", \
		.title = title_ "/req", .unit = "us", .scale = 1e-3, .rank = rank_, __VA_ARGS__) \
	FIGURE(id##_PER_OP, PER_OP(part_ns), .name = name_ "_per_operation", .words = words_ " per operation", \
		.title = title_ "/op", .unit = "us", .scale = 1e-3, .rank = others, __VA_ARGS__) \
	FIGURE(id##_PER_BYTE, RATIO(part_ns, bytes_of(row)), .name = name_ "_per_byte", .words = words_ " per GB", \
		.title = title_ "/GB", .unit = "ms", .scale = 1e3, .rank = others)
#define COUNT_PER(id, part, name_, title_, words_, rank_, others, ...) \
	FIGURE(id##_PER_REQUEST, PER_REQUEST(part), .name = name_ "_per_request", .words = words_ " per request", \
		.title = title_, .unit = "/req", .scale = 1, .rank = rank_, __VA_ARGS__) \
	FIGURE(id##_PER_OP, PER_OP(part), .name = name_ "_per_operation", .words = words_ " per operation", \
		.title = title_, .unit = "/op", .scale = 1, .rank = others, __VA_ARGS__) \
	FIGURE(id##_PER_BYTE, RATIO(part, bytes_of(row)), .name = name_ "_per_byte", .words = words_ " per MB", \
		.title = title_, .unit = "/MB", .scale = 1e6, .rank = others, __VA_ARGS__)

FIGURE(REQUEST_RATE, known(row->generator.result.requests_per_s),
	.name = "requests_per_s", .title = "reqs", .unit = "/s", .words = "requests",
	.scale = 1, .apart = true, .answer = true)
FIGURE(RATE, PER_S(row->count),
	.name = "operations_per_s", .title = "ops", .unit = "/s", .words = "operations",
	.scale = 1, .apart = true, .rank = 2)
FIGURE(BANDWIDTH, PER_S(bytes_of(row)),
	.name = "bytes_per_s", .title = "MB", .unit = "/s", .words = "MB",
	.scale = 1e-6, .rank = 3)
FIGURE(GENERATOR_BANDWIDTH, known(row->generator.result.bytes_per_s),
	.name = "generator_bytes_per_s", .title = "genMB", .unit = "/s",
	.scale = 1e-6, .rank = 6)
FIGURE(TRIP50, trip(row, 0.5),
	.name = "trip50_ns", .title = "trip50", .unit = "us", .words = "round trip p50",
	.scale = 1e-3, .apart = true, .rank = 5)
FIGURE(TRIP99, trip(row, 0.99),
	.name = "trip99_ns", .title = "trip99", .unit = "us", .words = "round trip p99",
	.scale = 1e-3, .rank = 4)
FIGURE(CYCLE, cycle_of(row),
	.name = "connections_over_rate_ns", .title = "cycle", .unit = "us",
	.scale = 1e-3, .apart = true, .rank = 5)
FIGURE(P50, latency(&row->latency, 0.5),
	.name = "p50_ns", .title = "p50", .unit = "us", .words = "p50",
	.scale = 1e-3, .pooled = true, .apart = true, .answer = true)
FIGURE(P99, latency(&row->latency, 0.99),
	.name = "p99_ns", .title = "p99", .unit = "us", .words = "p99",
	.scale = 1e-3, .pooled = true, .answer = true)
FIGURE(P99_9, latency(&row->latency, 0.999),
	.name = "p99_9_ns", .title = "p99.9", .unit = "us",
	.scale = 1e-3, .pooled = true, .rank = 6)
FIGURE(TURN_P99, is_busy(row) ? latency(&row->turn, 0.99) : NAN,
	.name = "turn_p99_ns", .title = "turn99", .unit = "us",
	.scale = 1e-3, .pooled = true, .rank = 6)
TIME_PER(CPU, measure_serving_ns(row), "cpu_ns", "CPU", "CPU", 0, 0, .apart = true)
TIME_PER(HOST, busy_ns(row), "machine_cpu_ns", "host", "CPU of the host", 7, 7)
FIGURE(KERNEL_SHARE, known(RATIO(row->kernel_cpu_ns, row->cpu_ns)),
	.name = "kernel_threads_share", .title = "kthread", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .answer = true)
FIGURE(HANDSHAKE_RATE, known(PER_S(row->handshakes)),
	.name = "handshakes_per_s", .title = "handshakes", .unit = "/s",
	.scale = 1, .apart = true, .answer = true, .rank = 1)
FIGURE(CPU_PER_HANDSHAKE, known(RATIO(row->handshake_cpu_ns, row->handshakes)),
	.name = "cpu_ns_per_handshake", .title = "CPU/handshake", .unit = "us",
	.scale = 1e-3, .answer = true)
FIGURE(USER_SHARE, OF_TICKS(RATIO(row->cpu_user_ns, row->cpu_ns)),
	.name = "cpu_user_share", .title = "user", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .pooled = true, .rank = 7)
COUNT_PER(SYSCALLS, row->syscalls, "syscalls", "calls", "system calls", 0, 0, .form = FORM_RATIO, .apart = true)
/* Rows of earlier releases have no context switches; a listener that served had some. */
COUNT_PER(SWITCHES, known((double)row->switches), "context_switches", "switches", "context switches", 8, 13, .form = FORM_RATIO)
FIGURE(WAKEUPS_PER_REQUEST, known(PER_REQUEST(row->wakeups)),
	.name = "wakeups_per_request", .title = "wakeups", .unit = "/req",
	.scale = 1, .form = FORM_RATIO, .rank = 13)
COUNT_PER(INSTRUCTIONS, known((double)row->instructions), "instructions", "instr", "instructions", 0, 9, .apart = true)
COUNT_PER(CYCLES, known((double)row->cycles), "cycles", "cycles", "cycles", 0, 9)
FIGURE(IPC, known(RATIO(row->instructions, row->cycles)),
	.name = "instructions_per_cycle", .title = "IPC", .unit = "",
	.scale = 1, .form = FORM_RATIO, .answer = true)
FIGURE(ENERGY_PER_REQUEST, known(PER_REQUEST(net_joules(row))),
	.name = "joules_per_request", .title = "J/1000", .unit = "req",
	.scale = 1e3, .form = FORM_RATIO, .answer = true)
COUNT_PER(USER_INSTRUCTIONS, known((double)row->user_instructions), "user_instructions", "uinstr",
	"instructions in user space", 0, 9, .apart = true)
FIGURE(OPS_PER_TURN, RATIO(row->listener_count, row->turns),
	.name = "operations_per_turn", .title = "ops", .unit = "/turn",
	.scale = 1, .rank = 9)
FIGURE(CPU_SHARE, RATIO(row->cpu_ns, row->interval_ns),
	.name = "cpu_share", .title = "CPU", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .rank = 8)
FIGURE(GENERATOR_SHARE, generator_share_of(&row->generator),
	.name = "generator_busiest_share", .title = "busiest", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .rank = 13)
FIGURE(GENERATOR_PER_REQUEST, PER_REQUEST(known((double)row->generator.cpu_ns)),
	.name = "generator_cpu_ns_per_request", .title = "gen/req", .unit = "us",
	.scale = 1e-3, .rank = 12)
FIGURE(SOFTIRQ, MACHINE(row->machine.softirq_ns),
	.name = "machine_softirq_share", .title = "irq", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .apart = true,
	.rank = 10)
FIGURE(SERVED_SOFTIRQ, known(RATIO(row->machine.served_softirq_ns, row->interval_ns)),
	.name = "served_softirq_share", .title = "irq own", .unit = "%",
	.words = "softirqs, server's CPUs",
	.scale = 1, .form = FORM_PERCENT, .rank = 10)
FIGURE(STEAL, MACHINE(row->machine.steal_ns),
	.name = "machine_steal_share", .title = "steal", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .rank = 10)
/* At most 1: the machine is read a little after the daemon, so its interval may be longer. */
FIGURE(PRESSURE,
       row->machine.pressure_ns ?
	       fmin(RATIO(row->machine.pressure_ns, row->interval_ns), 1) : NAN,
	.name = "machine_pressure_share", .title = "waits", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .rank = 12)
FIGURE(OTHER, row->generator.wall_ns ? machine_share(row, other_ns(row)) : NAN,
	.name = "machine_other_share", .title = "other", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .rank = 12)
FIGURE(LINK_RECEIVED, RATIO(row->link.received_bps, row->link.speed_bps),
	.name = "link_received_share", .title = "link in", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .apart = true,
	.rank = 12)
FIGURE(LINK_SENT, RATIO(row->link.sent_bps, row->link.speed_bps),
	.name = "link_sent_share", .title = "link out", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .rank = 12)
FIGURE(RETRANSMITTED, RATIO(row->link.retransmitted, row->link.segments),
	.name = "retransmitted_share", .title = "again", .unit = "%",
	.scale = 1, .form = FORM_PERCENT, .rank = 12)
