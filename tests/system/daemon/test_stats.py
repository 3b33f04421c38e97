"""The statistics: exact, never decreasing, and the same for every reader."""

import contextlib
import itertools
import json
import re
import subprocess
import time

import nbd_client
import pytest
from conftest import TIMEOUT, listener, requires, wait_until
from traffic import Load, connect, echo, noise, receive
from varlink_client import stream

GET_STATS = "org.nbserved.Control.GetStats"
REQUESTS, BYTES = 300, 700
IDLE_SECONDS = 2


def operations(stats):
    (counted,) = stats["operations"].values()
    return counted


def cpu_ns(stats):
    return stats["cost"]["cpu_user_ns"] + stats["cost"]["cpu_system_ns"]


def from_nbctl(daemon, name):
    (stats,) = json.loads(daemon.nbctl("stats", name, "--json").stdout)["listeners"]
    return stats


def all_counted(stats):
    """The last reply may be here before it is counted there."""
    pool = stats["pool"]
    return stats["bytes_out"] == REQUESTS * BYTES and pool["free"] == pool["chunks"] and stats


def counters(value, path=""):
    """{path: number} of everything in a document that may only grow."""
    gauges = r"(free|chunks|open|workers|min|max|p\d.*|kernel_threads/count)$"
    if isinstance(value, dict):
        return {p: n for key, v in value.items() if key != "buckets" for p, n in counters(v, f"{path}/{key}").items()}
    return {path: value} if isinstance(value, int) and not re.search(gauges, path) else {}


# ---- Exact ----


def test_counters_are_exact(start_daemon, engine):
    """One request at a time: the counts are exact in every document while all is idle."""
    daemon = start_daemon(listener("echo", engine=engine))
    with daemon.connect("echo") as s:
        for i in range(REQUESTS):
            echo(s, noise(BYTES, i))
            if i % 10 == 0:  # its worker answers for it: what the client has received is counted
                (listed,) = daemon.call("ListConnections", listener="echo")["connections"]
                assert (listed["bytes_in"], listed["bytes_out"]) == ((i + 1) * BYTES, (i + 1) * BYTES)
                assert (listed["held_bytes"], listed["state"]) == (0, "open")
        for read in (daemon.stats, lambda name: from_nbctl(daemon, name)):
            stats = wait_until(lambda: all_counted(read("echo")), "all is counted")
            assert stats["bytes_in"] == stats["bytes_out"] == REQUESTS * BYTES
            assert operations(stats)["count"] == REQUESTS
            assert operations(stats)["errors"] == 0
            assert stats["connections"]["open"] == stats["connections"]["accepted"] == 1
        (listed,) = daemon.call("ListConnections", listener="echo")["connections"]
        assert listed["bytes_in"] == listed["bytes_out"] == REQUESTS * BYTES
        assert listed["held_bytes"] == 0
    daemon.wait_closed("echo")
    stats = daemon.stats("echo")
    assert stats["connections"]["closed"] == {
        "peer": 1, "reset": 0, "idle": 0, "protocol": 0, "overrun": 0, "drain": 0, "error": 0
    }
    shown = from_nbctl(daemon, "echo")
    del stats["cost"], shown["cost"]  # the daemon's main thread reads it now, and now again
    assert shown == stats


def test_counters_of_discard_are_exact(start_daemon, engine):
    daemon = start_daemon(listener("discard", service="discard", engine=engine))
    with daemon.connect("discard") as s:
        for i in range(100):
            s.sendall(noise(BYTES, i))
            wait_until(lambda: operations(daemon.stats("discard"))["count"] == i + 1, "it is received")
        stats = daemon.stats("discard")
    assert stats["bytes_in"] == 100 * BYTES
    assert operations(stats)["latency_ns"]["count"] <= 100
    daemon.wait_closed("discard")


def sums(documents):
    """The counters of several documents, added up."""
    total = {}
    for document in documents:
        for path, n in counters(document).items():
            total[path] = total.get(path, 0) + n
    return total


def test_workers_add_up_to_their_listener(start_daemon, engine):
    """Counters only grow: what the workers have in between lies between two documents of the listener."""
    daemon = start_daemon(listener("echo", engine=engine, workers=2) + listener("other", engine=engine))
    connections = [daemon.connect("echo") for _ in range(16)]  # the kernel spreads them
    for i, s in enumerate(connections):
        echo(s, noise(BYTES, i))
    before = daemon.stats("echo")
    (document,) = itertools.islice(stream(daemon.control, GET_STATS, {"listeners": ["echo"], "by_worker": True}), 1)
    after = daemon.stats("echo")
    workers = document["listeners"]
    assert [(w["name"], w["worker"], w["workers"]) for w in workers] == [("echo", 0, 1), ("echo", 1, 1)]
    assert {w.pop("since_ns") for w in workers} == {before["since_ns"]}
    assert sorted(tid for w in workers for tid in w["threads"]) == sorted(after["threads"])
    assert sum(w["connections"]["open"] for w in workers) == 16
    for w in workers:
        del w["worker"]
    low, high, seen = counters(before), counters(after), sums(workers)
    assert seen.keys() == low.keys() - {"/since_ns"} and len(seen) > 30
    gauges = {"/cost/batch_delay_ns"}  # the longest of all
    assert not {path: (low[path], n, high[path]) for path, n in seen.items()
                if path not in gauges and not low[path] <= n <= high[path]}
    assert seen["/bytes_in"] == 16 * BYTES and seen["/cost/cpu_system_ns"] + seen["/cost/cpu_user_ns"] > 0
    for s in connections:
        s.close()


def test_nbctl_has_a_row_for_each_worker(start_daemon):
    daemon = start_daemon(listener("echo", engine="epoll", workers=2) + listener("one", engine="epoll"))
    table = daemon.nbctl("stats", "--by-worker").stdout
    assert re.findall(r"^ *(\S+) +epoll ", table, re.M) == ["echo/0", "echo/1", "one/0"]
    rows = json.loads(daemon.nbctl("stats", "--by-worker", "--json", "one").stdout)["listeners"]
    assert [(row["name"], row["worker"]) for row in rows] == [("one", 0)]
    done = daemon.nbctl("stats", "--by-worker", "--openmetrics", check=False)
    assert done.returncode == 2 and "--openmetrics has no workers" in done.stdout


# ---- Under load ----


def test_counters_only_grow_and_the_cost_with_them(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine, workers=2))
    documents = []
    with Load(daemon.port("echo")):
        wait_until(lambda: operations(daemon.stats("echo"))["count"] > 1000, "load")
        for document in stream(daemon.control, GET_STATS, {"listeners": ["echo"], "interval_ms": 50}):
            documents.append(document)
            if len(documents) == 12:
                break
    for earlier, later in zip(documents, documents[1:]):
        assert later["uptime_ns"] > earlier["uptime_ns"]
        a, b = counters(earlier["listeners"][0]), counters(later["listeners"][0])
        assert a.keys() == b.keys() and len(a) > 30
        assert not {key: (a[key], b[key]) for key in a if b[key] < a[key]}
    first, last = (d["listeners"][0] for d in (documents[0], documents[-1]))
    assert last["cost"]["turns"] > first["cost"]["turns"]
    assert cpu_ns(last) > cpu_ns(first)  # the kernel knows the sum better than the parts
    assert operations(last)["count"] > operations(first)["count"]
    assert sum(last["cost"]["syscalls"].values()) > sum(first["cost"]["syscalls"].values())
    daemon.wait_closed("echo")


def test_histograms_add_up(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine, workers=2))
    with Load(daemon.port("echo")):
        wait_until(lambda: operations(daemon.stats("echo"))["latency_ns"]["count"] > 200, "samples")
    daemon.wait_closed("echo")
    counted = operations(daemon.stats("echo"))
    latency = counted["latency_ns"]
    assert 200 < latency["count"] <= counted["count"]
    bounds = [bound for bound, _ in latency["buckets"]]
    assert bounds == sorted(set(bounds))
    assert sum(n for _, n in latency["buckets"]) == latency["count"]
    order = ["min", "p50", "p90", "p99", "p99_9", "max"]
    assert [latency[key] for key in order] == sorted(latency[key] for key in order)
    assert latency["max"] <= bounds[-1]
    assert latency["count"] * latency["min"] <= latency["sum"] <= latency["count"] * latency["max"]
    for key, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        its_bucket = min(bound for bound in bounds if bound >= latency[key])
        below = sum(n for bound, n in latency["buckets"] if bound <= its_bucket)
        assert below >= share * latency["count"]


# ---- Compared with the kernel's counts ----


SYSTEM_CALLS = {
    "accept": ["accept4", "accept"],
    "recv": ["recvfrom", "recvmsg", "read"],
    "send": ["sendto", "sendmsg"],
    "epoll_wait": ["epoll_wait", "epoll_pwait", "epoll_pwait2"],
    "epoll_ctl": ["epoll_ctl"],
    "io_uring_enter": ["io_uring_enter"],
}


def thread_named(daemon, name):
    (found,) = [tid for tid, comm in daemon.threads().items() if comm == name]
    return found


@contextlib.contextmanager
def strace_of(tids, report):
    """A function for {system call: how many} of these threads meanwhile, once strace has ended."""
    command = [requires("strace"), "-c", "-U", "calls,name", "-o", str(report)]
    command += [word for tid in tids for word in ("-p", str(tid))]
    tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in tids:
        said = tracer.stderr.readline()
        if "attached" not in said:
            tracer.wait(TIMEOUT)
            pytest.skip(f"strace cannot attach: {said}")

    def seen():
        tracer.terminate()
        tracer.wait(TIMEOUT)
        rows = re.findall(r"^ *(\d+) +(\w+)$", report.read_text(), re.M)
        return {name: int(calls) for calls, name in rows if name != "total"}

    yield seen
    tracer.terminate()


def test_system_calls_are_those_that_strace_sees(start_daemon, engine, tmp_path):
    daemon = start_daemon(listener("echo", engine=engine))
    report = tmp_path / "report"
    with strace_of([thread_named(daemon, "echo/0")], report) as seen_by_strace:
        before = daemon.stats("echo")["cost"]["syscalls"]
        connections = [daemon.connect("echo") for _ in range(8)]
        for i in range(100):
            for s in connections:
                s.sendall(noise(500, i))
            for s in connections:
                assert receive(s, 500) == noise(500, i)
        for s in connections:
            s.close()
        daemon.wait_closed("echo")
        after = daemon.stats("echo")["cost"]["syscalls"]
        seen = seen_by_strace()
    for ours, names in SYSTEM_CALLS.items():
        counted = after[ours] - before[ours]
        traced = sum(seen.get(name, 0) for name in names)
        assert abs(counted - traced) <= 3 + traced * 0.02, (ours, counted, seen)
    total = sum(after.values()) - sum(before.values())
    assert abs(total - sum(seen.values())) <= 10 + sum(seen.values()) * 0.03, (total, seen)


# ---- Idle ----


def test_an_idle_daemon_does_nothing(start_daemon):
    """No turn, no context switch, no CPU time, with connections open and limits set."""
    names = ["epoll", "io_uring", "io_uring-poll"]
    daemon = start_daemon("".join(listener(name, engine=name, workers=2) for name in names)
                          + "".join(listener(f"timeout-{name}", engine=name, idle_timeout="1h") for name in names))
    connections = []
    for name in names + [f"timeout-{name}" for name in names]:
        for i in range(10):
            connections.append(connect(daemon.addresses(name)[0]))
            echo(connections[-1], noise(5000, i))

    def switches():  # a sanitizer has a thread of its own
        return {
            (tid, key): int(value)
            for tid, status in daemon.of_threads(lambda task: (task / "status").read_text()).items()
            if tid == daemon.pid or "/" in status.splitlines()[0]
            for key, value in re.findall(r"^(\w+_ctxt_switches):\s+(\d+)$", status, re.M)
        }

    def is_idle():
        before = switches()
        time.sleep(IDLE_SECONDS)  # the property is that nothing happens
        return switches() == before

    # On a busy machine the last turns take their time.
    wait_until(is_idle, "nothing happens")
    for s in connections:
        echo(s)
        s.close()
    for name in names:
        daemon.wait_closed(name)


def test_a_pool_of_threads_counts_all_its_system_calls(start_daemon, tmp_path):
    """Those to wait for its lock, to sleep and to wake, too; several requests at a time."""
    depth, rounds, block = 32, 100, 4096
    config = listener("nbd", service="nbd", exports="disk")
    config += f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 1M\nstore = threads\nthreads = 8\n"
    daemon = start_daemon(config)
    pool = [tid for tid, name in daemon.threads().items() if name.startswith(("nbd/0", "store-"))]
    assert len(pool) == 9
    with nbd_client.connect(daemon, "nbd") as client, strace_of(pool, tmp_path / "report") as seen_by_strace:
        before = daemon.stats("nbd")["cost"]["syscalls"]
        for _ in range(rounds):
            for i in range(depth):
                client.request(nbd_client.READ, i * block, block)
            for _ in range(depth):
                assert client.reply(block)[0] == 0
        after = daemon.stats("nbd")["cost"]["syscalls"]
        seen = seen_by_strace()
    counted, total = sum(after.values()) - sum(before.values()), sum(seen.values())
    assert seen["futex"] > rounds
    assert abs(counted - total) <= 30 + total * 0.02, (counted, after, seen)
