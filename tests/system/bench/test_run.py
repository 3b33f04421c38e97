"""nbserved --run: listeners without a file, and the answer in one command."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest
from conftest import ENGINES, NBBENCH, NBCTL, NBSERVED, ROOT, TIMEOUT, listener, requires, rows_of, twin_address


def environment(tmp_path):
    return {**os.environ, "NBSERVED_SOCKET": str(tmp_path / "control.sock")}


def run(tmp_path, *arguments, check=0, preexec=None, program=None):
    done = subprocess.run(
        [str(program or (NBBENCH if arguments and arguments[0] in ("run", "show") else NBSERVED)), *map(str, arguments)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        stdin=subprocess.DEVNULL,
        preexec_fn=preexec,
    )
    assert done.returncode == check, done.stdout + done.stderr
    return done


def redis(requests=300):
    return [requires("redis-benchmark"), "-p", "{port}", "-t", "set", "-n", str(requests), "-q"]


def test_one_command_is_the_answer(tmp_path):
    done = run(tmp_path, "run", "echo,engine=all", "--repeat", "9", "--json", "--", *redis())
    rows = rows_of(json.loads(done.stdout))
    assert {row["engine"] for row in rows} == set(ENGINES)
    for row in rows:
        assert row["visits"] == 9 and row["generator"]["requests"] == 2700
        assert row["values"]["cpu_ns_per_request"]["median"] > 0
    assert rows[0]["verdicts"] == {}
    for row in rows[1:]:
        verdict = row["verdicts"]["cost"]
        assert verdict["rounds"] == 9 and verdict["is"] in ("less", "more", "same", "undecided")
        assert verdict["low"] <= verdict["change"] <= verdict["high"]
    assert not list(tmp_path.iterdir())  # its directory is removed


def test_a_port_that_is_taken_is_an_error(tmp_path):
    """For every engine: a comparison must not silently go without one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(tmp_path, "run", f"echo,engine=all,port={port - 1}", "--", *redis(), check=1)
    assert f"127.0.0.1:{port}: Address already in use" in done.stderr and not done.stdout


def test_engines_that_the_host_lacks_are_named_with_the_reason(tmp_path, no_io_uring):
    rows, page = tmp_path / "rows", tmp_path / "page"
    done = run(tmp_path, "run", "echo,engine=all", "--repeat", "2", "--json", "--save", rows, "--html", page,
               "--", *redis(), preexec=no_io_uring)  # fmt: skip
    document = json.loads(done.stdout)
    assert {row["engine"] for row in rows_of(document)} == {"epoll"}
    missing = {f"echo-{engine}" for engine in ENGINES if engine != "epoll"}
    assert {absent["name"] for absent in document["unavailable"]} == missing
    assert all(no_io_uring.fix in absent["reason"] for absent in document["unavailable"])
    loaded = [subprocess.run([str(NBCTL), *words, str(rows)], check=True, capture_output=True, text=True).stdout
              for words in (["compare", "--load"], ["report"])]
    table = subprocess.run([str(NBBENCH), "show", "--json", str(rows)], check=True, capture_output=True, text=True)
    reasons = {row["name"]: row["reason"] for row in json.loads(table.stdout)["unavailable"]}
    assert reasons.keys() == missing
    assert all(no_io_uring.fix in reason for reason in reasons.values())
    for text in (page.read_text(), *loaded):
        for name in missing:
            assert re.search(rf"{name}\b.*: unavailable: ", text)


def test_rates_are_of_the_span_in_which_there_was_load(tmp_path):
    """The generator's start and its end are not, which are seconds here."""
    rows = tmp_path / "rows"
    command = f"sleep 1; {' '.join(redis())}; sleep 1"
    run(tmp_path, "run", "echo,engine=epoll", "--repeat", "1", "--save", rows, "--", "sh", "-c", command)
    (row,) = map(json.loads, rows.read_text().splitlines())
    assert row["count"] >= 300 / 32 and 0 < row["interval_ns"] < 1.5e9
    assert row["generator"]["wall_ns"] == row["interval_ns"]
    assert row["machine"]["total_ns"] < 1.6e9 * row["machine"]["cpus"]


def test_rows_have_the_round_trips(tmp_path):
    done = run(tmp_path, "run", "sockperf,engine=epoll", "--repeat", "1", "--json", "--", requires("sockperf"),
               "ping-pong", "--tcp", "-i", "127.0.0.1", "-p", "{port}", "-t", "1")  # fmt: skip
    values = rows_of(json.loads(done.stdout))[0]["values"]
    assert 0 < values["trip50_ns"]["median"] <= values["trip99_ns"]["median"]


def test_a_disk_of_memory_or_of_a_file(tmp_path):
    """nbdinfo reads nothing, so that nothing is measured either."""
    disk = tmp_path / "disk.img"
    info = [requires("nbdinfo"), "--size", "{uri}"]
    done = run(tmp_path, "run", "nbd", "--repeat", "1", "--", *info, check=8)
    assert re.search(r"\b268435456\b", done.stdout)
    done = run(tmp_path, "run", f"nbd,export={disk},size=2M", "--repeat", "1", "--", *info, check=8)
    assert re.search(r"\b2097152\b", done.stdout) and disk.stat().st_size == 2 << 20


def test_created_files_have_no_holes(tmp_path):
    info = [requires("nbdinfo"), "--map", "--totals", "{uri}"]
    for spec in ("nbd,size=8M", f"nbd,export={tmp_path}/disk.img,size=8M"):
        done = run(tmp_path, "run", spec, "--repeat", "1", "--", *info)
        assert re.search(r"8388608 100.0% +0 data", done.stdout)
    done = run(tmp_path, "run", f"nbd,export={tmp_path}/sparse.img,size=8M,fill=no", "--repeat", "1", "--", *info)
    assert re.search(r"8388608 100.0% +3 hole", done.stdout)
    assert (tmp_path / "disk.img").stat().st_blocks * 512 >= 8 << 20


@pytest.mark.parametrize("store", ["io_uring", "threads", "blocking"])
def test_reads_of_holes_are_told(tmp_path, store):
    pytest.importorskip("nbd", reason="nbdsh is not installed")
    read = [sys.executable, "-m", "nbd", "-u", "{uri}", "-c", "for i in range(2000): h.pread(4096, i * 4096)"]
    for fill, told in (("no", True), ("yes", False)):
        done = run(tmp_path, "run", f"nbd,export={tmp_path}/{fill}.img,size=8M,fill={fill},store={store}", "--repeat", "1", "--", *read)
        assert ("of what was read were holes" in " ".join(done.stdout.split())) == told


NVME_READS = """
import socket, sys
sys.path.insert(0, sys.argv[1])
from nvme_client import Host
class Place:
    def connect(self, name):
        return socket.create_connection(("127.0.0.1", int(sys.argv[2])), 30)
with Host(Place(), "", sys.argv[3]) as host:
    for i in range(1000):
        host.read(i % 64)
"""


def test_reads_of_holes_are_told_of_nvme(tmp_path):
    """Zeros are found by a sample, so the test needs many reads."""
    command = [sys.executable, "-c", NVME_READS, ROOT / "tests/clients", "{port}", "nqn.2014-08.org.x:y"]
    for fill, told in (("no", True), ("yes", False)):
        done = run(tmp_path, "run", f"nvme,nqn={command[-1]},size=8M,fill={fill}", "--repeat", "1", "--", *command)
        assert ("100 % of what was read were holes" in " ".join(done.stdout.split())) == told


def test_datagrams_of_iperf3_need_no_other_key(tmp_path):
    """The datagrams that iperf3 chooses for loopback are longer than 16 KiB."""
    port = twin_address().split(":")[1]
    done = run(tmp_path, "run", f"iperf3,port={port}", f"iperf3,transport=udp,port={port}", "--repeat", "1",
               "--", requires("iperf3"), "-u", "-c", "127.0.0.1", "-p", port, "-t", "1")  # fmt: skip
    assert re.search(r"/[1-9]\d* .*receiver", done.stdout)


def test_it_serves_until_ctrl_c(tmp_path):
    with subprocess.Popen([str(NBSERVED), "--run", "echo,engine=epoll", "--run", "http"], env=environment(tmp_path),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            lines.append(line)
        text = "".join(lines)
        port = re.search(r"echo-epoll \(epoll\): redis-benchmark -h 127.0.0.1 -p (\d+)", text)[1]
        assert re.search(r"http \([a-z_-]+\): wrk .*http://127.0.0.1:\d+/", text)
        subprocess.run([word.replace("{port}", port) for word in redis()], check=True, timeout=TIMEOUT,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        status = subprocess.run([str(NBCTL), "status"], env=environment(tmp_path), check=True,
                                timeout=TIMEOUT, capture_output=True, text=True)  # fmt: skip
        assert "echo-epoll" in status.stdout
        for words, answer in [(["log-level", "debug"], ""), (["reload"], "log-level: debug -> "),
                              (["reload"], "no change")]:  # of the words of the command line
            done = subprocess.run([str(NBCTL), *words], env=environment(tmp_path), check=True, timeout=TIMEOUT,
                                  capture_output=True, text=True)  # fmt: skip
            assert answer in done.stdout
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, err
    assert not out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--run", "ecko"], "there is no such service (did you mean 'echo'?)"),
        (["--run", "echo,engin=epoll"], "unknown key 'engin' (did you mean 'engine'?)"),
        (["--run", "echo,engine=uring"], "got 'uring' (did you mean 'io_uring'?)"),
        (["--run", "echo,engine=nope"], "--run: [listener echo-nope] engine: expected"),
        (["--run", "echo,buffers"], "expected KEY=VALUE, got 'buffers'"),
        (["--run", "echo,port=99999"], "address"),
        (["--run", "nbd,export=/nonexistent/disk"], "/nonexistent"),
        (["--run", "http,sqpoll=yes,engine=epoll"], "sqpoll"),
        (["--run", "echo,size=1M"], "[listener echo] size: expected a key of"),
    ],
)
def test_mistakes_are_said_as_in_the_file(tmp_path, arguments, message):
    done = run(tmp_path, *arguments, check=1)
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.fixture
def user():
    """(a directory that is XDG_RUNTIME_DIR of another user, its nbserved and nbctl, how to be that user)"""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        os.mkdir(f"{directory}/bin")
        nbserved, nbctl, _ = (shutil.copy(program, f"{directory}/bin") for program in (NBSERVED, NBCTL, NBBENCH))
        env = {**os.environ, "XDG_RUNTIME_DIR": directory, "TMPDIR": directory}
        env.pop("NBSERVED_SOCKET", None)
        yield directory, nbserved, nbctl, {"env": env, "user": 65534, "group": 65534, "extra_groups": []}


def test_each_user_has_a_socket_of_its_own(user):
    """Below XDG_RUNTIME_DIR, where nbctl finds it; a daemon that finds it in use makes another."""
    directory, _, nbctl, who = user
    nbbench = f"{directory}/bin/nbbench"
    inner = f"""
{nbctl} status | grep -q echo || exit 3
{nbbench} run http --repeat 1 -- sh -c '{nbctl} status; echo {{port}} >&2'
test $? = 8 || exit 4  # nothing was measured
"""
    command = [nbbench, "run", "echo", "--repeat", "1", "--", "sh", "-c", inner + "#{port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * TIMEOUT, **who)
    assert done.returncode == 8, done.stdout + done.stderr
    assert sorted(os.listdir(directory)) == ["bin"]


def test_folders_that_are_too_long_for_a_socket_are_not_used(user):
    """A CI job's folders may be; unix(7) takes paths of 107 bytes."""
    directory, _, _, who = user
    long = f"{directory}/{'x' * 90}"
    os.mkdir(long, 0o777)
    os.chmod(long, 0o777)
    who["env"].update(XDG_RUNTIME_DIR=long, TMPDIR=long)
    command = [f"{directory}/bin/nbbench", "run", "echo", "--repeat", "1", "--", "sh", "-c", ": {port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * TIMEOUT, **who)
    assert done.returncode == 8 and "107 bytes" not in done.stderr, done.stderr
    assert not os.listdir(long)


def test_a_user_with_a_configuration_has_a_socket_of_its_own(user):
    """Its directory is made, below XDG_RUNTIME_DIR."""
    directory, nbserved, nbctl, who = user
    with open(f"{directory}/e.ini", "w", encoding="utf-8") as file:
        file.write("[listener e]\naddress = 127.0.0.1:0\nengine = epoll\nservice = echo\n")
    with subprocess.Popen([nbserved, "-c", f"{directory}/e.ini"], stderr=subprocess.PIPE, text=True, **who) as daemon:
        said = daemon.stderr.readline()
        while said and "serving 1 listener" not in said:
            said = daemon.stderr.readline()
        status = subprocess.run([nbctl, "status"], capture_output=True, text=True, timeout=TIMEOUT, **who)
        daemon.terminate()
        assert daemon.wait(TIMEOUT) == 0 and status.returncode == 0, said + status.stderr


def test_wrong_command_lines(tmp_path):
    for arguments in (
        ["--run", "echo", "--config", "x.ini"],
        ["--run", "echo", "--wide"],
        ["--repeat", "3"],
        ["--run", "echo", "--frob"],
        ["--run", "echo", "--json"],
        ["run", "echo"],
        ["run", "echo", "--"],
        ["run", "--", "true"],
    ):
        assert re.search("[Tt]ry .*--help", run(tmp_path, *arguments, check=2).stderr)
    done = run(tmp_path, "--run", "echo", "redis-benchmark", "-p", "{port}", check=2)
    assert "unexpected argument 'redis-benchmark': `nbbench run` measures with a command" in done.stderr
    done = subprocess.run([str(NBBENCH), "show", "--html", "a", "--html", "b", "c"], capture_output=True, text=True)
    assert done.returncode == 2 and "--html is given twice" in done.stderr
    for words, instead in ((["compare"], "nbctl stats --watch"), (["compare", "--load", "a"], "nbbench show FILE"),
                           (["compare", "--interval", "2"], "nbctl stats --watch"), (["report", "a"], "nbbench show --html")):
        done = subprocess.run([str(NBBENCH), *words], capture_output=True, text=True)
        assert done.returncode == 2 and instead in done.stderr


def test_the_old_forms_warn_and_work(tmp_path):
    rows = tmp_path / "rows"
    done = run(tmp_path, "--save", rows, *["--run", "echo,engine=epoll"], "--repeat", "1", *["--"], *redis(), program=NBSERVED)
    assert done.stderr.startswith("nbserved: `--run SPEC -- COMMAND` is `nbbench run SPEC -- COMMAND` now")
    done = run(tmp_path, *["compare", "--load"], rows, "--json", program=NBCTL)
    assert json.loads(done.stdout)["groups"] and done.stderr.startswith("nbctl: `nbctl compare` is `nbbench show` now")
    done = run(tmp_path, *["report"], rows, program=NBCTL)
    assert done.stdout.startswith("<!DOCTYPE html>") and "`nbctl report` is `nbbench show` now" in done.stderr


def test_a_socket_of_the_environment_that_is_taken(tmp_path, start_daemon):
    """Exported for nbctl, it is a daemon's, or of a folder that is not there: --run makes one of its own."""
    daemon = start_daemon(listener("echo"))
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    for socket_path in (daemon.control, str(tmp_path / "none" / "control.sock")):
        done = subprocess.run([str(NBBENCH), "run", "echo", "--repeat", "1", "--", *redis()], capture_output=True,
                              env={**env, "NBSERVED_SOCKET": socket_path}, text=True, timeout=TIMEOUT)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        with subprocess.Popen([str(NBSERVED), "--run", "echo"], env={**env, "NBSERVED_SOCKET": socket_path},
                              stdout=subprocess.PIPE, text=True) as process:  # fmt: skip
            said = "".join(iter(lambda: process.stdout.readline(), "Ctrl-C ends it.\n"))
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT)
        assert f"nbctl -s {tmp_path}/nbserved-" in said
    assert not list(tmp_path.iterdir())


def test_names_and_a_shared_export(tmp_path):
    """Two disks of one path are one export, whose keys the first --run has."""
    disk = tmp_path / "disk"
    done = run(tmp_path, "run", f"nbd,export={disk},size=1M,name=one", f"nbd,export={disk},store=threads",
               f"nbd,engine=all,export={disk},name=all", "--repeat", "1", "--json", "--", requires("nbdcopy"),
               "{uri}", "null:")  # fmt: skip
    rows = rows_of(json.loads(done.stdout))
    assert {row["listener"] for row in rows} == {"one", "nbd", *(f"all-{engine}" for engine in ENGINES)}
    done = run(tmp_path, "--run", f"nbd,export={disk}", "--run", f"nbd,export={disk},size=1M", check=1)
    assert f"--run nbd: size: give it with the first --run of export {disk}" in done.stderr


def test_help_lists_services_and_engines(tmp_path):
    text = run(tmp_path, "--run", "help").stdout
    assert {"echo", "nbd", "perftest-lat"} <= set(text.split())
    assert re.search(rf"(?m)^  tcp: .*{ENGINES[0]}", text)


def test_root_leaves_the_service_its_socket(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can")
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    env.pop("NBSERVED_SOCKET", None)
    with subprocess.Popen([str(NBSERVED), "--run", "echo"], env=env, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline()
        while said and "nbctl" not in said:
            said = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
    assert f"nbctl -s {tmp_path}/nbserved-" in said and not list(tmp_path.iterdir())


def test_without_a_file_it_says_what_to_do(tmp_path):
    if not os.path.exists("/etc/nbserved/nbserved.ini"):
        assert "`nbserved --run echo` needs none" in run(tmp_path, check=1).stderr
        listeners = json.loads(run(tmp_path, "--doctor", "--json").stdout)["listeners"]
        assert {x["name"] for x in listeners} == {f"echo-{engine}" for engine in ENGINES}
        assert not list(tmp_path.iterdir())
    empty = tmp_path / "empty.ini"
    empty.write_text("[server]\nlog-level = info\n")
    done = run(tmp_path, "-c", empty, "--check-config", check=1)
    assert "nothing to serve" in done.stderr


def test_words_in_braces_are_known_or_refused(tmp_path):
    done = run(tmp_path, "run", "echo", "--", "true", "{prot}", check=2)
    assert "{prot}" in done.stderr and "{{prot}}" in done.stderr
    shown = "echo {port} {{prot}} ${HOME} %{http_code} {3} >&2; exit 7"
    done = run(tmp_path, "run", "echo", "--", "sh", "-c", shown, check=7)
    assert f" {{prot}} {os.environ['HOME']} %{{http_code}} {{3}}\n" in done.stderr
    done = run(tmp_path, "run", "echo", "--", "sh", "-c", "echo {{port}} >&2; exit 7", check=7)
    assert "\n{port}\n" in "\n" + done.stderr


@pytest.mark.parametrize("service, command, why", [
    ("echo", ["true", "{port}"], "protocol and transport"),
    ("echo", ["true"], "has no {port}"),
    ("echo,transport=udp", ["true", "{port}"], "protocol and transport"),
])  # fmt: skip
def test_an_empty_comparison_fails(tmp_path, service, command, why):
    rows = tmp_path / "rows"
    done = run(tmp_path, "run", service, "--repeat", "1", "--save", rows, "--", *command, check=8)
    assert "nothing was measured" in done.stderr and why in done.stderr
    assert not rows.exists()
    assert ("it must know by itself where to connect" in done.stderr) == ("{port}" not in command)


def test_a_generator_that_goes_elsewhere_is_told_where_the_listener_waits(tmp_path):
    """The message comes once, while the generator runs; the generator of this test ends then."""
    said, port = tmp_path / "said", tmp_path / "port"
    with open(said, "wb") as stderr:
        done = subprocess.run(
            [str(NBBENCH), "run", "echo,engine=epoll", "--repeat", "2", "--", "sh", "-c",
             f"[ -e {port} ] || echo {{port}} >{port}; until grep -q 'not connected' {said}; do sleep 0.05; done"],
            env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=stderr, timeout=TIMEOUT,
        )  # fmt: skip
    text = said.read_text()
    assert done.returncode == 8 and text.count("not connected") == 1
    assert f"echo-epoll waits at 127.0.0.1:{port.read_text().strip()}\n" in text


def test_a_visit_that_takes_too_long_ends_the_run(tmp_path):
    """What was measured before is shown."""
    visits = tmp_path / "visits"
    command = f"echo >>{visits}; [ $(wc -l <{visits}) -gt 2 ] || exec {' '.join(redis())}; sleep 999"
    done = run(tmp_path, "run", "echo,engine=epoll", "--repeat", "3", "--json",
               "--timeout", "2", "--", "sh", "-c", command, check=124)  # fmt: skip
    assert "echo-epoll: sh did not end within 2 s (--timeout)" in done.stderr
    assert [(row["listener"], row["visits"]) for row in rows_of(json.loads(done.stdout))] == [("echo-epoll", 2)]


def test_a_command_without_a_port_has_a_time_limit_if_asked(tmp_path):
    done = run(tmp_path, "run", "echo", "--timeout", "0.2", "--", "sleep", "999", check=124)
    assert "sleep did not end within 0.2 s (--timeout)" in done.stderr
