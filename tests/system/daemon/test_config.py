"""Starting: all errors are reported at once, and the features that this host lacks as well."""

import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile

import pytest
import varlink_client
from conftest import (ENGINES, LATER, NBSERVED, ROOT, TIMEOUT, as_nobody, check_config, failed_start, listener,
                      wait_until)
from traffic import connect, echo, noise

CONF = ROOT / "conf" / "nbserved.ini"
IO_URING_ENGINES = [name for name in ENGINES if name != "epoll"]


def nbserved(*arguments, program=NBSERVED, **options):
    return subprocess.run([str(program), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, **options)


@pytest.fixture
def check(tmp_path):
    """check(text or bytes) -> (exit status, the errors without their file)."""

    def check(text):
        status, said = check_config(tmp_path, text)
        errors = said.splitlines()
        prefix = f"nbserved: error: {tmp_path}/check.ini:"
        assert all(e.startswith(prefix) for e in errors), said
        return status, [e[len(prefix) :] for e in errors]

    return check


# ---- Files that are wrong ----


REMOVED = {"listener": ["date", "epoll-mode", "ring-batch", "srq", "cq-moderation", "tls-library", "delay", "stall",
                        "sqpoll-idle", "sqpoll-cpu", "zero-copy-area", "in-capsule", "qp-type"],
           "export": ["registered", "iopoll"]}


@pytest.mark.parametrize("section,key", [(s, k) for s, keys in REMOVED.items() for k in keys])
def test_a_removed_key_is_refused_with_what_takes_its_place(check, section, key):
    """Also on the command line; what it says is no value of its own: any is refused."""
    status, errors = check(f"[export d]\nsize = 1M\nstore = memory\n{key if section == 'export' else 'fill'} = no\n"
                           + listener("a") + (f"{key} = no\n" if section == "listener" else ""))
    found = re.fullmatch(rf"\d+: \[{section} .\] {key}: removed: (\w.*)", "\n".join(errors))
    assert status != 0 and found, errors
    done = nbserved("--run", f"nbd,{key}=no")
    assert done.returncode != 0 and f"{key}: removed: {found[1]}" in done.stderr, done.stderr


def test_a_valid_file_is_accepted(check):
    assert check(listener("echo")) == (0, [])
    result = nbserved("-c", CONF, "--check-config")
    assert (result.returncode, result.stderr) == (0, "")
    listeners, exports = (len(re.findall(rf"^\[{kind} ", CONF.read_text(), re.M)) for kind in ("listener", "export"))
    good, *notices = result.stdout.splitlines()
    assert good == f"{CONF}: good, {listeners} listeners, {exports} export"
    for notice in notices:  # none, unless this is a build without RDMA
        assert re.match(r".*: \[listener [a-z-]+-rdma\]: unavailable here: this build is without RDMA;", notice)
    assert len(notices) in (0, len(re.findall(r"^\[listener [a-z-]+-rdma\]", CONF.read_text(), re.M)))


def test_only_files_can_be_exports(check, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "fifo")
    kinds = {tmp_path: "a directory", tmp_path / "fifo": "a FIFO", "/dev/null": "a character device"}
    for path, kind in kinds.items():
        status, errors = check(f"[export x]\nsize = 1M\npath = {path}\n" + listener("a"))
        assert status == 1
        assert errors == [f"3: [export x] path: expected a regular file or a block device, got '{path}' ({kind})"]
    for path in (tmp_path / "file", tmp_path / "not-yet", "/dev/null/x"):
        assert check(f"[export x]\npath = {path}\n" + listener("a"))[0] == 0


def test_a_directory_or_no_file_is_said(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(tmp_path / "socket"))
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "fifo", "Not a regular file"),
        (tmp_path / "socket", "Not a regular file"),
        ("/dev/null", "Not a regular file"),
        (tmp_path / "nowhere.ini", "No such file or directory"),
        (tmp_path / "nowhere" / "nbserved.ini", "No such file or directory"),
    ):
        for options in ((), ("--check-config",), ("--dump-config",), ("--doctor",)):
            result = nbserved("-c", path, *options)
            assert (result.returncode, result.stdout) == (1, "")
            assert result.stderr == f"nbserved: error: {path}: {reason}\n"


def test_a_fifo_holds_up_no_reload(start_daemon):
    daemon = start_daemon(listener("echo"))
    drop_ins = daemon.directory / "conf.d"
    drop_ins.mkdir()
    os.mkfifo(drop_ins / "10.ini")
    with pytest.raises(varlink_client.VarlinkError) as refused:
        daemon.call("Reload")
    assert f"{drop_ins}/10.ini: Not a regular file" in str(refused.value)
    (drop_ins / "10.ini").unlink()
    os.mkfifo(daemon.directory / "disk")
    (drop_ins / "10.ini").write_text(f"[export disk]\npath = {daemon.directory}/disk\n")
    daemon.call("Reload")
    (export,) = daemon.call("Doctor")["exports"]
    assert "Neither a regular file nor a block device" in export["reason"]


def test_a_file_that_may_not_be_read_is_said():
    with tempfile.TemporaryDirectory() as directory:
        program, nobody = as_nobody(NBSERVED, directory)
        path = pathlib.Path(directory, "nbserved.ini")
        path.write_text(listener("echo"))
        path.chmod(0o600)
        result = nbserved("-c", path, "--check-config", program=program, **nobody)
    assert result.returncode == 1
    assert result.stderr == f"nbserved: error: {path}: Permission denied\n"


def test_messages_have_no_level_but_in_the_journal(tmp_path):
    """INVOCATION_ID says nothing: all that a service starts inherits it, such as a terminal in a CI runner."""
    result = nbserved("-c", tmp_path / "none.ini", env={**os.environ, "INVOCATION_ID": "1" * 32})
    assert result.stderr.startswith("nbserved: error: "), result.stderr


def test_drop_ins_override_key_by_key(tmp_path):
    (tmp_path / "conf.d").mkdir()
    path = tmp_path / "nbserved.ini"
    path.write_text(listener("echo", workers=2, max_connections=5))
    (tmp_path / "conf.d" / "20.ini").write_text("[listener echo]\nworkers = 4\n")
    (tmp_path / "conf.d" / "10.ini").write_text("[listener echo]\nworkers = 3\nidle-timeout = 9s\n")
    (tmp_path / "conf.d" / "ignored.txt").write_text("nonsense")
    dumped = nbserved("-c", path, "--dump-config").stdout
    assert re.search(rf"^workers = 4 +; {tmp_path}/conf.d/20.ini:2, listener$", dumped, re.M)
    assert re.search(rf"^idle-timeout = 9s +; {tmp_path}/conf.d/10.ini:3, live$", dumped, re.M)
    assert re.search(rf"^max-connections = 5 +; {path}:\d+, live$", dumped, re.M)
    (tmp_path / "conf.d" / "30.ini").write_text("[listener echo]\nworkers = x\n")
    result = nbserved("-c", path, "--check-config")
    assert result.returncode == 1
    assert result.stderr.startswith(f"nbserved: error: {tmp_path}/conf.d/30.ini:2: [listener echo]")


# ---- Output ----


def test_the_dumped_configuration_is_the_same_configuration(tmp_path):
    """Of the installed file; the unit tests have values of all kinds."""
    dumps = []
    for path in (CONF, tmp_path / "again.ini"):
        dumps.append(nbserved("-c", path, "--dump-config"))
        assert (dumps[-1].returncode, dumps[-1].stderr) == (0, "")
        (tmp_path / "again.ini").write_text(dumps[-1].stdout)
    first, second = ([line.split(";")[0].rstrip() for line in dump.stdout.splitlines()] for dump in dumps)
    assert first == second
    document = json.loads(nbserved("-c", CONF, "--dump-config", "--json").stdout)
    assert document["server"]["log-level"]["value"] == "info"


def test_version_and_help():
    assert nbserved("-V").stdout == nbserved("--version").stdout
    result = nbserved("--version")
    assert result.returncode == 0 and re.fullmatch(r"nbserved \d+\.\d+\.\d+\n", result.stdout)
    for option in ("--help", "-h"):
        result = nbserved(option)
        assert (result.returncode, result.stderr) == (0, "")
        for word in ("--check-config", "--dump-config", "--doctor", "--version", "SIGTERM"):
            assert word in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [["--nonsense"], ["-x"], ["argument"], ["-c"], ["--config"], ["--dump-config=xml"],
     ["--check-config=yes"], ["-c", CONF, "--check-config", "argument"]],
)
def test_a_wrong_command_line_ends_with_2(arguments):
    result = nbserved(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "nbserved: " in result.stderr


@pytest.mark.parametrize("option", ["--help", "--version", "--dump-config", "--check-config", "--doctor"])
def test_output_that_cannot_be_written_is_an_error(option):
    with open("/dev/full", "w") as full:
        result = subprocess.run([str(NBSERVED), "-c", str(CONF), option], stdout=full, stderr=subprocess.PIPE,
                                timeout=TIMEOUT)
    assert result.returncode == 1
    assert b"No space left on device" in result.stderr


# ---- Addresses that cannot be had ----


def test_every_address_that_cannot_be_had_is_said_at_once(start_daemon):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    log = failed_start(
        start_daemon,
        listener("busy", address=f"127.0.0.1:{port}", workers=2)
        + listener("good")
        + listener("elsewhere", address="192.0.2.1:7007")  # RFC 5737: no host has it
        + listener("six", address="[2001:db8::1]:7007"),
    )
    errors = [line for line in log.splitlines() if "error:" in line]
    assert len(errors) == 3
    assert f"bind 127.0.0.1:{port}: Address already in use" in errors[0]
    assert "'elsewhere'" in errors[1] and "192.0.2.1:7007" in errors[1]
    assert "'six'" in errors[2] and "[2001:db8::1]:7007" in errors[2]
    assert all(re.search(r"nbserved.ini:\d+", e) for e in errors)
    taken.close()


def test_a_port_of_another_nbserved_is_in_use(start_daemon, engine):
    """Although both use SO_REUSEPORT, they do not share it."""
    first = start_daemon(listener("echo", engine=engine, workers=2))
    port = first.port("echo")
    for workers in (1, 2):
        log = failed_start(start_daemon,
                           listener("echo", engine=engine, address=f"127.0.0.1:{port}", workers=workers))
        assert f"bind 127.0.0.1:{port}: Address already in use" in log
    connections = [first.connect("echo") for _ in range(10)]
    for s in connections:
        echo(s)
        s.close()
    first.wait_closed("echo")


@pytest.mark.parametrize("optional", ["no", "yes"])
def test_two_daemons_that_start_together_share_no_port(start_daemon, optional, loopback_ports):
    """An optional listener that loses its port is unavailable, and does not end the start of the others."""
    host, first = loopback_ports
    shared = [listener("echo", address=f"{host}:{first + i}", workers=2, optional=optional) for i in range(10)]
    pairs = [[start_daemon(text + listener("own"), ready=False) for _ in range(2)] for text in shared]
    for daemons in pairs:
        for daemon in daemons:
            daemon.may_fail = optional == "no"
            wait_until(lambda d=daemon: d.process.poll() is not None or ": serving " in d.log(), "it does not start")
        serving = [d for d in daemons if d.process.poll() is None]
        assert [d.status("echo")["state"] for d in serving].count("serving") == 1
        if optional == "no":
            assert sorted(d.process.poll() or 0 for d in daemons) == [0, LATER]
        else:
            assert [d.status("own")["state"] for d in serving] == ["serving"] * 2
        assert sum(": Address already in use" in d.log() for d in daemons) == 1


def test_the_control_socket_of_another_nbserved_is_in_use(start_daemon, tmp_path):
    first = start_daemon(listener("echo"))
    path = tmp_path / "second.ini"
    path.write_text(f"[server]\ncontrol = {first.control}\n" + listener("echo"))
    result = nbserved("-c", path)
    assert result.returncode == LATER
    assert f"{first.control} is in use: another server listens on it" in result.stderr
    assert first.status("echo")["state"] == "serving"


# ---- A host, or a build, without RDMA ----

needs_no_rdma = pytest.mark.skipif(pathlib.Path("/sys/class/infiniband").is_dir()
                                   and any(os.scandir("/sys/class/infiniband")),
                                   reason="this host has an RDMA device")
# Those of the installed configuration.
RDMA_LISTENERS = "[export disk0]\nstore = memory\nsize = 1M\n" + (
    CONF.read_text()[CONF.read_text().index("[listener echo-rdma]") :]
).replace("service = nvme ", "nqn = nqn.2026-11.org.nbserved:test\nservice = nvme ")
RDMA_NAMES = re.findall(r"^\[listener (.*)\]$", RDMA_LISTENERS, re.M)


@needs_no_rdma
def test_without_rdma_optional_listeners_are_unavailable(start_daemon):
    daemon = start_daemon(listener("tcp") + RDMA_LISTENERS)
    assert len(RDMA_NAMES) == 6
    (reason,) = {daemon.status(name)["reason"] for name in RDMA_NAMES}
    assert "no RDMA device" in reason or "this build is without RDMA; build it" in reason, reason
    lines = daemon.log().splitlines()
    told = [line for line in lines if "unavailable: " in line]
    names = ", ".join(f"'{name}'" for name in RDMA_NAMES)
    assert told == [f"nbserved: listeners {names}: unavailable: {reason}"], daemon.log()
    assert lines[-1].endswith("serving 1 listener, 6 unavailable")
    assert not any("warning" in line or "error" in line for line in lines), daemon.log()
    shown = " ".join(daemon.nbctl("status").stdout.split())
    assert shown.count(reason) == 1 and f"{', '.join(RDMA_NAMES)}: unavailable: {reason}" in shown
    assert daemon.nbctl("reload").returncode == 0
    assert daemon.log().count(reason) == 2
    for command in (["stats"], ["stats", "--openmetrics"], ["doctor"]):
        assert daemon.nbctl(*command).returncode == 0
    with daemon.connect("tcp") as s:
        echo(s)
    daemon.wait_closed("tcp")


@needs_no_rdma
def test_without_rdma_a_needed_listener_is_an_error(start_daemon):
    config = listener("tcp") + RDMA_LISTENERS.replace("optional = yes\n", "", 1)
    daemon = start_daemon(config, ready=False)
    daemon.may_fail = True
    assert daemon.process.wait(TIMEOUT) in (1, LATER)
    log = daemon.log()
    (error,) = [line for line in log.splitlines() if "error:" in line]
    assert "no RDMA device" in error or "this build is without RDMA; build it" in error


# ---- A host without io_uring ----


def test_without_io_uring_optional_listeners_are_unavailable(start_daemon, no_io_uring):
    daemon = start_daemon(listener("epoll", engine="epoll")
                          + "".join(listener(name, engine=name, optional="yes") for name in IO_URING_ENGINES),
                          preexec=no_io_uring)
    for name in IO_URING_ENGINES:
        status = daemon.status(name)
        assert status["state"] == "unavailable"
        assert "io_uring" in status["reason"] and no_io_uring.fix in status["reason"]
        assert re.search(rf"listeners? .*'{name}'.*: unavailable: ", daemon.log())
        assert daemon.stats(name)["connections"]["accepted"] == 0
        port = int(daemon.status(name)["addresses"][0].rsplit(":", 1)[1])
        if port:
            with pytest.raises(ConnectionRefusedError):
                connect(("127.0.0.1", port)).close()
    assert no_io_uring.fix in daemon.nbctl("status").stdout
    with daemon.connect("epoll") as s:
        echo(s, noise(100000))
    daemon.wait_closed("epoll")


@pytest.mark.parametrize("name", IO_URING_ENGINES)
def test_without_io_uring_a_needed_listener_fails_the_start(start_daemon, no_io_uring, name):
    log = failed_start(start_daemon, listener("epoll", engine="epoll") + listener("needed", engine=name), status=1,
                       preexec=no_io_uring)
    (error,) = [line for line in log.splitlines() if "error:" in line]
    assert "listener 'needed' (" in error and no_io_uring.fix in error


def test_without_io_uring_auto_is_epoll(start_daemon, no_io_uring):
    assert start_daemon(listener("echo", engine="auto")).status("echo")["engine"] == "io_uring"
    daemon = start_daemon(listener("echo", engine="auto"), preexec=no_io_uring)
    assert daemon.status("echo")["engine"] == "epoll"
    with daemon.connect("echo") as s:
        echo(s, noise(100000))
    daemon.wait_closed("echo")


def test_without_io_uring_the_doctor_says_so(no_io_uring, tmp_path):
    path = tmp_path / "nbserved.ini"
    path.write_text("".join(listener(name, engine=name) for name in ENGINES))
    result = nbserved("-c", path, "--doctor", preexec_fn=no_io_uring)
    assert result.stdout.count(no_io_uring.fix) == 1, "each fix is said once"
    assert re.search(r"^\d+ things? to fix; a listener that is not optional, or an export, is not served\.$",
                     result.stdout, re.M)
    assert result.returncode == 1, result.stderr


def test_what_is_optional_is_nothing_to_fix(no_io_uring, tmp_path):
    """Under each "no" are the reason and the fix, or the name of the line that has them."""
    path = tmp_path / "nbserved.ini"
    path.write_text("".join(listener(name, engine=name, optional="yes") for name in ENGINES))
    result = nbserved("-c", path, "--doctor", preexec_fn=no_io_uring)
    assert result.returncode == 0, result.stderr
    report = json.loads(nbserved("-c", path, "--doctor", "--json", preexec_fn=no_io_uring).stdout)
    items = [item for kind in ("checks", "listeners", "exports") for item in report[kind]]
    lacking = [item for item in items if not item.get("ok", item.get("available"))]
    assert {"io_uring", "io_uring-poll"} <= {item["name"] for item in lacking if item["optional"]}
    needed = {item["fix"] for item in lacking if not item["optional"]}
    assert needed <= {"LimitNOFILE=65536 in the unit, or ulimit -n 65536"}
    *lines, _, last = result.stdout.splitlines()
    assert last == ("Nothing to fix; what is optional you may leave." if not needed else
                    "1 thing to fix; each listener that is not optional, and each export, is served.")
    refused = [i for i, line in enumerate(lines) if line.startswith("no ")]
    assert len(refused) == len(lacking)
    for i, item in zip(refused, lacking):
        assert lines[i].endswith(" (optional)") == item["optional"]
        assert lines[i + 1] == f"      why: {item['reason']}" and lines[i + 2] == f"      fix: {item['fix']}" or (
            re.fullmatch("      as .*, above", lines[i + 1]) and f"      fix: {item['fix']}" in lines[:i])


def no_without_its_mend(report):
    """Values that are refused without a reason, or without advice."""
    items = [item for kind in ("checks", "listeners", "exports") for item in report[kind]]
    refused = [item for item in items if not item.get("ok", item.get("available"))]
    assert refused
    return [item for item in refused if not (item["reason"] and item["fix"])]


def test_every_failed_check_of_the_doctor_says_its_cure(no_io_uring, start_daemon, tmp_path):
    """Also of the daemon, and on a host without io_uring and (but for some) RDMA."""
    lost = f"[export lost]\npath = {tmp_path}/nowhere/x\n[export folder]\npath = {tmp_path}\n"
    config = "".join(listener(name, engine=name, optional="yes") for name in ENGINES) + lost
    config += listener("rdma", engine="rdma", transport="rdma", address="192.0.2.1:7", optional="yes")
    daemon = start_daemon(config, preexec=no_io_uring)
    outside = json.loads(nbserved("-c", daemon.config_path, "--doctor", "--json", preexec_fn=no_io_uring).stdout)
    done = daemon.nbctl("doctor", "--json", check=False)
    inside = json.loads(done.stdout)
    assert done.returncode == 0 and inside["passed"], "only what is optional, or not served, is unavailable"
    for report in (outside, inside):
        assert no_without_its_mend(report) == []
        assert not any(item["available"] for item in report["exports"])
    # One document, but for what a daemon has changed of its own: its limits.
    assert [outside[kind] for kind in ("listeners", "exports")] == [inside[kind] for kind in ("listeners", "exports")]
    assert [check["name"] for check in outside["checks"]] == [check["name"] for check in inside["checks"]]
