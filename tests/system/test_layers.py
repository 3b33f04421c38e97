"""`nbctl compare --layers`: which layer the CPU time of a listener is spent in."""

import csv
import ctypes
import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import NBCTL, TIMEOUT, listener

CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
PR_CAPBSET_DROP = 24

# Asks and waits for the answer, so often that the listener uses some 0.1 s of CPU time however busy the machine is.
CLIENT = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for _ in range(4000):
    s.sendall(b"x" * 65536)
    got = 0
    while got < 65536:
        got += len(s.recv(65536))
"""


def compare(daemon, *arguments, **options):
    return subprocess.run(
        [str(NBCTL), "-s", str(daemon.control), "compare", "--layers", *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=4 * TIMEOUT,
        **options,
    )


LOAD = [sys.executable, "-S", "-c", CLIENT, "{host}", "{port}"]


def succeeded(done):
    """Skips the test where perf events cannot be had: in a container, or not as root."""
    if done.returncode == 126:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done


def test_the_layers_of_each_listener(start_daemon, tmp_path):
    daemon = start_daemon(listener("a", engine="epoll") + listener("b", engine="epoll", workers=2))
    saved = tmp_path / "rows"
    done = succeeded(compare(daemon, "--json", "--repeat", "3", "--save", saved, "--", *LOAD))
    (group,) = json.loads(done.stdout)["layers"]
    assert [row["listener"] for row in group["listeners"]] == ["a", "b"]
    for row in group["listeners"]:
        times = {name: layer["ns"] for name, layer in row["layers"].items()}
        assert sum(times.values()) == pytest.approx(row["cost"], rel=0.02)  # all CPU time is in a layer
        assert row["samples"] > 0 and sum(layer["share"] for layer in row["layers"].values()) == pytest.approx(1)
        assert times.get("tcp_ip", 0) + times.get("copying", 0) > 0, times
        assert set(row["layers"]) <= {
            "service", "engine", "store", "core", "system_calls", "io_uring", "epoll", "sockets", "tcp_ip", "netfilter",
            "network_device", "copying", "memory", "files", "block", "rdma", "scheduler", "other",
        }  # fmt: skip
        assert ("verdict" in row["layers"]["tcp_ip"]) == (row["listener"] == "b")
    rows = [json.loads(line) for line in saved.read_text().splitlines()]
    assert sum("layers" in row for row in rows) == 4  # the third round of each is not sampled
    table = subprocess.run([NBCTL, "compare", "--load", saved], capture_output=True, check=True, text=True).stdout
    for line in ("CPU per operation by layer", "TCP, UDP, IP", "vs 1st", "sampled", "lost"):
        assert line in table


def test_without_the_capability_it_says_what_to_do(start_daemon):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give up what root has")

    def drop():
        for capability in (CAP_SYS_ADMIN, CAP_PERFMON):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)

    with open("/proc/sys/kernel/perf_event_paranoid") as paranoid:
        if int(paranoid.read()) < 1:
            pytest.skip("kernel.perf_event_paranoid allows it to everybody")
    daemon = start_daemon(listener("a"))
    done = compare(daemon, "--", "false", preexec_fn=drop)
    assert done.returncode == 126 and not done.stdout
    assert "--layers: CPUs may not be sampled" in done.stderr and "kernel.perf_event_paranoid=0" in done.stderr
    assert "false" not in done.stderr  # nothing was run


def test_saved_rows_are_shown_without_a_measurement(tmp_path):
    done = subprocess.run([NBCTL, "compare", "--layers", "--load", tmp_path / "no"], capture_output=True, text=True)
    assert done.returncode == 2 and "--load shows saved rows" in done.stderr


HTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"


def stacks_in(path):
    """{chain: weight} of folded stacks, each line as flamegraph.pl takes it apart."""
    lines = [re.fullmatch(r"(\S.*) (\d+)", line) for line in path.read_text().splitlines()]
    assert lines and all(lines)
    return {line[1]: int(line[2]) for line in lines}


def test_stacks_pictures_and_csv(start_daemon, tmp_path):
    """What is saved of a run, and again of its saved rows: the page, folded stacks, flame graphs, CSV."""
    daemon = start_daemon(listener("a", engine="epoll") + listener("b", engine="epoll"))
    saved, page, folder = tmp_path / "rows", tmp_path / "page.html", tmp_path / "stacks"
    done = succeeded(compare(daemon, "--repeat", "1", "--save", saved, "--html", page, "--stacks", folder, "--label", "../x y",
                             "--csv", "--", *LOAD))  # fmt: skip
    assert f"2 listeners are in {folder}" in " ".join(done.stderr.split())
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["-.-x-y-a.folded", "-.-x-y-a.svg", "-.-x-y-b.folded", "-.-x-y-b.svg"]
    rows = {row["listener"]: row for row in map(json.loads, saved.read_text().splitlines())}
    (head, *lines) = csv.reader(io.StringIO(done.stdout))
    table = {line[head.index("listener")]: dict(zip(head, line)) for line in lines}
    for name, row in rows.items():
        stacks = stacks_in(folder / f"-.-x-y-{name}.folded")
        assert sum(stacks.values()) == sum(row["layers"]["weights"].values())
        assert any(";tcp_" in stack for stack in stacks)  # from the outermost on
        picture = ElementTree.parse(folder / f"-.-x-y-{name}.svg").getroot()
        assert picture.tag == f"{SVG}svg" and not list(picture.iter(f"{SVG}script"))
        assert any("(TCP, UDP, IP)" in title.text for title in picture.iter(f"{SVG}title"))
        costs = [float(table[name][key] or 0) for key in head if re.fullmatch(r"layer_[a-z_]+(?<!_change)(?<!_low)(?<!_high)", key)]
        assert sum(costs) == pytest.approx(float(table[name][table[name]["layers_figure"]]), rel=0.001)
    assert "interval" not in "".join(re.findall("<figcaption>[^<]*", page.read_text()))  # one round has none
    root = ElementTree.fromstring(page.read_text().removeprefix("<!DOCTYPE html>\n"))
    summaries = ["".join(summary.itertext()) for summary in root.iter(f"{HTML}summary")]
    flames = [summary.split(":")[0] for summary in summaries if summary.startswith("Flame")]
    assert flames == ["Flame graph of a", "Flame graph of b"]
    again = tmp_path / "again"
    done = subprocess.run([NBCTL, "compare", "--load", saved, "--stacks", again], capture_output=True, text=True, check=True)
    for name in names:
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_stacks_that_cannot_be_saved(tmp_path):
    def stacks(*arguments):
        return subprocess.run([NBCTL, "compare", *arguments], capture_output=True, text=True, check=False)

    done = stacks("--stacks", tmp_path / "x")
    assert done.returncode == 2 and "--stacks saves what --layers has sampled" in done.stderr
    row = tmp_path / "row"
    row.write_text('{"listener": "a", "count": 5, "listener_count": 5, "cpu_ns": 9}\n')
    done = stacks("--load", row, "--stacks", row)
    assert done.returncode == 2 and f"{row}: Not a directory" in done.stderr
    done = stacks("--load", row, "--stacks", tmp_path / "x/y")
    assert done.returncode == 2 and "No such file or directory" in done.stderr
    done = stacks("--load", row, "--stacks", tmp_path / "x")
    assert done.returncode == 8 and "no row has samples" in done.stderr and not list((tmp_path / "x").iterdir())
