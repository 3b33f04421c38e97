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

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\d+(?:\.\d+)?)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {"counter": {""}, "gauge": {""}, "histogram": {"_bucket", "_count", "_sum"}}


def parse_labels(text):
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, text
        assert match[1] not in labels, text
        labels[match[1]] = match[2]
        at = match.end()
    return labels


def parse_openmetrics(text):
    """{family: (type, [(suffix, labels, value)])}; fails on what neither of Prometheus's parsers allows."""
    families, metadata, name = {}, None, None
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    for line in lines[:-2]:
        if line.startswith("# "):
            _, keyword, about, value = line.split(" ", 3)
            if about != name:
                assert about not in families, f"{about} is not in one piece"
                name, metadata = about, {}
            assert keyword not in metadata, line
            metadata[keyword] = value
            if keyword == "TYPE":
                assert value != "counter" or name.endswith("_total"), line
                families[name] = (value, [])
            else:
                assert keyword == "HELP", line
            assert name not in families or not families[name][1], f"{line}: after its samples"
            continue
        match = SAMPLE.fullmatch(line)
        assert match and match[1].startswith(name), line
        kind, samples = families[name]
        suffix = match[1][len(name) :]
        assert suffix in SUFFIXES[kind], line
        labels = parse_labels(match[2] or "")
        assert (suffix, labels) not in [s[:2] for s in samples], f"twice: {line}"
        samples.append((suffix, labels, float(match[3])))
    return families


def check_histogram(samples):
    """Cumulative buckets in order, the last of them +Inf and equal to _count."""
    series = {}
    for suffix, labels, value in samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        series.setdefault(key, {"_bucket": []})
        if suffix == "_bucket":
            series[key]["_bucket"].append((float(labels["le"]), value))
        else:
            series[key][suffix] = value
    for found in series.values():
        bounds = [bound for bound, _ in found["_bucket"]]
        counts = [count for _, count in found["_bucket"]]
        assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
        assert counts == sorted(counts) and counts[-1] == found["_count"]
        assert found["_sum"] >= 0


def test_openmetrics_is_well_formed_and_true(daemon):
    for engine in ENGINES:
        with daemon.connect(f"echo-{engine}") as s:
            for _ in range(20):
                echo(s, b"x" * 100)
        daemon.wait_closed(f"echo-{engine}")
    text = nbctl(daemon, "stats", "--openmetrics").stdout
    families = parse_openmetrics(text)
    for kind, samples in families.values():
        assert samples
        if kind == "histogram":
            check_histogram(samples)
    for engine in ENGINES:
        name = f"echo-{engine}"
        stats = daemon.stats(name)

        def value(family, suffix="", name=name):
            (found,) = [v for s, l, v in families[family][1] if (s, l["listener"]) == (suffix, name)]
            return found

        assert value("nbserved_operations_total") == stats["operations"]["echo"]["count"]
        assert value("nbserved_received_bytes_total") == stats["bytes_in"] == 2000
        assert value("nbserved_connections_accepted_total") == 1
        samples = stats["operations"]["echo"]["latency_ns"]["count"]
        assert value("nbserved_operation_latency_seconds", "_count") == samples


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


def test_openmetrics_tells_unavailable_from_idle(far):
    families = parse_openmetrics(nbctl(far, "stats", "--openmetrics").stdout)
    told = {}
    for name, (_, samples) in families.items():
        for _, labels, _ in samples:
            if "listener" in labels:
                told.setdefault(labels["listener"], set()).add(name)
    assert told["far"] == {"nbserved_listener_info"} < told["near"]
