"""The claims that are made of such systems, who made them, and what decides each here.

Each entry is (claim, source, measurement, decide).  decide(rows) returns (verdict, what was seen); in
what was seen `~` marks a ratio that is within the noise.  The sources are read as saying what they
are known for: where they give conditions, those are what is measured, as far as one host can."""

import math

from claims_rows import BETTER, SAME, WORSE, Missing
from claims_scenes import (ALL_CPUS, ECHO_SIZES, FILES, GRID, LATENCIES_US, LOSS_LABEL, LOSSES_PERCENT, ZC_SIZES,
                           echo_label, loss_name)

HOLDS, FAILS, OPEN, UNMEASURED = "holds", "does not hold", "not decidable here", "not measured"
CPU, RATE = "cpu_ns_per_request", "requests_per_s"


SMALL = 0.10  # a difference that is none


def decide_by(ratios, wanted):
    """All as claimed: holds; any the other way round: does not.  An interval that holds 1 decides neither, unless no
    difference is claimed: that holds if no large one can hide in any.  (verdict, why it is open)"""
    hidden = max([r.hidden for r in ratios if r.found == SAME], default=0)
    if all(r.found == wanted for r in ratios) and (wanted != SAME or hidden <= SMALL):
        return HOLDS, ""
    if any(r.found not in (wanted, SAME) for r in ratios):
        return FAILS, ""
    return OPEN, f"because {may_hide(hidden)}: "


def decide_no_better(ratios):
    """The claim that nothing is gained: any that is better refutes it, and no large gain may hide in the others."""
    hidden = max([r.hidden for r in ratios if r.found == SAME], default=0)
    if any(r.found == BETTER for r in ratios):
        return FAILS, ""
    return (HOLDS, "") if hidden <= SMALL else (OPEN, f"because {may_hide(hidden)}: ")


def may_hide(hidden):
    return ("there were too few rounds" if math.isinf(hidden)
            else f"the noise may hide a difference of {hidden:.0%}")


def over_grid(rows, listener, other, grid, decide):
    ratios = [rows.ratio(echo_label(*g), listener, other, CPU) for g in grid]
    verdict, why = decide(ratios)
    seen = ", ".join(f"{c} x {p}: {r}" for (c, p), r in zip(grid, ratios))
    return verdict, f"{why}CPU per request, {listener} to {other}: {seen}"


def all_are(wanted):
    return lambda ratios: decide_by(ratios, wanted)


def proactor(rows):
    return over_grid(rows, "io_uring", "epoll", GRID, all_are(BETTER))


def epoll_wins_small(rows):
    return over_grid(rows, "io_uring", "epoll", [g for g in GRID if g[0] <= 50], all_are(WORSE))


def many_connections(rows):
    verdict, seen = over_grid(rows, "io_uring", "epoll", [g for g in GRID if g[0] == 1000], all_are(BETTER))
    rates = ", ".join(str(rows.ratio(echo_label(1000, p), "io_uring", "epoll", RATE)) for p in (1, 16))
    return verdict, f"{seen}; requests/s: {rates}"


def reactor(rows):
    """No better: so it fails where it is."""
    return over_grid(rows, "io_uring-poll", "epoll", GRID, decide_no_better)


def polling(listener, label, wanted):
    """Submission polling needs a CPU beside the generator's and the worker's."""

    def decide(rows):
        trip = rows.ratio(label, listener, "plain", "round_trip_p50_ns")
        rate = rows.ratio(label, listener, "plain", RATE)
        seen = (f"{listener} to none: round trip {trip}, requests/s {rate}; CPU "
                f"{rows.get(label, listener, 'cpu_share'):.0%} of one, "
                f"{rows.get(label, 'plain', 'cpu_share'):.0%} without")
        alone = listener != "sqpoll" or len(ALL_CPUS) > 2
        if wanted == BETTER:
            verdict, why = decide_by([rate], BETTER)
            if verdict == HOLDS or alone:
                return verdict, why + seen
        if not alone:
            return OPEN, f"because the kernel's thread has no CPU of its own: {seen}"
        verdict, why = decide_no_better([rate])
        return verdict, why + seen

    return decide


def feature(*names):
    """Is each worth something on its own: is the listener without it dearer?"""

    def decide(rows):
        labels = ["features, 50 x 1", "features, 50 x 16"]
        verdicts, seen, why = [], [], ""
        for name in names:
            ratios = [rows.ratio(x, f"no-{name}", "all", CPU) for x in labels]
            found = [r.found for r in ratios]
            if WORSE in found and BETTER not in found:
                verdicts.append(HOLDS)
            else:
                verdict, its_why = decide_by(ratios, WORSE)
                verdicts.append(verdict)
                why = its_why or why
            seen.append(f"without {name} " + ", ".join(map(str, ratios)))
        verdict = next((v for v in (FAILS, OPEN) if v in verdicts), HOLDS)
        return verdict, (f"{why if verdict == OPEN else ''}CPU per request (50 x 1, 50 x 16): "
                         f"{'; '.join(seen)}")

    return decide


def multishot_accept(rows):
    label = "features, a connection each"
    ratio = rows.ratio(label, "no-multishot_accept", "accept", CPU)
    verdict, why = decide_by([ratio], WORSE)
    return verdict, f"{why}CPU per connection without: {ratio}"


def decide_times(rate, published):
    """Is it so many times as fast as published?"""
    if rate.low >= published:
        return HOLDS, ""
    if rate.high < published:
        return FAILS, ""
    return OPEN, f"because {may_hide(rate.high)}: " if math.isinf(rate.high) else (
        f"because it may be {rate.low:.2f} to {rate.high:.2f} times: ")


def so_many_times(label, listener, other, published):
    """Published: so many times the other's requests/s."""

    def decide(rows):
        rate = rows.ratio(label, listener, other, RATE)
        verdict, why = decide_times(rate, published)
        return verdict, (f"{why}requests/s, {listener} to {other}: {rate} ({rows.get(label, listener, RATE):,.0f}/s); "
                         f"CPU per request {rows.ratio(label, listener, other, CPU)}")

    return decide


def sleeping(rows):
    """What sqpoll adds to the round trip, or takes from it."""
    labels = {state: f"sqpoll {state}" for state in ("sleeps", "polls")}
    ratios = {state: rows.ratio(x, "sqpoll", "plain", "round_trip_p50_ns") for state, x in labels.items()}
    verdict, why = decide_by([ratios["sleeps"]], WORSE)
    trips = "; ".join(
        f"thread {state}: {ratios[state]}, {rows.get(x, 'sqpoll', 'trip50_ns') / 1e3:.0f} us and "
        f"{rows.get(x, 'plain', 'trip50_ns') / 1e3:.0f}" for state, x in labels.items())
    return verdict, f"{why}round trip, sqpoll to none: {trips}"


def ping_pong(rows):
    trip = rows.ratio("polling, 8 B", "sqpoll", "plain", "round_trip_p50_ns")
    verdict, why = decide_by([trip], BETTER)
    return verdict, (f"{why}round trip, sqpoll to none: {trip}, {rows.get('polling, 8 B', 'sqpoll', 'trip50_ns') / 1e3:.1f} "
                     f"us and {rows.get('polling, 8 B', 'plain', 'trip50_ns') / 1e3:.1f}")


def sizes(rows):
    """As published: behind at 8 and 16 KiB, ahead below."""
    ratios = [rows.ratio(f"echo of {s} B", "io_uring", "epoll", CPU) for s in ECHO_SIZES]
    few = [rows.ratio(f"echo of {s} B", "few-buffers", "epoll", CPU) for s in ECHO_SIZES]
    verdict, why = decide_by([r for r, s in zip(ratios, ECHO_SIZES) if s >= 8192], WORSE)
    seen = ", ".join(f"{s} B {r}, with 16 buffers {f}" for s, r, f in zip(ECHO_SIZES, ratios, few))
    return verdict, f"{why}CPU per request, io_uring to epoll: {seen}"


def receives(rows):
    ratio = rows.ratio("datagrams of 64 B", "io_uring", "epoll", "cpu_ns_per_operation")
    verdict, why = decide_by([ratio], WORSE)
    return verdict, f"{why}CPU per datagram received, io_uring to epoll: {ratio}"


def switching(rows):
    rate, switches = (rows.ratio(echo_label(50, 1), "io_uring", "epoll", figure)
                      for figure in (RATE, "context_switches_per_request"))
    verdict, why = decide_times(switches, 1.69)
    return verdict, f"{why}context switches per request, io_uring to epoll: {switches}; requests/s {rate}"


def needs(what):
    return lambda rows: (OPEN, f"because it takes {what}")


def over_threads(title, read, write, unit, others=()):
    """Published: this many times as fast."""

    def decide(rows):
        seen, verdicts, why = [], [], ""
        for job, published in (("read", read), ("write", write)):
            label = f"{title}, {job}"
            rate = rows.ratio(label, "io_uring", "threads", RATE)
            cpu = rows.ratio(label, "io_uring", "threads", CPU)
            verdict, its_why = decide_times(rate, published)
            verdicts.append(verdict)
            why = its_why or why
            beside = "".join(f", {rows.ratio(label, 'io_uring', other, RATE)} of {other}'s" for other in others)
            seen.append(f"{job}: {rate} of the {unit}s/s{beside} "
                        f"({rows.get(label, 'io_uring', RATE):,.0f}/s), CPU per {unit} {cpu}")
        verdict = next((v for v in (FAILS, OPEN) if v in verdicts), HOLDS)
        return verdict, (why if verdict == OPEN else "") + "; ".join(seen)

    return decide


def in_vm(decide, command="make bench-vm"):
    def decide_if_measured(rows):
        try:
            return decide(rows)
        except Missing:
            return UNMEASURED, f"`{command}` (root, Debian) measures it"

    return decide_if_measured


def unified(rows):
    labels = [f"4 KiB, {job}, 32 at once" for job in ("randread", "randwrite")]
    ratios = [rows.ratio(x, "unified", "hybrid", CPU) for x in labels]
    verdict, why = decide_by(ratios, BETTER)
    seen = ", ".join(f"{x.split(',')[1].strip()} {r}" for x, r in zip(labels, ratios))
    calls = ", ".join(f"{rows.get(labels[0], x, 'syscalls_per_operation'):.2f}"
                      for x in ("unified", "hybrid"))
    return verdict, f"{why}CPU per request, unified to hybrid: {seen}; calls per read: {calls}"


def zero_copy(rows):
    ratios = [rows.ratio(f"sends of {s} KiB", "zero-copy", "copied", CPU) for s in ZC_SIZES]
    seen = ", ".join(f"{s} KiB {r}" for s, r in zip(ZC_SIZES, ratios))
    sent, copied = rows.extra.get("zero-copy", (0, 0))
    text = f"CPU per request: {seen}; {sent} sends without a copy, {copied} copied after all"
    if sent == 0:
        return OPEN, f"because on loopback the kernel copies what is received at the latest: {text}"
    verdict, why = decide_by(ratios[1:], BETTER)
    return verdict, why + text


def one_call(rows):
    calls = {g: rows.get(echo_label(*g), "io_uring", "syscalls_per_operation") for g in GRID}
    epoll = rows.get(echo_label(50, 1), "epoll", "syscalls_per_operation")
    seen = ", ".join(f"{c} x {p}: {n:.2f}" for (c, p), n in calls.items())
    return (HOLDS if all(n <= 1.05 for n in calls.values()) else FAILS,
            f"io_uring's calls per operation: {seen}; epoll 50 x 1: {epoll:.2f}")


def no_call(rows):
    calls = rows.get("polling, 50 x 16", "sqpoll", "syscalls_per_operation")
    return HOLDS if calls < 0.1 else FAILS, f"calls per operation, sqpoll, 50 x 16: {calls:.3f}"


def stack(rows):
    """Entering and leaving the kernel against all that epoll's worker costs."""
    call_ns = rows.extra["call_ns"]
    parts = []
    for c, p in GRID:
        calls = rows.get(echo_label(c, p), "epoll", "syscalls_per_operation")
        parts.append(calls * call_ns / rows.get(echo_label(c, p), "epoll", "cpu_ns_per_operation"))
    return (HOLDS if max(parts) < 0.25 else FAILS,
            f"a call that does nothing takes at most {call_ns:.0f} ns: entering and leaving the kernel "
            f"is {min(parts):.0%} to {max(parts):.0%} of epoll's CPU time per operation")


RXE = "rxe, whose kernel does what a NIC would; CPU of the server's threads"


def one_sided(rows):
    label = "rdma, fio 4 KiB"
    ratios = [rows.ratio(label, verb, "send", CPU) for verb in ("write", "read")]
    verdict, why = decide_by(ratios, BETTER)
    return verdict, f"{why}{RXE} per block, connecting in it, to send: write {ratios[0]}, read {ratios[1]}"


def loss(rows):
    """The part of each one's throughput that is left where packets are lost, and RoCE's part of iWARP's."""
    none, lost = LOSSES_PERCENT
    left = {kind: rows.ratio(LOSS_LABEL, loss_name(kind, lost), loss_name(kind, none), RATE) for kind in ("rxe", "siw")}
    both = left["rxe"].to(left["siw"])
    verdict, why = decide_by([both], WORSE)
    return verdict, (f"{why}software devices, whose retransmission is rxe's (go back N) and TCP's: of the throughput "
                     f"{left['rxe']} is left with RoCE, {left['siw']} with iWARP; RoCE's part of it to iWARP's {both}")


NEAR = 2  # times: as generous a word as it may be
BYPASS = "make bench-vm BENCH_VM=bypass"


def near_dpdk(rows):
    """Instructions for each echo over UDP: of the serving thread, and of all that the CPU does for it."""
    costs = rows.extra.get("bypass")
    if not costs:
        raise Missing("no echo beside DPDK was measured")
    ours, dpdk, xdp = (costs[name] for name in ("nbserved, io_uring", "DPDK", "AF_XDP, zero-copy, bare"))
    times = {load: ours[load][1] / dpdk[load][1] for load in ours}
    seen = ", ".join(f"{load}: {n:.0f} times ({ours[load][0] / xdp[load][0]:.2f})" for load, n in times.items())
    return (HOLDS if max(times.values()) <= NEAR else FAILS,
            f"instructions of the server's thread to DPDK's code, and in parentheses of all, with client and interrupts, to "
            f"zero-copy AF_XDP: {seen}; a real card may narrow it: here doorbells, DMA and caches cost nothing")


SELF = "`make claims`"
VM = "`make bench-vm`, a VM whose one CPU counts instructions"
JASNY = "M. Jasny et al., io_uring for High-Performance DBMSs, arXiv 2512.04859"


def only(scene, what):
    return f"`tests/peers/claims.py --only {scene}`: {what}"


ECHO = f"{SELF}: redis-benchmark -d 512, connections x pipelined; CPU per request"
CLAIMS = [
    ("io_uring as a proactor echoes for less CPU than epoll, from 1 to 1000 connections, 1 to 16 deep",
     "frevib/io_uring-echo-server, its README's table", ECHO, proactor),
    ("io_uring's gain needs many connections: at 1000 it beats epoll", "netty/netty#10622", ECHO,
     many_connections),
    ("epoll beats io_uring for small messages of few clients", "axboe/liburing#189", ECHO,
     epoll_wins_small),
    ("io_uring as a reactor, polls alone, is no better than epoll", "often said; no first source found", ECHO, reactor),
    ("polling submissions in the kernel helps a single client",
     "J. Axboe, Efficient IO with io_uring (2019)", f"{SELF}: 1 x 1, sqpoll",
     polling("sqpoll", "polling, 1 x 1", BETTER)),
    ("... and hardly a server that is saturated", "J. Axboe, Efficient IO with io_uring (2019)",
     f"{SELF}: 50 x 16, sqpoll", polling("sqpoll", "polling, 50 x 16", SAME)),
    ("busy polling helps a single client", "socket(7), SO_BUSY_POLL",
     f"{SELF}: 1 x 1, busy-poll", polling("busy-poll", "polling, 1 x 1", BETTER)),
    ("... and hardly a server that is saturated", "socket(7), SO_BUSY_POLL",
     f"{SELF}: 50 x 16, busy-poll", polling("busy-poll", "polling, 50 x 16", SAME)),
    ("a registered ring is worth its while", "io_uring_register(2)",
     f"{SELF}: `features`, each off alone", feature("registered_ring")),
    ("multishot receive is worth its while",
     "liburing wiki, io_uring and networking in 2023", f"{SELF}: `features`, off alone",
     feature("multishot_recv")),
    ("multishot accept is worth its while", "liburing wiki, io_uring and networking in 2023",
     f"{SELF}: ab, a connection for each request", multishot_accept),
    ("buffer selection by a ring of provided buffers is worth its while",
     "liburing wiki, io_uring and networking in 2023",
     f"{SELF}: `features`, off alone: each receive brings a buffer", feature("buffer_ring")),
    ("incremental buffers and bundles are worth their while", "io_uring_prep_recv(3)",
     f"{SELF}: `features`, each off alone", feature("incremental_buffers", "recv_bundle")),
    ("completions that nobody needs are worth leaving out", "io_uring_enter(2), IOSQE_CQE_SKIP_SUCCESS",
     f"{SELF}: `features`, off alone", feature("silent_send")),
    ("deferring the kernel's work to one thread's call is worth its while",
     "io_uring_setup(2), IORING_SETUP_DEFER_TASKRUN", f"{SELF}: `features`, off alone",
     feature("defer_taskrun")),
    (f"io_uring reads {FILES} cached files of 64 KiB 2.7 times, and writes them 1.5 times, as fast as "
     "worker threads", "often quoted; no first source found",
     f"{SELF}: {FILES} exports, fio over NBD, files/s", over_threads("100 files, cached", 2.7, 1.5, "file")),
    ("the same uncached, with a device's latency", "often quoted; no first source found",
     f"{SELF}: the same with O_DIRECT on this disk",
     over_threads("100 files, O_DIRECT on this disk", 2.7, 1.5, "file")),
    *[(f"io_uring does 4 KiB reads 2.7 times, and writes 1.5 times, as fast as worker threads on a device that takes "
       f"{us / 1000:g} ms for each",
       "often quoted; no first source found", f"{VM}: null_blk, O_DIRECT, 32 at once by fio over NBD, 32 threads",
       in_vm(over_threads(f"null_blk, {us} us", 2.7, 1.5, "request", ("blocking", "io_uring-again"))))
      for us in LATENCIES_US],
    ("one ring for sockets and files beats epoll with a ring for files",
     "often said; no first source found",
     f"{SELF}: fio over NBD, 4 KiB, 32 at once, CPU per request", unified),
    ("zero-copy sends pay from some 10 KB on", "Linux, Documentation/networking/msg_zerocopy.rst",
     f"{SELF}: wrk of 4 to 256 KiB, CPU per request", zero_copy),
    ("io_uring needs one system call per operation, or less",
     "J. Corbet, Ringing in a new asynchronous I/O API, LWN (2019)", f"{SELF}: calls per operation",
     one_call),
    ("with submission polling it needs none", "J. Axboe, Efficient IO with io_uring (2019)",
     f"{SELF}: calls per operation with sqpoll, 50 x 16", no_call),
    ("the network stack, not the system calls, is the bottleneck",
     "Q. Cai et al., Understanding Host Network Stack Overheads, SIGCOMM 2021",
     f"{SELF}: calls per operation times a call that does nothing, of CPU per operation", stack),
    ("io_uring has near-DPDK performance while keeping the network stack", "often said; no first source found",
     f"`{BYPASS}`, Linux 7.3: echo over UDP", in_vm(near_dpdk, BYPASS)),
    ("a submission to a thread of SQPOLL that sleeps costs 31 to 36 us, to one that polls 1.6 to 2.5", JASNY,
     only("sleep", "a request each 1.2 s, and each 50 ms"), sleeping),
    ("a ping-pong of 8 bytes takes 25.9 us with DEFER_TASKRUN, and 21.7 with SQPOLL", JASNY,
     only("polling", "8 B, 1 x 1"), ping_pong),
    ("... and 20.7 with NAPI busy polling", JASNY, "two hosts: `busy-poll`", needs("a network card: loopback has no NAPI")),
    ("zero-copy sends of 1 MiB take 0.46 cycles per byte copied, 0.21 without, 0.145 from registered buffers", JASNY,
     "two hosts: `counters`, `zero-copy-min`", needs("a network card, and a CPU that counts cycles")),
    ("receiving 64 KiB takes 0.61 cycles per byte copied, and 0.17 by zero-copy receive", JASNY,
     "two hosts: `counters`, `zero-copy-receive = INTERFACE:QUEUE`",
     needs("a network card that puts headers and data apart, and a CPU that counts cycles")),
    ("io_uring switches 69 % more often than epoll, and has 8 % fewer requests/s (netty with Cassandra)",
     "netty/netty-incubator-transport-io_uring#152", only("echo", "50 x 1, context switches per request"), switching),
    ("io_uring makes a server of one request at a time per client 31 % faster", "redis/redis#9441",
     only("echo", "50 x 1, requests/s"), so_many_times(echo_label(50, 1), "io_uring", "epoll", 1.31)),
    ("io_uring makes a server of HTTP 24 % faster", "ryanseipp/iouring-test", only("http", "wrk -c64, requests/s"),
     so_many_times("http, 64 connections", "io_uring", "epoll", 1.24)),
    ("epoll is ahead at 8 and 16 KiB (192,000 messages/s to 160,000), as its one buffer stays in the cache",
     "uNetworking/uWebSockets#1603, axboe/liburing#862", only("sizes", "redis-benchmark -d, 50 x 1; CPU per request"), sizes),
    ("receiving by multishot recvmsg costs more than by recvmmsg", "axboe/liburing#1506",
     only("receive", "sockperf throughput, UDP"), receives),
    ("32 scans of cached data are 1.4 times as fast by io_uring as by three workers (PostgreSQL 18)",
     "J. Davis, pgsql-hackers (2025)", only("scans", "fio over NBD, 128 KiB"), so_many_times("32 scans", "io_uring", "threads", 1.4)),
    ("one-sided RDMA spares the server's CPU what two-sided costs",
     "A. Dragojevic et al., FaRM, NSDI 2014", f"{VM}: fio, verb=write, read and send", in_vm(one_sided)),
    ("packet loss costs RoCE more than iWARP",
     "R. Mittal et al., Revisiting Network Support for RDMA, SIGCOMM 2018",
     f"{VM}: fio, verb=write, over links of which one loses {LOSSES_PERCENT[1]:g} % (netem)", in_vm(loss)),
]
