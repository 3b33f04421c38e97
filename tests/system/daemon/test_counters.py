"""Events that the kernel counts for workers (`[server] counters`): beside /proc, off, refused, and asked for in vain."""

import errno
import json
import os
import platform
import re
import subprocess

import pytest
from conftest import NBBENCH, NBSERVED, ROOT, TIMEOUT, listener, rows_of
from nbd_client import FUA, WRITE, connect
from seccomp import deny
from traffic import echo

NR_PERF_EVENT_OPEN = 298 if platform.machine() == "x86_64" else 241
GROUPS = "hardware", "misses", "software"
BYTES = 256 * 1024
FIRST_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO of linux/proc_ns.h


def server(counters):
    return f"[server]\ncounters = {counters}\n"


def perf_descriptors(daemon):
    return list(daemon.files().values()).count("anon_inode:[perf_event]")


def doctor_row(tmp_path, **options):
    path = tmp_path / "nbserved.ini"
    path.write_text(listener("echo", address="127.0.0.1:0"))
    out = subprocess.run([NBSERVED, "-c", path, "--doctor", "--json"], stdout=subprocess.PIPE, timeout=TIMEOUT, **options)
    (row,) = (check for check in json.loads(out.stdout)["checks"] if check["name"] == "counters")
    return row


@pytest.fixture
def granted(tmp_path):
    """What this host grants, as its doctor says."""
    return doctor_row(tmp_path)


def work_of(stats):
    """(CPU time, context switches) by /proc, and by the counters."""
    cost, counted = stats["cost"], stats["software"]
    cpu_ns = cost["cpu_user_ns"] + cost["cpu_system_ns"]
    switches = cost["context_switches_voluntary"] + cost["context_switches_involuntary"]
    return (cpu_ns, switches), (counted["task_clock_ns"], counted["context_switches"])


@pytest.mark.parametrize("store", ["io_uring", "threads"])
def test_what_is_counted_is_what_proc_says_of_the_same_threads(start_daemon, tmp_path, granted, store):
    """Writes of a file by a store: most of the work is that of its threads, or of the kernel's."""
    if "software" not in granted["value"]:
        pytest.skip("this process may not count: " + granted["reason"])
    export = f"[export disk]\nsize = 64M\nstore = {store}\npath = {tmp_path}/disk\ncreate = yes\n"
    if store == "io_uring" and os.readlink("/proc/self/ns/pid") != FIRST_PIDS:
        pytest.skip("in a container the kernel does not say whom its threads work for")
    daemon = start_daemon(server("auto") + export + listener("nbd", "nbd", engine="io_uring", exports="disk", workers=2))
    client = connect(daemon, "nbd")
    before = work_of(daemon.stats("nbd"))
    for i in range(200):
        client.request(WRITE, i * BYTES, BYTES, os.urandom(BYTES), FUA)
        assert client.reply() == (0, b"")
    stats = daemon.stats("nbd")
    threads = stats["threads"]
    assert len(threads) > 2, "the worker did it all"
    proc, counted = (tuple(b - a for a, b in zip(*pair)) for pair in zip(before, work_of(stats)))
    assert counted[1] == pytest.approx(proc[1], rel=0.02, abs=5)
    assert proc[0] / 3 < counted[0] < 1.05 * proc[0]  # CPU time has the switches themselves, the counters have not
    assert sum(row["software"]["context_switches"] for row in by_worker(daemon, "nbd")) >= counted[1]


def by_worker(daemon, name):
    return daemon.call("GetStats", listeners=[name], by_worker=True)["listeners"]


@pytest.mark.parametrize("config", ["", server("no")], ids=["default", "no"])
def test_no_counts_nothing_and_holds_no_descriptor(start_daemon, config):
    daemon = start_daemon(config + listener("echo"))
    assert perf_descriptors(daemon) == 0
    assert not set(GROUPS) & set(daemon.stats("echo"))


def test_auto_takes_what_it_gets(start_daemon, granted):
    daemon = start_daemon(server("auto") + listener("echo", workers=2))
    with daemon.connect("echo") as s:
        echo(s)
    stats = daemon.stats("echo")
    for group in GROUPS:
        assert (group in stats) == (group in granted["value"]), group
    assert all((perf_descriptors(daemon) > 0) == (granted["value"] != "none") for _ in range(2))


def test_yes_needs_all_of_it(start_daemon, tmp_path, granted):
    if granted["ok"]:
        assert start_daemon(server("yes") + listener("echo")).stats("echo")["hardware"]["kernel"] == 1
        return
    path = tmp_path / "nbserved.ini"
    path.write_text(server("yes") + f"control = {tmp_path}/s\n" + listener("echo", address="127.0.0.1:0"))
    done = subprocess.run([NBSERVED, "-c", path], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode and granted["reason"] in done.stderr and granted["fix"] in done.stderr


def test_a_filter_of_system_calls_is_named_and_costs_the_counters_alone(start_daemon, tmp_path):
    refuse = deny(NR_PERF_EVENT_OPEN, errno.EPERM)
    row = doctor_row(tmp_path, preexec_fn=refuse)
    assert (row["ok"], row["value"]) == (False, "none")
    assert "filter" in row["reason"] and "SystemCallFilter=" in row["fix"]
    daemon = start_daemon(server("auto") + listener("echo"), preexec=refuse)
    with daemon.connect("echo") as s:
        echo(s)
    assert not set(GROUPS) & set(daemon.stats("echo"))


# ---- A CPU that has counters: see counting.c ----


@pytest.fixture
def counting_cpu(tmp_path, granted):
    """The environment of such a CPU."""
    if "software" not in granted["value"]:
        pytest.skip("this process may not count: " + granted["reason"])
    library = tmp_path / "counting.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ROOT / "tests/system/counting.c", "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


@pytest.fixture
def counting_daemon(start_daemon, counting_cpu):
    return lambda listeners: start_daemon(server("yes") + listeners, env=counting_cpu)


@pytest.fixture
def counting(counting_daemon):
    daemon = counting_daemon(listener("echo", workers=2))
    with daemon.connect("echo") as s:
        for _ in range(100):
            echo(s)
    daemon.wait_closed("echo")
    return daemon


def test_every_view_has_what_the_cpu_counts(counting):
    hardware = counting.stats("echo")["hardware"]
    assert hardware["kernel"] == 1 and hardware["running_ns"] == hardware["enabled_ns"] > 0
    assert 0 < hardware["cycles"] <= hardware["enabled_ns"]
    titles, row = (line.split() for line in counting.nbctl("stats", env=dict(os.environ, COLUMNS="160")).stdout.splitlines()[:3:2])
    assert "instr" in titles and "IPC" in titles and any(re.fullmatch(r"0\.9\d|1\.0\d", cell) for cell in row)
    metrics = dict(line.rsplit(" ", 1) for line in counting.nbctl("stats", "--openmetrics").stdout.splitlines()
                   if not line.startswith("#"))
    labels = '{listener="echo",engine="epoll",service="echo"}'
    assert int(metrics["nbserved_cycles_total" + labels]) >= hardware["cycles"]
    assert {f"nbserved_{name}_total{labels}" for name in ("instructions", "cache_misses", "branch_misses", "page_faults")} <= set(metrics)
    assert metrics["nbserved_counters_kernel" + labels] == "1"


def test_a_comparison_has_them_for_its_interval(counting):
    """The load of the command is ours: it ends when that has been served."""
    client = f"import socket; s = socket.create_connection(('127.0.0.1', {counting.port('echo')})); " \
        "[(s.sendall(b'x'), s.recv(1)) for _ in range(500)]"
    done = subprocess.run([NBBENCH, "-s", counting.control, "compare", "--json", "--quiet", "echo", "--", "/usr/bin/python3", "-c", client],
                          stdout=subprocess.PIPE, timeout=TIMEOUT)
    (row,) = rows_of(json.loads(done.stdout))
    value = {name: row["values"][name]["median"] for name in
             ("instructions_per_operation", "cycles_per_operation", "instructions_per_cycle", "cpu_ns_per_operation")}
    assert value["instructions_per_cycle"] == pytest.approx(1, rel=0.02)
    assert 0 < value["cycles_per_operation"] < 1.05 * value["cpu_ns_per_operation"]


def test_a_comparison_judges_what_the_cpu_counts(counting_daemon):
    """A worker that spins between two requests takes many times the instructions of one that sleeps."""
    daemon = counting_daemon(listener("sleeps") + listener("spins", busy_poll="1ms"))
    client = "import socket, time; s = socket.create_connection(('127.0.0.1', {port})); " \
        "[(s.sendall(b'x'), s.recv(1), time.sleep(0.0005)) for _ in range(100)]"
    done = subprocess.run([NBBENCH, "-s", daemon.control, "compare", "--json", "--quiet", "--repeat", "7", "sleeps", "spins",
                           "--", "/usr/bin/python3", "-c", client], stdout=subprocess.PIPE, timeout=TIMEOUT)
    result = json.loads(done.stdout)
    (group,) = result["groups"]
    verdicts = group["rows"][1]["verdicts"]
    for what in "instructions", "cycles":
        assert group["figures"][what] == what + "_per_operation"
        assert verdicts[what]["is"] == "more" and verdicts[what]["low"] > 1, verdicts
    assert {"instructions", "cycles"} <= {finding["what"] for finding in result["findings"]}


def run_specs(*specs, env=None):
    client = "import socket; s = socket.create_connection(('127.0.0.1', {port})); s.sendall(b'x'); s.recv(1)"
    return subprocess.run([NBBENCH, "run", *specs, "--json", "--quiet", "--repeat", "1", "--", "/usr/bin/python3", "-c", client],
                          env=dict(os.environ, **env or {}), capture_output=True, text=True, timeout=TIMEOUT)


@pytest.mark.parametrize("key, counts", [(",counters=yes", "yes"), ("", None)])
def test_a_spec_switches_the_counters_on(counting_cpu, tmp_path, key, counts):
    """Saved rows tell, as counting has its cost."""
    saved = tmp_path / "rows"
    (row,) = rows_of(json.loads(run_specs("echo,engine=epoll" + key, "--save", saved, env=counting_cpu).stdout))
    assert bool(row["values"]["instructions_per_operation"]["median"]) == bool(counts)
    assert json.loads(saved.read_text())["conditions"]["listener"].get("counters") == counts


def test_specs_of_one_daemon_give_counters_once():
    done = run_specs("echo,counters=auto", "discard,counters=no")
    assert done.returncode and "counters" in done.stderr and not done.stdout
