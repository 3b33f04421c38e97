"""The generator on one host and the daemon on another: doc/lab.md, in network namespaces.  Each has a /run and
processes of its own, so that the daemon is found by nothing but the real sshd between them."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import BUILD, ROOT, TIMEOUT, requires, rows_of, wait_until

MINUTES = 0.9

REDIS = ("redis-benchmark", "-h", "{host}", "-p", "{port}", "-t", "set", "-n", "1000", "-q")
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
HOST = """
set -e
mount -t proc proc /proc
mount -t tmpfs none /run
mkdir /run/nbserved /run/sshd
ip link set lo up
echo
exec cat
"""
SSHD_CONFIG = """
HostKey {directory}/host
AuthorizedKeysFile {directory}/key.pub
PidFile none
UsePAM no
StrictModes no
SetEnv PATH={build}:/usr/bin:/bin
"""
# The default exchange of keys takes 60 ms of CPU time on either side of each login.
SSH_CONFIG = """
Host server1
HostName 10.77.0.1
Host c1
HostName 10.77.0.11
Host c2
HostName 10.77.0.12
Host *
IdentityFile {directory}/key
IdentitiesOnly yes
UserKnownHostsFile {directory}/known
StrictHostKeyChecking accept-new
KexAlgorithms curve25519-sha256
LogLevel ERROR
"""
INI = """
[listener echo-epoll]
address = {address}:7007
engine = epoll
service = echo

[listener echo-uring]
address = 127.0.0.1:7008
engine = epoll
service = echo
"""
# What a test leaves behind: all processes but the first, sshd and its own; what it did to the network.
CLEAR = """
for p in /proc/[0-9]*; do
    p=${p#/proc/}
    [ $p = 1 ] || [ $p = $$ ] || grep -qsx sshd /proc/$p/comm || kill -9 $p
done
tc qdisc del dev eth0 root
ip address del 10.77.0.9/24 dev eth0
ip neigh flush dev eth0 nud permanent
rm -rf /run/nbserved/*
"""


class Host:
    """A network namespace, with mounts, a name and processes of its own.  It ends with its first process."""

    def __init__(self, keys):
        self.keys = self.directory = keys
        self.first = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", HOST],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.started = []
        if not self.first.stdout.readline():
            pytest.skip(f"no namespaces here: {self.first.communicate(timeout=TIMEOUT)[1]}")
        children = f"/proc/{self.first.pid}/task/{self.first.pid}/children"
        with open(children) as file:
            self.pid = int(file.read())

    def within(self, *words):
        return ["nsenter", "-t", str(self.pid), "--net", "--mount", "--uts", "--pid",
                f"--wd={self.directory}", "--", *map(str, words)]  # fmt: skip

    def environment(self):
        return {**os.environ, "PATH": f"{self.keys}:{BUILD}:{os.environ['PATH']}", "ASAN_OPTIONS": "detect_leaks=0"}  # fmt: skip

    def run(self, *words, status=0, **options):
        done = subprocess.run(self.within(*words), capture_output=True, text=True, timeout=4 * TIMEOUT,
                              env=self.environment(), **options)  # fmt: skip
        assert status in (done.returncode, None), done.stdout + done.stderr
        return done

    def start(self, *words, **options):
        self.started.append(subprocess.Popen(self.within(*words), env=self.environment(), **options))
        return self.started[-1]

    def close(self):
        self.first.stdin.close()
        self.first.wait(TIMEOUT)
        for process in self.started:
            process.wait(TIMEOUT)


def make_keys(directory):
    """Of sshd and of its user, and the program ssh that knows the hosts of ssh_config."""
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    (directory / "ssh").write_text(f'#!/bin/sh\nexec {requires("ssh")} -F {directory}/ssh_config "$@"\n')
    (directory / "ssh").chmod(0o755)
    (directory / "sshd_config").write_text(SSHD_CONFIG.format(directory=directory, build=BUILD))
    (directory / "ssh_config").write_text(SSH_CONFIG.format(directory=directory))


def join(host, switch, number):
    """Outside the processes of either, where their pids are known."""
    subprocess.run(["nsenter", "-t", str(switch.pid), "--net", "ip", "link", "add", f"port{number}", "type", "veth",
                    "peer", "name", "eth0", "netns", str(host.pid)], check=True)  # fmt: skip
    switch.run("ip", "link", "set", f"port{number}", "master", "br0", "up")
    host.run("ip", "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
    host.run("ip", "link", "set", "eth0", "up")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """(server1, c1, c2), each with an sshd, on one switch: 10.77.0.1, .11 and .12.  For all tests, as it takes longer than
    most of them."""
    if os.getuid() != 0:
        pytest.skip("hosts with networks of their own need root")
    if not os.path.exists(SSHD):
        pytest.skip("openssh-server is not installed (make deps)")
    keys = tmp_path_factory.mktemp("keys")
    make_keys(keys)
    all_hosts = [Host(keys) for _ in range(4)]
    switch, *hosts = all_hosts
    try:
        switch.run("ip", "link", "add", "br0", "type", "bridge")
        switch.run("ip", "link", "set", "br0", "up")
        for host, number in zip(hosts, (1, 11, 12)):
            join(host, switch, number)
            host.start(SSHD, "-D", "-e", "-f", keys / "sshd_config", stderr=subprocess.DEVNULL)
        for host, other in zip(hosts, ("c1", "c2", "server1")):
            wait_until(lambda host=host, other=other: host.run("ssh", other, "true", status=None).returncode == 0, "sshd answers")
        yield hosts
    finally:
        for host in all_hosts:
            host.close()


def serve(hosts, directory, address):
    """nbserved on the first of the hosts, with INI; afterwards nothing of nbctl is left on any, nor of the test."""
    server = hosts[0]
    for host in hosts:
        host.directory = directory
    (directory / "nbserved.ini").write_text(INI.format(address=address))
    daemon = server.start(BUILD / "nbserved", "-c", directory / "nbserved.ini", stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: server.run("nbctl", "status", status=None).returncode == 0, "nbserved serves")
        pid = json.loads(server.run("nbctl", "status", "--json").stdout)["pid"]
        yield
        for host in hosts:
            wait_until(lambda host=host: not bridges(host), "no bridge is left")
        server.run("kill", str(pid))
        assert daemon.wait(TIMEOUT) == 0
    finally:
        for host in hosts:
            host.run("sh", "-c", CLEAR, status=None)


@pytest.fixture
def lab(network, tmp_path):
    """(generator's host, server1), on which nbserved runs with INI, on loopback."""
    server, client, _ = network
    yield from ((client, server) for _ in serve(network, tmp_path, "127.0.0.1"))


@pytest.fixture
def hosts(network, tmp_path):
    """(server1, c1, c2): nbserved runs on the first, for all of them."""
    requires("redis-benchmark")
    yield from (network for _ in serve(network, tmp_path, "0.0.0.0"))


def running(host, word):
    """The processes there of which a word of the command is that."""
    loop = f"cd /proc; for p in [0-9]*; do grep -qszx -e {word} $p/cmdline && echo $p; done; true"
    return host.run("sh", "-c", loop).stdout.split()


def bridges(host):
    """The processes of `nbctl bridge` that run there."""
    return running(host, "bridge")


def open_listeners(lab, tmp_path, text):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/lab.ini").write_text(text)
    lab[0].run("nbctl", "-H", "server1", "reload")


def test_the_commands_of_the_page(lab, tmp_path):
    """As they are there, but for fewer requests and rounds."""
    requires("redis-benchmark")
    page = (ROOT / "doc/lab.md").read_text()
    (ini,), (commands, days) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("ini", "sh"))
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/lab.ini").write_text(ini)
    said = {}
    for command in commands.splitlines():
        shorter = command.replace("-n 100000", "-n 1000").replace(" compare ", " compare --repeat 2 ")
        said[command.split(" ", 4)[3] if " -H " in command else command.split()[1]] = lab[0].run("sh", "-c", shorter).stdout
    assert list(said) == ["reload", "doctor", "compare", "connections", "show"]
    assert "echo-epoll" in said["compare"] and "echo-uring" in said["compare"]
    assert "on different hosts" in said["compare"] and "{host} was the address that ssh uses" in " ".join(said["compare"].split())
    assert "<h3>The generator's host</h3>" in (tmp_path / "lab.html").read_text()
    load, before, after, report = days.splitlines()
    words = load[load.index("redis-benchmark"):].replace("server1", "10.77.0.1").split()
    lab[0].start(*words, stdout=subprocess.DEVNULL)
    for command in (before, after):
        lab[0].run("sh", "-ec", command.replace("sleep 60", "sleep 0.3"))
    lab[0].run("sh", "-c", report, status=None)
    assert "echo-uring" in (tmp_path / "change.html").read_text()
    lab[0].run("kill", *running(lab[0], words[0]))  # a daemon that ends would wait for it


def test_rows_are_of_both_hosts(lab, tmp_path):
    requires("redis-benchmark")
    open_listeners(lab, tmp_path, "[listener echo-epoll]\naddress = 0.0.0.0:7007\nallow = 10.0.0.0/8\n")
    done = lab[0].run("nbbench", "-H", "server1", "compare", "echo-epoll", "--repeat", "2", "--json", "--", *REDIS)
    (row,) = rows_of(json.loads(done.stdout))
    generator, conditions = row["generator"], row["conditions"]
    assert generator["requests"] == 2000 and generator["elsewhere"] and generator["shared_cpus"] == 0
    assert conditions["command"][2:5] == ["10.77.0.1", "-p", "7007"]
    assert conditions["generator_host"]["kernel"] == conditions["host"]["kernel"]  # one machine after all
    assert conditions["host_by_ssh"] == "10.77.0.1"
    assert conditions["listener_cpus"] and row["machine"]["cpus"] == os.cpu_count()
    assert row["bytes_in"] > 0 and row["cpu_ns"] > 0


def test_what_the_link_carried_is_in_the_row(lab, tmp_path):
    """Of 20 Mbit/s: what the kernel has in its queues fills it, however slow this machine is."""
    requires("socat")
    text = "[listener chargen]\naddress = 0.0.0.0:7019\nallow = 10.0.0.0/8\nengine = epoll\nservice = chargen\n"
    open_listeners(lab, tmp_path, text)
    server, command = lab[1], "socat -u TCP:{host}:{port} - | head -c 3000000 >/dev/null"
    done = server.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "5kb", "limit", "100kb", status=None)
    if done.returncode:
        pytest.skip(f"no tbf here: {done.stderr}")
    done = lab[0].run("nbbench", "-H", "server1", "compare", "chargen", "--repeat", "1", "--json", "--", "sh", "-c", command)
    (row,) = rows_of(json.loads(done.stdout))
    link = row["link"]
    assert link["interface"] == "eth0" and link["segments"] > 0
    assert link["speed_bps"] == 0 and row["values"]["link_sent_share"]["median"] is None  # a veth has none
    assert 19e6 < link["sent_bps"] < 21e6 and link["received_bps"] < link["sent_bps"] / 2
    assert row["conditions"]["nic"]["driver"] == "veth" and row["conditions"]["nic"]["mtu"] == 1500
    assert "interfaces" not in row["conditions"]["host"] | row["conditions"]["generator_host"]


def test_the_generator_runs_on_the_other_host(lab, tmp_path):
    """Daemon and nbctl here: `{host}` is the address that ssh came from."""
    requires("redis-benchmark")
    client, server = lab
    (tmp_path / "here.ini").write_text(INI.format(address="0.0.0.0").replace(":7007", ":7007\nallow = 10.0.0.0/8"))
    client.start(BUILD / "nbserved", "-c", tmp_path / "here.ini", stderr=subprocess.DEVNULL)
    wait_until(lambda: client.run("nbctl", "status", status=None).returncode == 0, "nbserved serves here")
    done = client.run("nbbench", "compare", "echo-epoll", "--on", "server1", "--repeat", "2", "--json", "--", *REDIS)
    (row,) = rows_of(json.loads(done.stdout))
    generator, conditions = row["generator"], row["conditions"]
    assert generator["requests"] == 2000 and generator["elsewhere"] and generator["cpu_ns"] > 0
    assert conditions["command"][2:5] == ["10.77.0.11", "-p", "7007"]
    assert conditions["generator"].startswith("redis-benchmark") and conditions["generator_host"]["name"] == "server1"
    done = client.run("nbbench", "compare", "--on", "server1", "--", "true", "{uri}", "{listener}", status=2)
    assert "listener 'echo-uring' has no {uri}: it listens on its host's loopback alone" in done.stderr


def test_daemon_and_generator_are_on_the_other_host(lab):
    """Its loopback is theirs."""
    requires("redis-benchmark")
    done = lab[0].run("nbbench", "-H", "server1", "compare", "echo-epoll", "--on", "server1", "--json", "--repeat", "1",
                      "--", *REDIS)
    (row,) = rows_of(json.loads(done.stdout))
    assert row["generator"]["requests"] == 1000 and not row["generator"]["elsewhere"]
    assert row["conditions"]["command"][2:5] == ["127.0.0.1", "-p", "7007"]


def test_addresses_that_are_not_reached_are_named(lab, tmp_path):
    open_listeners(lab, tmp_path, "[listener unix]\naddress = unix:/run/nbserved/echo\nengine = epoll\nservice = echo\n")
    compare = ("nbbench", "-H", "server1", "compare")
    done = lab[0].run(*compare, "echo-epoll", "--", "true", "{host}", status=2)
    assert "listener 'echo-epoll' has no {host}: it listens on its host's loopback alone" in done.stderr
    done = lab[0].run(*compare, "unix", "--", "true", "{uri}", status=2)
    assert "listener 'unix' has no {uri}: its address is a Unix socket" in done.stderr


def test_a_bridge_that_dies_ends_the_measurement(lab, tmp_path):
    """And the command, which would wait for its input for ever."""
    open_listeners(lab, tmp_path, "[listener echo-epoll]\naddress = 0.0.0.0:7007\nallow = 10.0.0.0/8\n")
    process = lab[0].start("nbbench", "-H", "server1", "compare", "--", "sh", "-c", "echo started >&2; exec cat",
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stderr.readline() == "started\n"
    lab[1].run("kill", "-9", *bridges(lab[1]), status=None)  # one of them may be of the reload, and end
    assert process.stderr.readline().startswith("nbbench: server1: ")
    assert process.wait(TIMEOUT) == 3


# ---- Several generators: the daemon and nbctl on one host, c1 and c2 beside it ----


def test_an_nbctl_that_hangs_leaves_nothing_running(hosts, tmp_path):
    """Its heartbeat stops, and its connections stay open."""
    process = hosts[0].start("nbbench", "compare", "--on", "c1,c2", "--", "sh", "-c",
                             f"touch {tmp_path}/started.{{index}}; exec sleep 1000",
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    wait_until(lambda: len(list(tmp_path.glob("started.*"))) == 2, "the command runs everywhere")
    (nbctl,) = running(hosts[0], "nbbench")
    hosts[0].run("kill", "-STOP", nbctl)
    for client in hosts[1:]:
        wait_until(lambda client=client: not running(client, "sleep"), "the command has ended")
    hosts[0].run("kill", "-KILL", nbctl)
    process.send_signal(signal.SIGCONT)  # nsenter, which has stopped with its child
    assert process.wait(TIMEOUT) != 0


def test_a_host_without_power_leaves_nothing_running(hosts, tmp_path):
    """That of nbctl, whose packets stop, which ends no connection: a daemon of `--at`, and the generator of `--on`."""
    server, away, client = hosts
    spec = "echo,engine=epoll,address=10.77.0.1,allow=10.77.0.0/24"
    process = away.start("nbbench", "-H", "server1", "run", spec, "--on", "c2", "--", "sh", "-c",
                         f"touch {tmp_path}/started; exec sleep 1000", "{port}",
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    wait_until((tmp_path / "started").exists, "the command runs")
    assert running(server, "--run") and running(client, "sleep")
    away.run("ip", "link", "set", "eth0", "down")
    try:
        wait_until(lambda: not running(client, "sleep"), "the command has ended")
        wait_until(lambda: not running(server, "--run"), "the daemon has ended")
        wait_until(lambda: not bridges(server) + bridges(client), "no bridge is left")
        assert process.wait(TIMEOUT) == 3
    finally:
        away.run("ip", "link", "set", "eth0", "up")


def test_a_daemon_for_one_run_serves_other_hosts(hosts):
    """`nbbench run --on`, which is refused without an address."""
    run = ("nbbench", "run", "echo,engine=epoll,address=10.77.0.1", "--on", "c1,c2", "--repeat", "2", "--json", "--", *REDIS)
    (row,) = rows_of(json.loads(hosts[0].run(*run).stdout))
    assert row["generator"]["requests"] == 4000 and "host_by_ssh" not in row["conditions"]
    done = hosts[0].run("nbbench", "run", "echo", "--on", "c1", "--", *REDIS, status=2)
    assert "what is served is on loopback, which another host does not reach: give it an address" in done.stderr


def test_a_daemon_for_one_run_serves_on_another_host(lab):
    """`nbbench -H HOST run`: at the address by which ssh came, for the address from which it came."""
    requires("redis-benchmark")
    client, server = lab
    run = ("nbbench", "-H", "server1", "run", "echo,engine=epoll", "--repeat", "2", "--json", "--", *REDIS)
    (row,) = rows_of(json.loads(client.run(*run).stdout))
    assert row["generator"]["requests"] == 2000 and row["generator"]["elsewhere"] and row["count"] >= 2000
    assert row["conditions"]["command"][2] == "10.77.0.1"
    assert "10.77.0.11" in str(row["conditions"]["listener"]["allow"])
    assert row["conditions"]["invocation"][1:5] == ["-H", "server1", "run", "echo,engine=epoll"]
    done = client.run("nbbench", "-H", "server1", "run", "echo,engine=epoll,batch-delay=x", "--", *REDIS, status=1)
    assert "nbbench: on server1: " in done.stderr and "batch-delay" in done.stderr
    assert not running(server, "--run")


def test_a_daemon_on_another_host_ends_with_the_connection(lab, tmp_path):
    client, server = lab
    process = client.start("nbbench", "-H", "server1", "run", "echo,engine=epoll", "--", "sh", "-c",
                           f"touch {tmp_path}/started; sleep 1000", "{port}",
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    wait_until((tmp_path / "started").exists, "the command runs")
    assert running(server, "--run")
    client.run("kill", "-KILL", *running(client, "-H"))
    assert process.wait(TIMEOUT) != 0
    wait_until(lambda: not running(server, "--run"), "the daemon has ended")
