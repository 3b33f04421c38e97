"""The claims that are made of such systems, who made them, and what decides each here.

Each entry is (claim, source, measurement, decide).  decide(rows) returns (verdict, what was seen); in
what was seen `~` marks a ratio that is within the noise.  The sources are read as saying what they
are known for: where they give conditions, those are what is measured, as far as one host can."""

from claims_rows import BETTER, SAME, WORSE
from claims_scenes import ALL_CPUS, FILES, GRID, ZC_SIZES, echo_label

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable here"
CPU, RATE = "cpu_ns_per_request", "requests_per_s"


NOISY = 0.10  # a noise that could hide what is claimed


def decide_by(rows, labels, figure, found, wanted):
    """All beyond the noise as claimed: holds; any the other way round: does not; where there is no
    difference, that says something only if the noise is small.  (verdict, why it is open)"""
    noise = max([rows.noise(x, figure) for x, f in zip(labels, found) if f == SAME], default=0)
    if all(f == wanted for f in found):
        return HOLDS, ""
    if any(f not in (wanted, SAME) for f in found) or noise <= NOISY:
        return FAILS, ""
    return OPEN, f"because the noise is up to {noise:.0%}: "


def over_grid(rows, listener, other, grid, wanted):
    labels = [echo_label(*g) for g in grid]
    found = [rows.judge(x, listener, other, CPU) for x in labels]
    verdict, why = decide_by(rows, labels, CPU, found, wanted)
    seen = ", ".join(f"{c} x {p}: {rows.show(echo_label(c, p), listener, other, CPU)}"
                     for c, p in grid)
    return verdict, f"{why}CPU per request, {listener} to {other}: {seen}"


def proactor(rows):
    return over_grid(rows, "io_uring", "epoll", GRID, BETTER)


def epoll_wins_small(rows):
    return over_grid(rows, "io_uring", "epoll", [g for g in GRID if g[0] <= 50], WORSE)


def many_connections(rows):
    verdict, seen = over_grid(rows, "io_uring", "epoll", [g for g in GRID if g[0] == 1000], BETTER)
    rates = ", ".join(rows.show(echo_label(1000, p), "io_uring", "epoll", RATE) for p in (1, 16))
    return verdict, f"{seen}; requests/s: {rates}"


def reactor(rows):
    """No better: so it fails where it is."""
    verdict, seen = over_grid(rows, "io_uring-poll", "epoll", GRID, BETTER)
    found = [rows.judge(echo_label(*g), "io_uring-poll", "epoll", CPU) for g in GRID]
    return (verdict if verdict == OPEN else FAILS if BETTER in found else HOLDS), seen


def polling(listener, label, wanted):
    """Submission polling needs a CPU beside the generator's and the worker's."""

    def decide(rows):
        trip = rows.ratio(label, listener, "plain", "round_trip_p50_ns")
        seen = (f"{listener} to none: round trip {trip:.2f}, requests/s "
                f"{rows.show(label, listener, 'plain', RATE)}; CPU "
                f"{rows.get(label, listener, 'cpu_share'):.0%} of one, "
                f"{rows.get(label, 'plain', 'cpu_share'):.0%} without")
        if listener == "sqpoll" and len(ALL_CPUS) < 3:
            return OPEN, f"because the kernel's thread has no CPU of its own: {seen}"
        found = rows.judge(label, listener, "plain", RATE)
        if wanted == BETTER:
            verdict, why = decide_by(rows, [label], RATE, [found], BETTER)
            return verdict, why + seen
        noise = rows.noise(label, RATE)
        if found == SAME and noise > NOISY:
            return OPEN, f"because the noise is {noise:.0%}: {seen}"
        return (FAILS if found == BETTER else HOLDS), seen

    return decide


def feature(*names):
    """Is each worth something on its own: is the listener without it dearer?"""

    def decide(rows):
        labels = ["features, 50 x 1", "features, 50 x 16"]
        verdicts, seen, why = [], [], ""
        for name in names:
            found = [rows.judge(x, f"no-{name}", "all", CPU) for x in labels]
            if WORSE in found and BETTER not in found:
                verdicts.append(HOLDS)
            else:
                verdict, why = decide_by(rows, labels, CPU, found, WORSE)
                verdicts.append(verdict)
            seen.append(f"without {name} " + ", ".join(rows.show(x, f"no-{name}", "all", CPU)
                                                       for x in labels))
        verdict = next((v for v in (FAILS, OPEN) if v in verdicts), HOLDS)
        return verdict, (f"{why if verdict == OPEN else ''}CPU per request (50 x 1, 50 x 16): "
                         f"{'; '.join(seen)}")

    return decide


def multishot_accept(rows):
    label = "features, a connection each"
    found = rows.judge(label, "no-multishot_accept", "accept", CPU)
    verdict, why = decide_by(rows, [label], CPU, [found], WORSE)
    return (verdict, f"{why}CPU per connection without: "
            f"{rows.show(label, 'no-multishot_accept', 'accept', CPU)}")


def files(title, read, write):
    """Published: so many times as fast."""

    def decide(rows):
        seen, verdicts, why = [], [], ""
        for job, published in (("read", read), ("write", write)):
            label = f"{title}, {job}"
            ratio = rows.ratio(label, "io_uring", "threads", RATE)
            noise = rows.noise(label, RATE)
            if ratio >= published:
                verdicts.append(HOLDS)
            elif ratio * (1 + noise) < published:
                verdicts.append(FAILS)
            else:
                verdicts.append(OPEN)
                why = f"because the noise is up to {noise:.0%}: "
            seen.append(f"{job}: {rows.show(label, 'io_uring', 'threads', RATE)} of the files/s "
                        f"({rows.get(label, 'io_uring', RATE):,.0f}/s), CPU per file "
                        f"{rows.show(label, 'io_uring', 'threads', CPU)}")
        verdict = next((v for v in (FAILS, OPEN) if v in verdicts), HOLDS)
        return verdict, (why if verdict == OPEN else "") + "; ".join(seen)

    return decide


def unified(rows):
    labels = [f"4 KiB, {job}, 32 at once" for job in ("randread", "randwrite")]
    found = [rows.judge(x, "unified", "hybrid", CPU) for x in labels]
    verdict, why = decide_by(rows, labels, CPU, found, BETTER)
    seen = ", ".join(f"{x.split(',')[1].strip()} {rows.show(x, 'unified', 'hybrid', CPU)}"
                     for x in labels)
    calls = ", ".join(f"{rows.get(labels[0], x, 'syscalls_per_operation'):.2f}"
                      for x in ("unified", "hybrid"))
    return verdict, f"{why}CPU per request, unified to hybrid: {seen}; calls per read: {calls}"


def zero_copy(rows):
    seen = ", ".join(f"{s} KiB {rows.show(f'sends of {s} KiB', 'zero-copy', 'copied', CPU)}"
                     for s in ZC_SIZES)
    sent, copied = rows.extra.get("zero-copy", (0, 0))
    text = f"CPU per request: {seen}; {sent} sends without a copy, {copied} copied after all"
    if sent == 0:
        return OPEN, f"because on loopback the kernel copies what is received at the latest: {text}"
    labels = [f"sends of {s} KiB" for s in ZC_SIZES[1:]]
    found = [rows.judge(x, "zero-copy", "copied", CPU) for x in labels]
    verdict, why = decide_by(rows, labels, CPU, found, BETTER)
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


def undecided(reason):
    return lambda _rows: (OPEN, f"because {reason}")


NO_NULL_BLK = ("it needs null_blk with completion_nsec, a module that the kernel which this was written on "
               "lacks; the row above has a real disk's latency instead")
NO_NIC = ("it takes RDMA NICs: of software devices (rxe, siw) the server's kernel does what a NIC would, so "
          "that their CPU time decides nothing")
NO_LOSS = ("it takes RDMA NICs on two hosts: both ends of software devices on one host exchange packets inside "
           "the driver or over lo, past netem, and their retransmission is not a NIC's")
SELF = "`make claims`"
ECHO = f"{SELF}: redis-benchmark -d 512, connections x pipelined; CPU per request"
CLAIMS = [
    ("io_uring as a proactor echoes for less CPU than epoll, from 1 to 1000 connections, 1 to 16 deep",
     "frevib/io_uring-echo-server, its README's table", ECHO, proactor),
    ("io_uring's gain needs many connections: at 1000 it beats epoll", "netty/netty#10622", ECHO,
     many_connections),
    ("epoll beats io_uring for small messages of few clients", "axboe/liburing#189", ECHO,
     epoll_wins_small),
    ("io_uring as a reactor, polls alone, is no better than epoll", "often said; no first source found", ECHO, reactor),
    ("polling submissions in the kernel helps who is alone",
     "J. Axboe, Efficient IO with io_uring (2019)", f"{SELF}: 1 x 1, sqpoll",
     polling("sqpoll", "polling, 1 x 1", BETTER)),
    ("... and hardly a server that is saturated", "J. Axboe, Efficient IO with io_uring (2019)",
     f"{SELF}: 50 x 16, sqpoll", polling("sqpoll", "polling, 50 x 16", SAME)),
    ("polling before sleeping helps who is alone", "socket(7), SO_BUSY_POLL",
     f"{SELF}: 1 x 1, busy-poll", polling("busy-poll", "polling, 1 x 1", BETTER)),
    ("... and hardly a server that is saturated", "socket(7), SO_BUSY_POLL",
     f"{SELF}: 50 x 16, busy-poll", polling("busy-poll", "polling, 50 x 16", SAME)),
    ("registered files and ring are each worth their while", "io_uring_register(2)",
     f"{SELF}: `features`, each off alone", feature("registered_files", "registered_ring")),
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
     f"{SELF}: {FILES} exports, fio over NBD, files/s", files("100 files, cached", 2.7, 1.5)),
    ("the same uncached, with a device's latency", "often quoted; no first source found",
     f"{SELF}: the same with O_DIRECT on this disk",
     files("100 files, O_DIRECT on this disk", 2.7, 1.5)),
    ("the same on a device of known latency", "often quoted; no first source found",
     "null_blk, fio over NBD", undecided(NO_NULL_BLK)),
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
    ("one-sided RDMA spares the server's CPU what two-sided costs",
     "A. Dragojevic et al., FaRM, NSDI 2014", "fio, CPU of the server's threads", undecided(NO_NIC)),
    ("datagrams (UD) cost a server no more than reliable connections (RC)",
     "A. Kalia et al., FaSST, OSDI 2016", "echo of 64 B, CPU of the server's threads", undecided(NO_NIC)),
    ("packet loss costs RoCE more than iWARP",
     "R. Mittal et al., Revisiting Network Support for RDMA, SIGCOMM 2018",
     "throughput with netem", undecided(NO_LOSS)),
]
