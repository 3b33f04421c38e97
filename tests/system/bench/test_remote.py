"""nbctl -H HOST over programs that fail as ssh does; test_lab.py has a real sshd."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest
from conftest import NBBENCH, NBCTL, TIMEOUT, listener, program_of, rows_of, wait_until
from nbctl_client import relay

CONFIG = listener("echo")
VERSION = subprocess.check_output([NBCTL, "--version"], text=True).split()[1]


@pytest.fixture
def program(tmp_path):
    """program(script) -> the path of a shell script that is run as ssh is; $last: the remote command."""

    def make(script):
        path = tmp_path / "ssh"
        path.write_text(f"#!/bin/bash\nfor last; do :; done\nPATH={NBCTL.parent}:$PATH\n{script}\n")
        path.chmod(0o755)
        return path

    return make


def remote(ssh, *arguments, **options):
    return subprocess.run([program_of(arguments), "-H", "server1", *arguments], env=dict(os.environ, NBSERVED_SSH=str(ssh)),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, **options)


def bridges(socket):
    """The processes that serve nbctl at the far end."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"bridge" in words and socket.encode() in words:
            found.append(path.parent.name)
    return found


def connections(pid):
    """Its descriptors but for stdin, stdout and stderr; none if it has ended."""
    try:
        return set(os.listdir(f"/proc/{pid}/fd")) - {"0", "1", "2"}
    except OSError:
        return set()


# ---- The far end is here: a shell instead of ssh ----


def test_a_command_prints_the_same_over_ssh(daemon, program):
    ssh = program('exec sh -c "$last"')
    for command in (["status", "--json"], ["config"], ["connections"], ["exports"], ["stats", "echo"]):
        there, here = remote(ssh, "-s", daemon.control, *command), daemon.nbctl(*command)
        if command[-1] == "--json":  # but for the time
            there, here = (json.loads(ran.stdout)["listeners"] for ran in (there, here))
            assert there == here
        elif command[0] != "stats":
            assert there.stdout == here.stdout
        else:
            assert there.returncode == here.returncode == 0
    assert remote(ssh, "-s", daemon.control, "drain", "echo").returncode == 0
    wait_until(lambda: daemon.status("echo")["state"] == "drained", "the listener drains")
    refused = remote(ssh, "-s", daemon.control, "resume", "other")
    assert refused.returncode == 1 and "other" in refused.stderr
    wait_until(lambda: not bridges(daemon.control), "no bridge is left")


def test_compare_measures_over_one_connection(daemon, program, tmp_path):
    """The ssh of nbctl is not killed as a process that the command has left behind."""
    made = tmp_path / "made"
    ssh = program(f'echo >>{made}; exec sh -c "$last"')
    client = f'exec 3<>/dev/tcp/127.0.0.1/{daemon.port("echo")}; printf x >&3; read -rn1 <&3'
    ran = remote(ssh, "-s", daemon.control, "compare", "--repeat=3", "--json", "--", "bash", "-c", client, "{port}")
    (row,) = rows_of(json.loads(ran.stdout))
    assert row["count"] == 3 and row["generator"]["elsewhere"] and row["conditions"]["generator_host"]
    assert made.read_text().count("\n") == 1


SOFTIRQS = """import socket
def ticks(): return sum(map(int, open("/proc/stat").readline().split()[6:8]))
s, end = socket.create_connection(("127.0.0.1", {port})), ticks() + 10
while ticks() < end:
    [(s.sendall(b"x"), s.recv(1)) for _ in range(1000)]
"""


def test_softirqs_of_the_servers_cpus_are_counted_there(daemon, program):
    ran = remote(program('exec sh -c "$last"'), "-s", daemon.control, "compare", "--json", "echo", "--",
                 "/usr/bin/python3", "-c", SOFTIRQS)
    (row,) = rows_of(json.loads(ran.stdout))
    machine = row["machine"]
    assert 0 < machine["softirq_ns"] / 2 < machine["served_softirq_ns"] < 1.1 * machine["softirq_ns"], machine


def test_compare_refuses_the_forwarded_socket_of_another_host(daemon, tmp_path):
    """The daemon reports another boot id than this host's."""
    ours = pathlib.Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    path = tmp_path / "forwarded"
    with relay(path, daemon.control, lambda reply: reply.replace(ours, ours[::-1])):
        ran = subprocess.run([NBBENCH, "-s", path, "compare", "echo", "--", "true", "{port}"],
                             capture_output=True, text=True, timeout=TIMEOUT)
    assert ran.returncode == 2 and not ran.stdout
    assert ran.stderr == (f"nbbench: the daemon behind {path} is on another host, whose CPUs and addresses are not those of "
                          "this one: `nbbench -H HOST compare`\n")  # fmt: skip


def test_a_stream_ends_with_its_client(daemon, program):
    ssh = program('exec sh -c "$last"')
    process = subprocess.Popen([NBCTL, "-H", "server1", "-s", daemon.control, "stats", "--watch=0.1", "--json"],
                               env=dict(os.environ, NBSERVED_SSH=str(ssh)), stdout=subprocess.PIPE, text=True)
    assert json.loads(process.stdout.readline()) and json.loads(process.stdout.readline())
    assert bridges(daemon.control)
    process.kill()
    process.communicate(timeout=TIMEOUT)
    wait_until(lambda: not bridges(daemon.control), "the bridge ends with its client")


def test_the_variable_of_the_last_release_names_ssh_too(daemon, program):
    ssh = program('exec sh -c "$last"')
    environment = {name: value for name, value in os.environ.items() if name != "NBSERVED_SSH"}
    ran = subprocess.run([NBCTL, "-H", "server1", "-s", daemon.control, "status"], capture_output=True, timeout=TIMEOUT,
                         env=environment | {"NBCTL_SSH": str(ssh)})  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def test_a_daemon_that_hangs_keeps_no_bridge(daemon, program):
    """It ends with its connection, and does not wait for the reply; nobody but nbctl ends it here."""
    ssh = program('sh -c "$last"; true')
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        process = subprocess.Popen([NBCTL, "-H", "server1", "-s", daemon.control, "status"],
                                   env=dict(os.environ, NBSERVED_SSH=str(ssh)))  # fmt: skip
        wait_until(lambda: any(connections(pid) for pid in bridges(daemon.control)), "the bridge waits for the daemon")
        process.kill()
        process.wait(TIMEOUT)
        wait_until(lambda: not bridges(daemon.control), "the bridge ends with its connection")
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def test_a_daemon_that_hangs_is_told_from_its_host(daemon, program):
    """By the bridge, before nbctl gives up the connection to it."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        ran = remote(program('exec sh -c "$last"'), "-s", daemon.control, "status")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert ran.returncode == 3
    cause, advice = ran.stderr.splitlines()
    assert cause == f"nbctl: on server1: cannot reach the daemon at {daemon.control}: it does not answer"
    assert advice.startswith("nbctl: on server1: it is there, but stuck, stopped or overloaded: see `systemctl status nbserved`")


def test_the_paths_there_are_quoted(tmp_path, program):
    path = f"{tmp_path}/it's $HOME `id`;"
    ran = remote(program('exec sh -c "$last"'), "-s", path, "status")
    assert ran.returncode == 3
    assert f"on server1: cannot reach the daemon at {path}: No such file or directory" in ran.stderr


FAILURES = {
    "no connection": ("echo 'ssh: connect to host server1 port 22: No route to host' >&2; exit 255",
                      "server1: ssh: connect to host server1 port 22: No route to host; does `ssh server1 true` work?"),
    "no nbctl": ("exit 127", "nbctl is not in server1's PATH: install it there, or name it with --nbctl PATH"),
    "a shell that talks": ("echo Welcome to server1; exec sh -c \"$last\"",
                           "server1 printed 'Welcome to server1': `ssh server1 true` must print nothing"),
    "a shell that talks and hangs": ("echo Welcome to server1; exec sleep 1000",
                                     "server1 printed 'Welcome to server1': `ssh server1 true` must print nothing"),
    "a shell that talks for ever": ("exec yes Welcome", "server1 printed 'Welcome'"),
    "an ssh that does not end": ("trap '' TERM; echo Welcome; exec sleep 1000", "server1 printed 'Welcome'"),
    "a shell that talks binary": (r"printf 'a\033[31m\0b\0'", "server1 printed 'a?[31m'"),
    "an older nbctl": ("""read -r -d ''; printf '{"parameters":{"version":"0.0.9"}}\\0'; read -r""",
                       f"server1 has nbctl 0.0.9, and this host has {VERSION}"),
    "a bridge that dies": ("read -r -d ''; echo bad >&2; kill -9 $$", "server1: bad"),
    "an end in a message": (f"""read -r -d ''; printf '{{"parameters":{{"version":"{VERSION}"}}}}\\0'
                            read -r -d ''; printf '{{"param'""", "server1: the connection was closed"),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_failure_names_its_cause_and_its_place(program, how):
    script, expected = FAILURES[how]
    ran = remote(program(script), "status")
    assert ran.returncode == 3
    assert expected in ran.stderr
    assert not ran.stdout


def test_ctrl_c_ends_ssh_as_well(program, tmp_path):
    """ssh itself does not get the signal: nbctl ends it."""
    pid = tmp_path / "pid"
    ssh = program(f"echo $$ >{pid}; exec sleep 1000")
    process = subprocess.Popen([NBCTL, "-H", "server1", "status"], env=dict(os.environ, NBSERVED_SSH=str(ssh)),
                               stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait_until(lambda: pid.exists() and pid.read_text().strip(), "ssh runs")
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT) == -signal.SIGINT
    wait_until(lambda: not os.path.exists(f"/proc/{pid.read_text().strip()}"), "ssh has ended")


@pytest.mark.parametrize("arguments, expected", [
    (["-H", "-oProxyCommand=x", "status"], "expected [USER@]HOST"),
    (["-H", "", "status"], "expected [USER@]HOST"),
    (["-H", "server1", "show", "x"], "show works on this host"),
    (["compare", "--on", "-x", "--", "true"], "--on: expected [USER@]HOST"),
    (["compare", "--on", "c1,-x", "--", "true"], "--on: expected [USER@]HOST"),
    (["compare", "--on", "c1,c2,c2", "--", "true"], "--on: it is there twice, got 'c2'"),
    (["run", "echo", "--on", "c1", "--", "true", "{port}"], "is on loopback, which another host does not reach"),
    (["compare", "--on", "c1", "--", b"\xff"], "--on: a word of COMMAND is not UTF-8"),
    (["compare", "--", "ssh", "c1", "true"], "use --on HOST"),
    (["--nbctl", "x", "status"], "give -H HOST as well"),
])  # fmt: skip
def test_wrong_usage_is_refused(arguments, expected):
    ran = subprocess.run([NBCTL if "status" in arguments else NBBENCH, *arguments], capture_output=True, text=True, timeout=TIMEOUT)
    assert ran.returncode == 2 and expected in ran.stderr


def test_the_bridge_takes_only_calls():
    for data in (b"GET / HTTP/1.1\r\n\0", b"{}\0", b"x" * (1 << 21)):
        ran = subprocess.run([NBCTL, "bridge"], input=data, capture_output=True, timeout=TIMEOUT)
        assert ran.returncode == 0 and not ran.stdout


# ---- The command on another host (--on) ----


def compare_on(ssh, daemon, *command, options=(), on="c1", **how):
    return subprocess.run(
        [NBBENCH, "-s", daemon.control, "compare", "--on", on, *options, "--", *command],
        env=dict(os.environ, NBSERVED_SSH=str(ssh)), capture_output=True, text=True, timeout=2 * TIMEOUT, **how)  # fmt: skip


CTL_NOTHING = 8


@pytest.fixture
def far(program):
    return program('exec sh -c "$last"')


def test_a_command_on_another_host_is_measured(daemon, far):
    client = f'exec 3<>/dev/tcp/127.0.0.1/{daemon.port("echo")}; printf x >&3; read -rn1 <&3; echo done'
    ran = compare_on(far, daemon, "bash", "-c", client, "{port}", options=["--repeat=3", "--json"])
    (row,) = rows_of(json.loads(ran.stdout))
    assert row["count"] == 3 and row["generator"]["elsewhere"] and row["generator"]["wall_ns"] > 0
    assert row["conditions"]["generator_host"]["name"] == "c1"
    once = compare_on(far, daemon, "bash", "-c", client, options=["--nbbench", f"env {NBBENCH}"])
    assert once.returncode == 0 and once.stdout.startswith("done\n")


def test_its_end_and_its_output_are_those_of_the_command(daemon, far):
    ran = compare_on(far, daemon, "sh", "-c", r"printf 'a\377b\n'; echo bad >&2; exit 255")
    assert ran.returncode == 255 and "a?b\n" in ran.stdout and "bad\n" in ran.stderr
    assert compare_on(far, daemon, "/nonexistent/x").returncode == 127
    assert compare_on(far, daemon, "cat").returncode == CTL_NOTHING  # it has no input
    assert compare_on(far, daemon, "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    late = compare_on(far, daemon, "sleep", "1000", options=["--timeout=0.1"])
    assert late.returncode == 124 and "did not end within 0.1 s" in late.stderr


def processes(name):
    return [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if name in read_quietly(path)]


def read_quietly(path):
    try:
        return path.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


@pytest.mark.parametrize("on", ["c1", "c1,c2,c3"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_running_there(daemon, far, tmp_path, number, on):
    """Neither the command nor what it has started, by a signal, or when nbctl is killed."""
    name = str(tmp_path)
    script = f"sh -c 'sleep 1000; :' {name} & touch {tmp_path}/started.{{index}}; wait"
    process = subprocess.Popen(
        [NBBENCH, "-s", daemon.control, "compare", "--on", on, "--", "sh", "-c", script, name],
        env=dict(os.environ, NBSERVED_SSH=str(far)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    wait_until(lambda: len(list(tmp_path.glob("started.*"))) == (3 if on != "c1" else 1), "the command runs")
    assert processes(name)
    process.send_signal(number)
    assert process.wait(TIMEOUT) == (-number if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: not processes(name), "all of it has ended")


def test_output_is_shown_as_it_comes(daemon, far, tmp_path):
    """Of several hosts at the end, each line with its host."""
    go = tmp_path / "go"
    script = f"echo now; echo bad >&2; while [ ! -e {go} ]; do sleep 0.05; done; printf '1\\r2\\r3'"
    for on in "c1", "c1,c2":
        process = subprocess.Popen(
            [NBBENCH, "-s", daemon.control, "compare", "--on", on, "--", "sh", "-c", script], text=True,
            env=dict(os.environ, NBSERVED_SSH=str(far)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        if on == "c1":
            assert process.stdout.readline() == "now\n"
        go.touch()
        stdout, stderr = process.communicate(timeout=TIMEOUT)
        assert "bad\n" in stderr
        if on == "c1":
            assert stdout.startswith("1\n2\n3")  # text mode takes a carriage return for a newline
        else:
            assert stdout.startswith("c1: now\nc1: 3\nc2: now\nc2: 3\n")
        go.unlink()


def test_the_command_ends_with_the_daemon(start_daemon, far, tmp_path):
    """At once, here and on other hosts: nothing can be measured any more."""
    for number, on in enumerate([[], ["--on", "c1"], ["--on", "c1,c2"]]):
        daemon = start_daemon(listener("echo"))
        started, name = tmp_path / f"started{number}", str(tmp_path / f"name{number}")
        process = subprocess.Popen(
            [NBBENCH, "-s", daemon.control, "compare", *on, "--", "sh", "-c", f"touch {started}; sleep 1000; :", name],
            env=dict(os.environ, NBSERVED_SSH=str(far)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
        wait_until(started.exists, "the command runs")
        assert daemon.stop() == 0
        stderr = process.communicate(timeout=TIMEOUT)[1]
        assert process.returncode == 3 and "cannot reach the daemon" in stderr
        wait_until(lambda name=name: not processes(name), "the command has ended")


def test_builds_are_programs_of_the_other_host(far, tmp_path):
    old, new, client = tmp_path / "old", tmp_path / "new", "exec 3<>/dev/tcp/127.0.0.1/$0; printf x >&3; read -rn1 <&3"
    old.symlink_to(NBCTL.parent / "nbserved")

    def compare():
        return remote(far, "run", "echo,engine=epoll", "--build", f"old={old}", "--build", f"new={new}",
                      "--repeat", "2", "--json", "--", "bash", "-c", client, "{port}")  # fmt: skip

    ran = compare()
    assert ran.returncode != 0 and f"on server1: {new}: No such file or directory" in ran.stderr
    new.symlink_to(NBCTL.parent / "nbserved")
    rows = rows_of(json.loads(compare().stdout))
    assert [(row["listener"], row["count"]) for row in rows] == [("echo-epoll (old)", 2), ("echo-epoll (new)", 2)]


# ---- The command on several hosts ----


def test_placeholders_of_the_host(daemon, far):
    ran = compare_on(far, daemon, "echo", "{client}", "{index}", "{{index}}", on="root@c1,root@c2")
    assert sorted(ran.stdout.splitlines()[:2]) == ["root@c1: c1 0 {index}", "root@c2: c2 1 {index}"]
    here = daemon.nbctl("compare", "--", "echo", "{client}", "{index}", check=False)
    assert here.stdout.startswith(f"{socket.gethostname()} 0\n")


def test_several_hosts_are_one_generator(daemon, far, tmp_path):
    """Whose parts rows save."""
    rows = tmp_path / "rows.jsonl"
    client = "exec 3<>/dev/tcp/127.0.0.1/$0; printf x >&3; read -rn1 <&3"
    ran = compare_on(far, daemon, "bash", "-c", client, "{port}", on="c1,c2,c3",
                     options=["--repeat=3", "--json", "--save", rows])  # fmt: skip
    (row,) = rows_of(json.loads(ran.stdout))
    assert row["count"] == 9
    assert row["conditions"]["on"] == ["c1", "c2", "c3"]
    assert [host["host"] for host in row["hosts"]] == ["c1", "c2", "c3"]
    assert [host["name"] for host in row["conditions"]["generator_hosts"]] == ["c1", "c2", "c3"]
    for saved in map(json.loads, rows.read_text().splitlines()):
        generator = saved["generator"]
        assert [host["host"] for host in generator["hosts"]] == ["c1", "c2", "c3"]
        assert all(host["wall_ns"] > 0 for host in generator["hosts"])
        assert generator["spread_ns"] > 0 and 0 <= generator["overlap"] <= 1
    table = daemon.nbctl("show", rows).stdout
    assert "The generator started on 3 hosts within" in table
    page = subprocess.run([NBBENCH, "show", "--html", "-", rows], capture_output=True, text=True, timeout=TIMEOUT).stdout
    assert "The generator's host c3" in page


def test_all_are_ended_when_one_fails(daemon, far, tmp_path):
    name = str(tmp_path)
    ran = compare_on(far, daemon, "sh", "-c", "[ {index} = 1 ] && exit 5; sleep 1000; :", name, on="c1,c2,c3")
    assert ran.returncode == 5 and "COMMAND failed on c2, and was ended on the other hosts" in ran.stderr
    wait_until(lambda: not processes(name), "all of it has ended")


def test_all_are_ended_when_a_connection_is_lost(daemon, program, tmp_path):
    """Of one host; the others are told."""
    ssh = program(f'host="${{@: -2:1}}"; echo $$ >{tmp_path}/$host.pid; exec sh -c "$last"')
    name = str(tmp_path / "name")
    process = subprocess.Popen(
        [NBBENCH, "-s", daemon.control, "compare", "--on", "c1,c2,c3", "--", "sh", "-c",
         f"touch {tmp_path}/started.{{index}}; exec sleep 1000", name],
        env=dict(os.environ, NBSERVED_SSH=str(ssh)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
    wait_until(lambda: len(list(tmp_path.glob("started.*"))) == 3, "the command runs everywhere")
    os.kill(int((tmp_path / "c2.pid").read_text()), signal.SIGKILL)
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 3 and "c2: " in stderr and "c1: " not in stderr
    wait_until(lambda: not processes(name), "all of it has ended")


def test_each_host_that_cannot_be_reached_is_named(daemon, program):
    """And nothing is run on the others."""
    ssh = program('case "${@: -2:1}" in c1) exec sh -c "$last";; c2) exit 127;; esac; echo no route >&2; exit 255')
    ran = compare_on(ssh, daemon, "sh", "-c", "echo ran", on="c1,c2,c3")
    assert ran.returncode == 3 and "ran" not in ran.stdout
    assert "nbbench is not in c2's PATH" in ran.stderr and "c3: no route; does `ssh c3 true` work?" in ran.stderr


def test_a_bridge_that_is_silent_is_given_up(daemon, program):
    ran = compare_on(program("exit 255"), daemon, "true")
    assert ran.returncode == 3 and "c1: the connection was lost, or its end there was killed; does `ssh c1 true` work?" in ran.stderr
    older = f"""read -r -d ''; printf '{{"parameters":{{"version":"{VERSION}"}}}}\\0'; read -r -d ''
                for i in 1 2 3; do printf '{{"error":"org.varlink.service.MethodNotFound"}}\\0'; read -r -d ''; done"""
    ran = compare_on(program(older), daemon, "true")
    assert ran.returncode == 1 and "it is older than this nbbench" in ran.stderr
