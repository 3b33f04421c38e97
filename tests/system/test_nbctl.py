"""nbctl against the real daemon: what every command prints, its exit codes, its JSON."""

import contextlib
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import threading
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import ENGINES, NBCTL, NBSERVED, TIMEOUT, listener, requires, wait_until

# The arguments that each command needs; the last ones stop a listener and start it again.
COMMANDS = {
    "status": [],
    "stats": [],
    "compare": ["--interval", "0.05"],
    "connections": [],
    "config": [],
    "doctor": [],
    "log-level": ["info"],
    "drain": ["--all"],
    "resume": ["--all"],
}
NO_JSON = {"top", "metrics", "report", "bridge"}
CONFIG = "".join(listener(f"echo-{e}", engine=e) for e in ENGINES)


@pytest.fixture
def daemon(start_daemon):
    return start_daemon(CONFIG)


def nbctl(daemon, *arguments, **options):
    """Runs nbctl with its streams apart; socket: another one than the daemon's."""
    path = options.pop("socket", None) or daemon.control
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    environment.update(options.pop("env", {}))
    return subprocess.run(
        [str(NBCTL), "-s", path, *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT,
        env=environment,
        **options,
    )


def nbctl_json(daemon, *arguments):
    done = nbctl(daemon, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def echo(s, data):
    s.sendall(data)
    received = b""
    while len(received) < len(data):
        part = s.recv(65536)
        assert part
        received += part
    assert received == data


# ---- Every command ----


@pytest.mark.parametrize("command", COMMANDS)
def test_prints_and_exits_0(daemon, command):
    done = nbctl(daemon, command, *COMMANDS[command])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout or command == "log-level"
    assert "\033" not in done.stdout  # no colour into a pipe


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_document(daemon, command):
    assert isinstance(nbctl_json(daemon, command, *COMMANDS[command]), dict)


def test_help_of_every_command_has_its_options_and_an_example(daemon):
    commands = re.findall(r"(?m)^  ([a-z-]+) ", nbctl(daemon, "--help").stdout.split("\nOptions")[0])
    assert set(COMMANDS) | {"top", "metrics"} <= set(commands)
    for command in commands:
        done = nbctl(daemon, command, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"Usage: nbctl {command} [OPTION...]")
        assert ("--json" in done.stdout) == (command not in NO_JSON)
        # Options of its own are in one of the examples, if there are any.
        usage, examples = done.stdout.split("\nExample:\n")
        assert re.search(rf"(?m)^  nbctl {command}", examples), command
        own = re.findall(r"(?m)^      --([a-z-]+)", usage.split("Options:\n")[1].split("-s, --")[0])
        assert nbctl(daemon, command, "-h").stdout == done.stdout
        assert not own or any(f"--{option}" in examples for option in own), command
        assert all(len(line) <= 100 for line in done.stdout.splitlines()), command
        assert nbctl(daemon, "help", command).stdout == done.stdout


def test_help_of_what_is_no_command(daemon):
    done = nbctl(daemon, "help", "stat")
    assert done.returncode == 2 and "did you mean 'status'?" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_daemon_that_is_not_there_exits_3(daemon, command, tmp_path):
    path = str(tmp_path / "no.sock")
    done = nbctl(daemon, command, *COMMANDS[command], socket=path)
    assert done.returncode == 3
    assert path in done.stderr and "systemctl status nbserved" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_exits_2(daemon, command):
    done = nbctl(daemon, command, "--no-such-option")
    assert done.returncode == 2
    assert f"nbctl {command} --help" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_an_error(daemon, command):
    if command == "log-level":
        return  # prints nothing
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(NBCTL), "-s", daemon.control, command, *COMMANDS[command]],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    assert done.returncode == 2 and "not all could be written" in done.stderr


# ---- Usage ----


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "no command is given"),
        (["comparee"], "did you mean 'compare'?"),
        (["xyzzy"], "there is no command 'xyzzy'"),
        (["status", "extra"], "unexpected argument 'extra'"),
        (["log-level"], "log-level LEVEL"),
        (["log-level", "verbose"], "error, warning, info or debug"),
        (["drain", "a", "b"], "unexpected argument 'b'"),
        (["drain"], "expected a LISTENER or --all"),
        (["drain", "a", "--all"], "expected a LISTENER or --all"),
        (["resume"], "expected a LISTENER or --all"),
        (["stats", "--watch=never"], "expected seconds"),
        (["stats", "--watch=0.01"], "--watch: expected seconds, at least 0.05, got '0.01'"),
        (["stats", "--watch=0.01", "--json"], "at least 0.05"),
        (["top", "--json"], "top has no --json: see `nbctl stats --watch --json`"),
        (["--json", "metrics"], "metrics has no --json: see `nbctl stats --json`"),
        (["report", "x", "--json"], "report has no --json: see `nbctl compare --load FILE --json`"),
        (["stats", "--openmetrics", "--json"], "--openmetrics"),
        (["compare", "--interval", "-1"], "expected seconds"),
        (["compare", "--"], "no command after"),
        (["compare", "--interval", "1", "--", "true"], "run time"),
        (["compare", "--", "ssh", "c1", "redis-benchmark"], "ssh would run the generator on another host"),
        (["compare", "--", "/usr/bin/clush", "-w", "c[1-3]", "wrk"], "clush would run"),
        (["compare", "--quiet"], "after `--`"),
        (["compare", "--link", "25", "--", "true"], "--link: expected bits per second such as 25G or 100M, of one host"),
        (["compare", "--link", "G"], "--link: expected bits per second"),
        (["compare", "--link", "1e40G"], "--link: expected bits per second"),
        (["compare", "--load", "/nonexistent"], "No such file"),
        (["connections", "--sort", "byte"], "did you mean 'bytes'?"),
        (["connections", "--limit", "0"], "1 to 10000"),
    ],
)
def test_wrong_usage_exits_2_and_says_why(daemon, arguments, said):
    done = nbctl(daemon, *arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["stats"], ["drain"], ["resume"], ["compare", "--interval", "0.01"], ["connections", "--listener"]],
)
def test_an_unknown_listener_is_refused(daemon, arguments):
    done = nbctl(daemon, *arguments, "no-such")
    assert done.returncode == 1
    assert "there is no listener 'no-such'" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats"],
        ["stats", "--json"],
        ["stats", "--watch"],
        ["drain"],
        ["compare", "--interval", "0.01"],
        ["connections", "--listener"],
        ["compare", "--load", "ROWS"],
    ],
)
def test_a_listener_s_name_that_is_nearly_right_is_suggested(daemon, arguments, tmp_path):
    rows = tmp_path / "rows"
    if "ROWS" in arguments:
        rows.write_text('{"listener": "echo-epoll", "count": 1}\n')
        arguments = [*arguments[:-1], rows]
    done = nbctl(daemon, *arguments, "echo-epol")
    assert done.returncode == 1
    assert "nbctl: there is no listener 'echo-epol' (did you mean 'echo-epoll'?)\n" in done.stderr


@pytest.mark.parametrize("before", [[], ["stats"], ["top"]])
def test_version(daemon, before):
    for option in ("--version", "-V"):
        done = nbctl(daemon, *before, option)
        assert done.returncode == 0 and re.fullmatch(r"nbctl \d+\.\d+\.\d+\n", done.stdout)


def test_the_socket_may_come_from_the_environment(daemon):
    done = subprocess.run(
        [str(NBCTL), "status"],
        capture_output=True,
        env=dict(os.environ, NBSERVED_SOCKET=daemon.control),
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0


# ---- Unreachable ----


def test_a_stale_socket_exits_3(daemon, tmp_path):
    path = str(tmp_path / "stale.sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
    done = nbctl(daemon, "status", socket=path)
    assert done.returncode == 3 and "nothing listens there" in done.stderr


@contextlib.contextmanager
def answering(path, reply):
    """A program that is not nbserved, which answers one call on this socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()

        def answer():
            peer = s.accept()[0]
            peer.recv(4096)
            peer.sendall(reply)
            peer.close()

        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


def test_another_program_s_socket_exits_3(daemon, tmp_path):
    path = str(tmp_path / "other.sock")
    with answering(path, b"220 hello\r\n\0"):
        done = nbctl(daemon, "status", socket=path)
    assert done.returncode == 3 and "not nbserved's control socket" in done.stderr


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_hostile_answer_does_not_control_the_terminal(daemon, tmp_path, options):
    """ESC, CSI in C1, a bidirectional override: as an error, in its list, as names."""
    bad = "a\x1b[2J\x9b2J\u202eb"
    answers = [{"error": "org.nbserved.Control.Refused", "parameters": {"message": bad, "errors": [bad]}},
               {"error": f"org.nbserved.{bad}", "parameters": {}},
               {"parameters": {"listeners": [{"name": bad, "reason": bad, "state": bad}]}}]
    for number, answer in enumerate(answers):
        path = str(tmp_path / f"{number}.sock")
        with answering(path, json.dumps(answer, ensure_ascii=False).encode() + b"\0"):
            done = nbctl(daemon, "status", *options, socket=path)
        said = done.stdout + done.stderr
        assert "2J" in said and not re.search("[\x1b\x9b\u202e]", said), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_rights_exits_3_and_is_told_the_cure(daemon):
    def become_nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    os.chmod(daemon.directory, 0o755)
    nbctl_copy = shutil.copy(NBCTL, daemon.directory / "nbctl")  # the build may not be readable
    done = subprocess.run(
        [nbctl_copy, "-s", daemon.control, "status"],
        capture_output=True,
        text=True,
        preexec_fn=become_nobody,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 3 and "control-group" in done.stderr


# ---- status, config, doctor ----


def test_status_shows_each_listener(daemon):
    lines = nbctl(daemon, "status").stdout.splitlines()
    assert lines[0].startswith("nbserved ") and f"pid {daemon.pid}" in lines[0]
    for engine in ENGINES:
        (row,) = [line.split() for line in lines if line.startswith(f"echo-{engine} ")]
        assert row[1:4] == ["serving", "echo", engine]
        assert row[-1] == "127.0.0.1:%d" % daemon.port(f"echo-{engine}")


def test_config_says_where_values_came_from(daemon):
    text = nbctl(daemon, "config").stdout
    assert "[server]\n" in text
    for engine in ENGINES:
        assert re.search(rf"(?m)^\[listener echo-{engine}\] +; .*nbserved\.ini:\d+$", text)
    assert re.search(rf"(?m)^control = {re.escape(daemon.control)} +; .*nbserved\.ini:\d+", text)
    assert re.search(r"(?m)^drain-timeout = 30s +; default, live$", text)


def test_doctor_gives_a_verdict_for_each_listener(daemon):
    text = nbctl(daemon, "doctor").stdout
    assert re.search(r"(?m)^ok +kernel ", text)
    for engine in ENGINES:
        assert re.search(rf"(?m)^(ok|no) +listener +echo-{engine} ", text)
    assert re.search("(?m)^ok +lo +loopback, virtual: there is no card to look at$", text)


@pytest.mark.parametrize(("option", "command"), [("--dump-config", "config"), ("--doctor", "doctor")])
def test_the_daemon_and_its_option_print_the_same(daemon, option, command):
    """Word for word, and as JSON; but for the limit of descriptors, which the daemon raises."""

    def known(text):
        return re.sub(r"(nofile\W.*?)\d+", r"\1N", text, flags=re.S)

    for form in ((), ("--json",)):
        done = subprocess.run([NBSERVED, "-c", daemon.config_path, option, *form],
                              capture_output=True, text=True, timeout=TIMEOUT, check=True)
        if form:
            assert json.loads(known(done.stdout)) == json.loads(known(nbctl(daemon, command, *form).stdout))
        else:
            assert known(done.stdout) == known(nbctl(daemon, command).stdout)


def test_a_configuration_that_is_shown_can_be_used(daemon, tmp_path):
    (tmp_path / "again.ini").write_text(nbctl(daemon, "config").stdout)
    done = subprocess.run([NBSERVED, "-c", tmp_path / "again.ini", "--check-config"],
                          capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr


# ---- log-level, drain ----


def test_log_level_takes_what_its_help_lists(daemon):
    help_text = nbctl(daemon, "log-level", "--help").stdout
    levels = re.search(r"`log-level`: ([a-z, ]+)\.", help_text)[1].split(", ")
    assert levels == ["error", "warning", "info", "debug"]
    for level in levels:
        done = nbctl(daemon, "log-level", level)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert f", log level {level}\n" in nbctl(daemon, "status").stdout
        assert re.search(rf"(?m)^log-level = {level} +; nbctl log-level, live$",
                         nbctl(daemon, "config").stdout)
    assert "nbctl log-level: [server] log-level: debug -> " in nbctl(daemon, "reload").stdout


def test_drain_of_one_listener_leaves_the_others(daemon):
    done = nbctl(daemon, "drain", "echo-epoll")
    assert done.returncode == 0 and "Draining: echo-epoll." in done.stdout
    wait_until(lambda: daemon.status("echo-epoll")["state"] == "drained", "drained")
    assert re.search(r"(?m)^echo-epoll +drained ", nbctl(daemon, "status").stdout)
    with daemon.connect("echo-io_uring") as s:
        echo(s, b"still here")
    assert nbctl(daemon, "drain", "echo-epoll").stdout == "Nothing to drain.\n"


# ---- connections ----


def test_connections_are_listed(daemon):
    assert nbctl(daemon, "connections").stdout == "No connections.\n"
    with daemon.connect("echo-epoll") as a, daemon.connect("echo-io_uring") as b:
        echo(a, b"x" * 10)
        echo(b, b"y" * 5000)
        reply = nbctl_json(daemon, "connections", "--sort", "bytes")
        assert [c["listener"] for c in reply["connections"]] == ["echo-io_uring", "echo-epoll"]
        assert [c["bytes_in"] for c in reply["connections"]] == [5000, 10]
        assert reply["connections"][0]["peer"] == "127.0.0.1:%d" % b.getsockname()[1]
        lines = nbctl(daemon, "connections", "--listener", "echo-epoll").stdout.splitlines()
        assert len(lines) == 2 and lines[1].startswith("echo-epoll ")


def test_sorting_sees_more_connections_than_are_shown(daemon):
    oldest = daemon.connect("echo-epoll")  # the daemon lists the newest first
    others = [daemon.connect("echo-epoll") for _ in range(150)]
    echo(oldest, b"busy" * 1000)
    wait_until(lambda: daemon.stats("echo-epoll")["connections"]["open"] == 151, "all accepted")
    (first,) = nbctl_json(daemon, "connections", "--sort", "bytes", "--limit", "1")["connections"]
    assert first["bytes_in"] == 4000
    lines = nbctl(daemon, "connections").stdout.splitlines()
    assert len(lines) == 102 and lines[-1] == "100 of 151"
    for s in [oldest, *others]:
        s.close()


# ---- stats ----


def test_stats_of_the_named_listeners(daemon):
    with daemon.connect("echo-io_uring") as s:
        echo(s, b"x" * 1234)
    text = nbctl(daemon, "stats", "echo-io_uring").stdout
    (row,) = [line for line in text.splitlines() if line.startswith("echo-")]
    assert "1,234 B" in row or "1.23 kB" in row
    names = [l["name"] for l in nbctl_json(daemon, "stats", "echo-epoll")["listeners"]]
    assert names == ["echo-epoll"]


def watch(daemon, *arguments):
    """Lines as they come; the caller ends it."""
    return subprocess.Popen(
        [str(NBCTL), "-s", daemon.control, "stats", "echo-epoll", "--watch=0.05", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    process.stdout.close()
    process.terminate()
    process.wait(TIMEOUT)


def test_an_interval_is_as_long_as_asked(daemon):
    """Longer than 32 bits of nanoseconds."""
    rows = nbctl_json(daemon, "compare", "--interval", "4.3")["rows"]
    assert rows and all(row["interval_ns"] >= 4.3e9 for row in rows)


def test_watch_prints_a_line_per_interval(daemon):
    with daemon.connect("echo-epoll") as s:
        echo(s, b"ping")
        process = watch(daemon)
        header = process.stdout.readline() + process.stdout.readline()
        rows = [process.stdout.readline().split() for _ in range(5)]
        end(process)
    assert "listener" in header and "/s" in header
    for row in rows:
        assert re.fullmatch(r"\d\d:\d\d:\d\d", row[0])
        assert row[1:3] == ["echo-epoll", "1"]


def test_watch_with_json_prints_a_document_per_line(daemon):
    process = watch(daemon, "--json")
    documents = [json.loads(process.stdout.readline()) for _ in range(3)]
    end(process)
    uptimes = [d["uptime_ns"] for d in documents]
    assert uptimes == sorted(uptimes) and uptimes[0] < uptimes[2]


def test_watch_ends_with_3_when_the_daemon_ends(daemon):
    process = watch(daemon)
    process.stdout.readline()
    daemon.terminate()
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 3 and "closed the connection" in errors


# ---- OpenMetrics ----

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\d+(?:\.\d+)?)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {
    "counter": {""},
    "gauge": {""},
    "histogram": {"_bucket", "_count", "_sum"},
}


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


# ---- compare ----


def redis_benchmark(daemon, name, requests=2000, connections=10):
    return [
        requires("redis-benchmark"), "-p", str(daemon.port(name)), "-t", "ping_mbulk",
        "-n", str(requests), "-c", str(connections), "-q",
    ]  # fmt: skip


@contextlib.contextmanager
def measuring(daemon, *names):
    """The rows of `compare` for what the context does, in a list that is filled at its end."""
    rows = []
    with subprocess.Popen(
        [str(NBCTL), "-s", daemon.control, "compare", "--json", *names, "--"]
        + ["sh", "-c", "echo ready >&2; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr.readline() == b"ready\n"
        yield rows
        rows += json.loads(process.communicate(timeout=TIMEOUT)[0])["rows"]


def test_compare_measures_a_command(daemon):
    load = redis_benchmark(daemon, "echo-io_uring")
    done = nbctl(daemon, "compare", "--json", "--quiet", "--label", "x", "--", *load)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]  # the others did nothing
    assert (row["listener"], row["label"], row["service"]) == ("echo-io_uring", "x", "echo")
    assert row["bytes_in"] == row["bytes_out"] >= 2000 * len("*1\r\n$4\r\nPING\r\n")
    assert 0 < row["count"] <= 2000 + 10 and row["cpu_ns"] > 0
    assert 0 < row["latency_ns"]["count"] <= row["count"]
    derived = row["derived"]
    assert derived["operations_per_s"] == pytest.approx(row["count"] / row["interval_ns"] * 1e9)
    assert derived["cpu_ns_per_operation"] == pytest.approx(row["cpu_ns"] / row["count"])
    known = [derived[key] for key in ("p50_ns", "p99_ns", "p99_9_ns") if derived[key] is not None]
    assert known == sorted(known)


def test_compare_shows_a_command_s_output_unless_quiet(daemon):
    load = redis_benchmark(daemon, "echo-epoll", requests=200)
    loud = nbctl(daemon, "compare", "--", *load).stdout
    quiet = nbctl(daemon, "compare", "--quiet", "--", *load).stdout
    assert "requests per second" in loud and "requests per second" not in quiet
    for text in (loud, quiet):
        assert re.search(r"(?m)^  echo-epoll +[\d,.]+ ", text)


def test_compare_of_a_failing_command_has_its_exit_status_and_shows_its_output(daemon, tmp_path):
    done = nbctl(daemon, "compare", "--quiet", "--", "sh", "-c", "echo oops; exit 7")
    assert done.returncode == 7
    assert "oops" in done.stderr and "exit status 7" in done.stderr
    done = nbctl(daemon, "compare", "--quiet", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 128 + 9 and "signal 9" in done.stderr
    done = nbctl(daemon, "compare", "--", "/nonexistent/command")
    assert done.returncode == 127 and "cannot run /nonexistent/command: No such" in done.stderr
    done = nbctl(daemon, "compare", "--", tmp_path)
    assert done.returncode == 126 and f"cannot run {tmp_path}: " in done.stderr


def test_compare_that_cannot_save_does_not_run_the_command(daemon, tmp_path):
    ran = tmp_path / "ran"
    rows = tmp_path / "no-such" / "rows"
    done = nbctl(daemon, "compare", "--save", rows, "--", "touch", ran)
    assert done.returncode == 2 and f"{rows}: No such file or directory" in done.stderr
    assert not ran.exists()
    with daemon.connect("echo-epoll"):
        command = ["sh", "-c", f"touch {ran}; exit 0"]
        done = nbctl(daemon, "compare", "--save", "/dev/full", "echo-epoll", "--", *command)
    assert done.returncode == 8 and ran.exists()  # there was nothing to write


def test_compare_prints_null_for_unknown_figures(daemon):
    with daemon.connect("echo-epoll") as s:
        with measuring(daemon, "echo-epoll", "echo-io_uring") as rows:
            echo(s, b"x")
            echo(s, b"x")
    some, none = (row["derived"] for row in rows)
    # Two operations, and so at most two samples: no 99th percentile.
    assert some["p99_ns"] is None and some["p99_9_ns"] is None
    assert some["operations_per_s"] > 0 and some["cpu_ns_per_operation"] is not None
    for key in ("p50_ns", "cpu_ns_per_operation", "cpu_ns_per_byte", "syscalls_per_operation"):
        assert none[key] is None, key
    assert none["operations_per_s"] == 0 and none["bytes_per_s"] == 0


def test_saved_rows_are_added_up_and_compared_without_a_daemon(daemon, tmp_path):
    rows = tmp_path / "rows.jsonl"
    for name in ("echo-epoll", "echo-io_uring", "echo-io_uring", "echo-epoll"):
        load = redis_benchmark(daemon, name, requests=500)
        done = nbctl(
            daemon, "compare", "--quiet", "--label", "10 conn", "--save", rows, "--", *load
        )
        assert done.returncode == 0, done.stderr
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    assert len(saved) == 4
    nowhere = str(tmp_path / "no.sock")
    done = nbctl(daemon, "compare", "--load", rows, "--json", socket=nowhere)
    assert done.returncode == 0, done.stderr
    loaded = {row["listener"]: row for row in json.loads(done.stdout)["rows"]}
    assert list(loaded) == ["echo-epoll", "echo-io_uring"]
    for name, row in loaded.items():
        for key in ("count", "cpu_ns", "bytes_in", "syscalls", "interval_ns"):
            assert row[key] == sum(s[key] for s in saved if s["listener"] == name)
    text = nbctl(daemon, "compare", "--load", rows, socket=nowhere).stdout
    assert "echo: 10 conn\n" in text and "too few rounds: 0 of 6" in text  # other runs, other times
    # Named listeners, in the order of the names: the first is the baseline.
    done = nbctl(daemon, "compare", "--load", rows, "echo-io_uring", "echo-epoll", socket=nowhere)
    first = done.stdout.split("echo: 10 conn\n")[1].split()[0]
    assert first == "echo-io_uring"
    assert nbctl(daemon, "compare", "--load", rows, "no-such", socket=nowhere).returncode == 1


def test_compare_visits_one_listener_after_the_other(daemon, tmp_path):
    """In an order that changes from round to round; each visit is a row of the file."""
    rows = tmp_path / "rows.jsonl"
    names = ["echo-epoll", "echo-io_uring", "echo-io_uring-poll"]
    load = [requires("redis-benchmark"), "-p", "{port}", "-h", "{host}", "-t", "set", "-n", "300"]
    done = nbctl(daemon, "compare", "--repeat", "3", "--save", rows, *names, "--", *load, "--csv")
    assert done.returncode == 0, done.stderr
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["listener"] for row in saved] == [name for name in names for _ in range(3)]
    for row in saved:
        assert row["generator"]["name"] == "redis-benchmark"
        assert row["generator"]["requests"] == 300 and row["generator"]["requests_per_s"] > 0
        assert row["cpu_user_ns"] + row["cpu_system_ns"] == row["cpu_ns"]
        assert row["machine"]["total_ns"] > 0
    assert '"SET"' not in done.stdout  # understood output is in the rows
    assert re.search(r"reqs .*CPU/req", done.stdout)
    loaded = nbctl(daemon, "compare", "--load", rows, "--json")
    for row in json.loads(loaded.stdout)["rows"]:
        per_request = row["derived"]["cpu_ns_per_request"]
        low, high = row["derived"]["spread"]["cpu_ns_per_request"]
        assert row["derived"]["visits"] == 3 and low <= per_request <= high


def test_each_second_round_goes_backwards(daemon, tmp_path):
    log = tmp_path / "log"
    command = ["sh", "-c", f"echo {{listener}} {{uri}} >>{log}; echo said {{port}}"]
    done = nbctl(daemon, "compare", "--repeat", "2", "echo-epoll", "echo-io_uring", "--", *command)
    assert done.returncode == 8, done.stderr  # nothing was measured
    visits = [line.split() for line in log.read_text().splitlines()]
    names = [name for name, _ in visits]
    assert sorted(names[:2]) == ["echo-epoll", "echo-io_uring"] and names[2:] == names[1::-1]
    for name, uri in visits:
        assert uri == f"tcp://127.0.0.1:{daemon.port(name)}/"
        assert f"{name}: said {daemon.port(name)}\n" in done.stdout  # no parser understands it


def test_compare_asks_which_listeners_if_they_differ(start_daemon):
    daemon = start_daemon(listener("echo") + listener("discard", service="discard"))
    done = nbctl(daemon, "compare", "--", "true", "{port}")
    assert done.returncode == 2 and "name those that COMMAND is to visit" in done.stderr
    done = nbctl(daemon, "compare", "no-such", "--", "true", "{port}")
    assert done.returncode == 1 and "there is no listener 'no-such'" in done.stderr


def test_rounds_are_made_until_the_time_is_over(daemon, tmp_path):
    """No fewer rounds than can decide; the output says how many were made, and each visit its number."""
    rows = tmp_path / "rows"
    load = [requires("redis-benchmark"), "-p", "{port}", "-t", "set", "-n", "300", "-q"]
    names = ["echo-epoll", "echo-io_uring"]
    done = nbctl(daemon, "compare", "--time", "1ms", "--within", "0.1", "--save", rows, *names, "--", *load)
    assert done.returncode == 0, done.stderr
    assert "6 rounds in" in done.stdout and "the limit of --time" in done.stdout
    assert "they would if COMMAND took less than" in done.stderr
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    for name in names:
        assert [row["visit"]["round"] for row in saved if row["listener"] == name] == [1, 2, 3, 4, 5, 6]
    assert len({row["visit"]["run"] for row in saved}) == 1
    assert len({(row["visit"]["round"], row["visit"]["position"]) for row in saved}) == 12
    (build,) = {row["visit"]["build"] for row in saved}
    assert re.fullmatch(r"[0-9a-f]{16,64}", build)
    assert len({row["visit"]["setup"] for row in saved}) == 2  # the listeners' keys differ
    done = nbctl(daemon, "compare", "--time", "1", "--repeat", "2", *names, "--", *load)
    assert done.returncode == 2 and "leave out --repeat" in done.stderr


def write_runs(path, saved, runs, factor, spread=0.001):
    """The saved row, as of several other runs, with `factor` of its CPU time, each by `spread` more than the last."""
    with path.open("w") as out:
        for run in range(runs):
            row = {**saved, "cpu_ns": int(saved["cpu_ns"] * factor * (1 + run * spread))}
            print(json.dumps({**row, "visit": {**saved["visit"], "run": f"{factor} {run}"}}), file=out)


def test_the_gate_tells_worse_from_undecided_and_not_comparable(daemon, tmp_path):
    rows, old, new = tmp_path / "rows", tmp_path / "old", tmp_path / "new"
    load = redis_benchmark(daemon, "echo-epoll", requests=500)
    done = nbctl(daemon, "compare", "--quiet", "--save", rows, "--against", "/dev/null", "--", *load)
    said = " ".join(done.stdout.split())
    assert done.returncode == 7 and "no saved row" in said and "1 not comparable" in said and "No change is known" not in said
    (saved,) = [json.loads(line) for line in rows.read_text().splitlines()]

    def gate(*options):
        done = nbctl(daemon, "compare", "--load", new, "--against", old, *options)
        return done.returncode, " ".join(done.stdout.split())

    write_runs(old, saved, 5, 1)
    write_runs(new, saved, 5, 1.1)
    code, text = gate()
    assert code == 5 and "1 of 1 are worse, 0 better" in text
    assert re.search(r"echo-epoll [\d.]+ [\d.]+ \+10 % [\d.]+ to 1\d % more", text), text
    assert gate("--within", "20")[0] == 0
    write_runs(new, saved, 5, 0.5)
    code, text = gate()
    assert code == 0 and "0 of 1 are worse, 1 better" in text and " % less No change is known" in text
    document = json.loads(nbctl(daemon, "compare", "--load", new, "--against", old, "--json").stdout)
    (row,) = document["against"]["rows"]
    assert row["now"] / row["then"] - 1 == pytest.approx(row["change"], abs=0.01) == pytest.approx(-0.5, abs=0.01)
    assert row["low"] < row["change"] < row["high"] < 0 and row["is"] == "less" and row["runs_then"] == 5
    assert document["against"]["gate"] == row["gate"] == "passed" and document["against"]["changed"] == []
    write_runs(new, saved, 5, 0.97, 0.03)
    code, text = gate()
    assert code == 6 and "1 undecided" in text, text
    assert gate("--undecided", "fail")[0] == 6
    junit = tmp_path / "junit.xml"
    code, text = gate("--undecided=pass", "--junit", junit)
    assert code == 0 and "1 undecided" in text
    (case,) = ElementTree.parse(junit).iter("testcase")
    assert [child.tag for child in case] == ["system-out"]
    write_runs(new, saved, 4, 1.1)
    code, text = gate("--undecided=pass")
    assert code == 7 and "too few runs: 4 now, 5 then, of 5" in text
    saved["visit"]["setup"] = "another"
    saved["conditions"]["host"]["kernel"] = "Linux 99"
    saved["conditions"]["host"]["cpu_flags"] += " warp"
    write_runs(new, saved, 5, 1.001)
    code, text = gate()
    assert code == 7 and "--force judges them" in text and re.search(r"Changed: kernel: .* -> Linux 99 ", text)
    assert "Changed: CPU flags: - -> warp " in text
    assert gate("--force")[0] == 0
    done = nbctl(daemon, "compare", "--load", new, "--against", new)
    assert done.returncode == 7  # of itself
    saved["listener"] = "renamed"
    write_runs(new, saved, 5, 1)
    code, text = gate()
    assert code == 7 and "renamed" in text and "no saved row" in text


def test_an_empty_comparison_is_no_success(daemon, tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("")
    done = nbctl(daemon, "compare", "--load", empty)
    assert done.returncode == 8 and "No operations" in done.stdout
    assert nbctl(daemon, "compare", "--load", empty, "--json").returncode == 8
    assert nbctl(daemon, "compare", "--load", empty, "--against", empty).returncode == 7


def test_limits_decide_the_exit_status_and_junit_tells_each(daemon, tmp_path):
    rows, old, new, junit = (tmp_path / name for name in ("rows", "old", "new", "junit.xml"))
    load = redis_benchmark(daemon, "echo-epoll", requests=500)
    options = ["compare", "--quiet", "--repeat", "8", "--save", rows, "--junit", junit, "--fail-if", "cost>1s"]
    done = nbctl(daemon, *options, "--", *load)
    assert done.returncode == 0 and "of 1 row and limit 1 passed" in done.stdout, done.stdout
    (case,) = ElementTree.parse(junit).iter("testcase")
    assert (case.get("classname"), case.get("name")) == ("echo", "echo-epoll: cost>1s")
    assert [child.tag for child in case] == ["system-out"] and "from the limit" in case[0].text

    def limited(*limits):
        more = [word for limit in limits for word in ("--fail-if", limit)]
        done = nbctl(daemon, "compare", "--load", rows, "--junit", junit, *more)
        suite = ElementTree.parse(junit).getroot()[0]
        assert int(suite.get("tests")) == len(list(suite.iter("testcase")))
        return done.returncode, [child.get("type") for child in suite.findall("*/*")]

    assert limited("cost>1ns") == (5, ["worse"])
    assert limited("trip99<1ns") in ((0, [None]), (7, ["not_comparable"]))
    assert limited("p99.99>1ns", "cost>1ns") == (5, ["not_comparable", "worse"])  # worse goes first
    assert limited("p99.99>1ns", "cost>1s") == (7, ["not_comparable", None])
    assert limited("cost>1.1*first") == (7, ["not_comparable"])  # there is no other row
    done = nbctl(daemon, "compare", "--load", rows, "--json", "--fail-if", "rate<1G")
    assert done.returncode == 5
    (limit,) = json.loads(done.stdout)["limits"]
    assert limit["is"] == "failed" and limit["figure"] == "requests_per_s" and limit["high"] < 0
    saved = json.loads(rows.read_text().splitlines()[0])
    write_runs(old, saved, 5, 1)
    write_runs(new, saved, 5, 2)
    done = nbctl(daemon, "compare", "--load", new, "--against", old, "--junit", junit, "--fail-if", "cost>1s")
    assert done.returncode == 5 and "passed" in done.stdout
    limit, against = ElementTree.parse(junit).iter("testcase")
    assert against[0].tag == "failure" and against.get("name") == "echo-epoll: against the saved rows"


def test_junit_of_a_command_that_fails_has_its_status(daemon, tmp_path):
    junit = tmp_path / "junit.xml"
    junit.write_text("of the run before")
    done = nbctl(daemon, "compare", "--junit", junit, "--fail-if", "cost>1s", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    suite = ElementTree.parse(junit).getroot()[0]
    assert "exit status 3" in [error.get("message") for error in suite.iter("error")]
    for wrong, said in ((["--fail-if", "p98>1us"], "there is no figure 'p98'; there are cost, rate, p50"),
                        (["--fail-if", "p99>200"], "comes a time with its unit, such as 200us"),
                        (["--junit", junit], "--junit is about --fail-if"),
                        (["--undecided", "pass"], "--undecided is about --fail-if"),
                        (["--fail-if", "cost>1s", "--undecided", "no"], "expected pass or fail, got 'no'")):  # fmt: skip
        done = nbctl(daemon, "compare", *wrong)
        assert done.returncode == 2 and said in done.stderr


def test_compare_in_other_forms(daemon):
    with daemon.connect("echo-epoll") as s:
        echo(s, b"x")
    load = redis_benchmark(daemon, "echo-epoll", requests=500)
    done = nbctl(daemon, "compare", "--quiet", "--csv", "--", *load)
    titles, values = done.stdout.splitlines()
    row = dict(zip(titles.split(","), values.split(","), strict=True))
    assert (row["listener"], row["visits"]) == ("echo-epoll", "1")
    assert float(row["cpu_ns_per_request"]) > 0
    done = nbctl(daemon, "compare", "--quiet", "--markdown", "--notes", "--", *load)
    assert "p50 us: the median latency in the server" in done.stdout
    done = nbctl(daemon, "compare", "--quiet", "--markdown", "--", *load)
    lines = done.stdout[done.stdout.index("**echo**") :].splitlines()  # conditions are above
    assert lines[0] == "**echo**" and lines[2].startswith("| listener | reqs /s |")
    assert lines[4].startswith("| echo-epoll | ") and "p50 us:" not in done.stdout
    done = nbctl(daemon, "compare", "--csv", "--json")
    assert done.returncode == 2 and "one of --csv, --markdown and --json" in done.stderr


def test_a_file_without_valid_rows_exits_2_with_its_line(daemon, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('\n{"listener": 1}\n')
    done = nbctl(daemon, "compare", "--load", rows)
    assert done.returncode == 2 and f"{rows}:2:" in done.stderr


def test_compare_counts_a_replaced_listener_from_its_start(daemon):
    """Its counters began at zero: nothing of the listener before it may be subtracted."""
    with daemon.connect("echo-epoll") as s:
        for _ in range(100):
            echo(s, b"x" * 1000)
    config = daemon.config_path.read_text()
    replaced = config.replace("[listener echo-epoll]\n", "[listener echo-epoll]\nbuffers = 512\n")
    assert replaced != config
    with measuring(daemon, "echo-epoll") as rows:
        daemon.config_path.write_text(replaced)
        daemon.call("Reload")
        with daemon.connect("echo-epoll") as s:
            for _ in range(300):
                echo(s, b"x")
    (row,) = rows
    assert (row["count"], row["listener_count"]) == (300, 300)
    assert (row["bytes_in"], row["bytes_out"]) == (300, 300)
    assert row["syscalls"] >= 600


def test_compare_says_which_listeners_did_nothing(daemon):
    text = nbctl(daemon, "compare", "--interval", "10ms").stdout
    assert "No operations in the interval: echo-epoll, echo-io_uring, echo-io_uring-poll" in text


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
    assert f"far: unavailable: {WHY}" in words(nbctl(far, "status").stdout)
    (document,) = nbctl_json(far, "stats", "far")["listeners"]
    assert document["state"] == "unavailable" and WHY in document["reason"]


def test_watch_tells_unavailable_from_idle(far):
    for names in ([], ["far"]):
        with subprocess.Popen(
            [str(NBCTL), "-s", far.control, "stats", *names, "--watch=0.05"],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            text = "".join(process.stdout.readline() for _ in range(3))
            process.terminate()
        assert "Unavailable: far" in text
        assert re.search(r"(?m)^\d\d:\d\d:\d\d  no operations$", text)


def test_watch_shows_active_and_named_listeners(daemon):
    for names, shown in ([], {"echo-epoll"}), (["echo-io_uring"], {"echo-io_uring"}):
        with daemon.connect("echo-epoll") as s, subprocess.Popen(
            [str(NBCTL), "-s", daemon.control, "stats", *names, "--watch=0.05"],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            seen = set()
            for _ in range(40):
                echo(s, b"x")
                line = process.stdout.readline()
                found = re.match(r"\d\d:\d\d:\d\d +(echo-\S+)", line)
                seen |= {found[1]} if found else set()
                if seen:
                    break
            process.terminate()
        assert seen == shown


def test_stats_of_the_active_only(daemon):
    assert nbctl(daemon, "stats", "--active").stdout == "No operations.\n"
    with daemon.connect("echo-epoll") as s:
        echo(s, b"x")
        wait_until(lambda: "echo-epoll" in nbctl(daemon, "stats", "--active").stdout, "counted")
        assert "echo-io_uring" not in nbctl(daemon, "stats", "--active").stdout


def test_compare_tells_unavailable_from_idle(far):
    text = nbctl(far, "compare", "--interval", "10ms").stdout
    assert_told(text)
    assert "No operations in the interval: near\n" in text
    done = nbctl(far, "compare", "far", "--interval", "10ms")
    assert done.returncode == 0, done.stderr
    assert_told(done.stdout)
    document = nbctl_json(far, "compare", "--interval", "10ms")
    assert [row["listener"] for row in document["rows"]] == ["near"]
    (absent,) = document["unavailable"]
    assert absent["listener"] == "far" and WHY in absent["reason"]
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


# ---- Terminals ----


def on_terminal(daemon, *arguments, **environment):
    """The output of nbctl on a terminal."""
    master, slave = pty.openpty()
    environment = dict(os.environ, TERM="xterm", COLUMNS="100", **environment)
    process = subprocess.Popen(
        [str(NBCTL), "-s", daemon.control, *arguments], stdout=slave, env=environment
    )
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # EIO: the other side has closed
            break
        if not part:
            break
        text += part
    os.close(master)
    assert process.wait(TIMEOUT) == 0
    return text.decode()


@pytest.mark.parametrize("command", ["status", "stats", "config", "doctor"])
def test_colour_is_for_terminals_that_want_it(daemon, command):
    assert "\033[" in on_terminal(daemon, command, NO_COLOR="")
    assert "\033" not in on_terminal(daemon, command, NO_COLOR="1")
    assert "\033" not in on_terminal(daemon, command, "--no-color", NO_COLOR="")
    assert "\033" not in on_terminal(daemon, command, TERM_PROGRAM="x", NO_COLOR="x")


@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_the_terminal(daemon, width, tmp_path):
    rows = tmp_path / "rows.jsonl"
    with daemon.connect("echo-io_uring-poll") as s:
        echo(s, b"x" * 100)
        nbctl(daemon, "compare", "--interval", "20ms", "--save", rows)
        for command in (["status"], ["stats"], ["connections"], ["compare", "--interval", "20ms"]):
            text = nbctl(daemon, *command, env={"COLUMNS": str(width)}).stdout
            # An address or a name that is longer by itself is not cut.
            too_wide = [l for l in text.splitlines() if len(l) > width and command != ["status"]]
            assert not too_wide, "\n".join(too_wide)
