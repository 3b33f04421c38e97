"""`nbctl stats` against the real daemon: once, live, as OpenMetrics, and of listeners that are unavailable."""

import contextlib
import json
import re
import subprocess

import pytest
from conftest import ENGINES, NBBENCH, NBCTL, TIMEOUT, listener, rows_of
from nbctl_client import nbctl, nbctl_json
from traffic import echo

# ---- stats ----


def test_stats_of_the_named_listeners(daemon):
    with daemon.connect("echo-io_uring") as s:
        echo(s, b"x" * 1234)
    text = nbctl(daemon, "stats", "echo-io_uring").stdout
    (row,) = [line for line in text.splitlines() if line.startswith("echo-")]
    assert "1,234 B" in row or "1.23 kB" in row
    names = [l["name"] for l in nbctl_json(daemon, "stats", "echo-epoll")["listeners"]]
    assert names == ["echo-epoll"]


@contextlib.contextmanager
def watch(daemon, *arguments):
    """Lines as they come."""
    with subprocess.Popen([str(NBCTL), "-s", daemon.control, "stats", "--watch=0.05", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.terminate()


def test_an_interval_is_as_long_as_asked(daemon):
    """Longer than 32 bits of nanoseconds."""
    with daemon.connect("echo-epoll") as s, subprocess.Popen(
            [NBBENCH, "-s", daemon.control, "compare", "--json", "--", "sleep", "4.6"], stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            echo(s, b"x")
        (row,) = rows_of(json.loads(process.stdout.read()))
    assert row["interval_ns"] >= 4.3e9


def test_watch_prints_a_line_per_interval(daemon):
    with daemon.connect("echo-epoll") as s, watch(daemon, "echo-epoll") as process:
        echo(s, b"ping")
        header = process.stdout.readline() + process.stdout.readline()
        rows = [process.stdout.readline().split() for _ in range(5)]
    assert "listener" in header and "/s" in header
    for row in rows:
        assert re.fullmatch(r"\d\d:\d\d:\d\d", row[0])
        assert row[1:3] == ["echo-epoll", "1"]


def test_watch_with_json_prints_a_document_per_line(daemon):
    with watch(daemon, "--json") as process:
        documents = [json.loads(process.stdout.readline()) for _ in range(3)]
    uptimes = [d["uptime_ns"] for d in documents]
    assert uptimes == sorted(uptimes) and uptimes[0] < uptimes[2]


def test_watch_ends_with_3_when_the_daemon_ends(daemon):
    with watch(daemon) as process:
        process.stdout.readline()
        daemon.terminate()
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 3 and "closed the connection" in errors


# ---- OpenMetrics ----

def test_openmetrics_is_true(daemon):
    """That it is well-formed: test_monitoring.py, by Prometheus and promtool."""
    for engine in ENGINES:
        with daemon.connect(f"echo-{engine}") as s:
            for _ in range(20):
                echo(s, b"x" * 100)
        daemon.wait_closed(f"echo-{engine}")
    text = nbctl(daemon, "stats", "--openmetrics").stdout
    for name in (f"echo-{engine}" for engine in ENGINES):
        stats = daemon.stats(name)

        def value(family, name=name):
            (found,) = re.findall(rf'(?m)^nbserved_{family}{{listener="{name}",.*}} (\S+)$', text)
            return float(found)

        assert value("operations_total") == stats["operations"]["echo"]["count"]
        assert value("received_bytes_total") == stats["bytes_in"] == 2000
        assert value("connections_accepted_total") == 1
        assert value("operation_latency_seconds_count") == stats["operations"]["echo"]["latency_ns"]["count"]


# ---- A listener that is unavailable ----

WHY = "bind 192.0.2.77:7: Cannot assign requested address"  # TEST-NET-1 is nobody's


def words(text):
    return " ".join(text.split())


@pytest.fixture
def far(start_daemon):
    """`near` is idle, `far` is unavailable."""
    return start_daemon(listener("near") + listener("far", address="192.0.2.77:7", optional="yes"))


def assert_told(text):
    """Its state and no numbers; the other listener has numbers."""
    assert f"far: unavailable: {WHY}" in words(text)
    assert not re.search(r"(?m)^\W*far .*\d", text), text


def test_stats_tells_unavailable_from_idle(far):
    for words_given in ([], ["far"]):
        text = nbctl(far, "stats", *words_given).stdout
        assert "Unavailable: far (`nbctl status` says why)." in text
        assert not re.search(r"(?m)^\W*far .*\d", text), text
        assert words_given or re.search(r"(?m)^near +epoll +0 +0 ", text)
    text = words(nbctl(far, "status").stdout)
    assert f"far: unavailable: {WHY}" in text and "nbctl reload tries again what is unavailable" in text
    (document,) = nbctl_json(far, "stats", "far")["listeners"]
    assert document["state"] == "unavailable" and WHY in document["reason"]


def test_watch_tells_unavailable_from_idle(far):
    for names in ([], ["far"]):
        with watch(far, *names) as process:
            text = "".join(process.stdout.readline() for _ in range(3))
        assert "Unavailable: far" in text
        assert re.search(r"(?m)^\d\d:\d\d:\d\d  no operations$", text)


def test_watch_shows_active_and_named_listeners(daemon):
    for names, shown in ([], {"echo-epoll"}), (["echo-io_uring"], {"echo-io_uring"}):
        with daemon.connect("echo-epoll") as s, watch(daemon, *names) as process:
            seen = set()
            for _ in range(40):
                echo(s, b"x")
                line = process.stdout.readline()
                found = re.match(r"\d\d:\d\d:\d\d +(echo-\S+)", line)
                seen |= {found[1]} if found else set()
                if seen:
                    break
        assert seen == shown


def test_compare_tells_unavailable_from_idle(far):
    # It did nothing, as was to be expected, while a command ran: unless it was asked for.
    assert "far" not in nbctl(far, "compare", "--", "true").stdout
    assert_told(nbctl(far, "compare", "far", "--", "true").stdout)
