"""Fixtures of the system tests: the real daemon on ports that the kernel chooses, seen from outside.

NBSERVED_BUILD names the build to test (default: build/), so that the same tests run on sanitized
builds.  A sanitizer's report, a crash or a wrong exit status fails the test that started the daemon.
"""

import collections
import contextlib
import ctypes
import errno
import os
import pathlib
import pwd
import random
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest
from seccomp import NR_IO_URING_SETUP, deny

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/clients"))
import varlink_client  # noqa: E402

BUILD = pathlib.Path(os.environ.get("NBSERVED_BUILD", ROOT / "build")).resolve()
NBSERVED = BUILD / "nbserved"
NBCTL = BUILD / "nbctl"
NBBENCH = BUILD / "nbbench"
ENGINES = ["epoll", "io_uring", "io_uring-poll"]
# A test with an engine as its parameter runs over these only: sanitized builds take one, to save time.
TESTED_ENGINES = os.environ.get("NBSERVED_ENGINES", "").split() or ENGINES
LOG_SHOWN = 60  # lines of a daemon's log with a test that failed
TIMEOUT = 60  # seconds; generous, for sanitized builds on a busy machine

# Where these are set, pytest explains a failure by the whole difference, which of half a megabyte
# takes it half an hour.  nbctl takes the width of its tables from COLUMNS.
for _name in ["CI", "BUILD_NUMBER", "COLUMNS"]:
    os.environ.pop(_name, None)

# Waits for the end of the process that runs the tests, whose pidfd is descriptor 0, and then kills
# each process that has the mark in its environment: a run that is killed cannot end its daemons and
# generators itself.
END_THE_REST = """
import os, select, signal, sys
mark = sys.argv[1].encode()
end = select.poll()
end.register(0, select.POLLIN)
end.poll()
for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()] * 3:  # what they start meanwhile, too
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            if mark in environment.read().split(b"\\0"):
                os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""

# Crashes and sanitizers' reports of daemons: repeating the test does not excuse them.
_guilt = []


def guilty(report):
    _guilt.append(report)
    return report


def tests_engine(item):
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return all(v in TESTED_ENGINES for v in values if isinstance(v, str) and v in ENGINES)


def end_the_rest_with_this_process():
    mark = random.SystemRandom().randbytes(16).hex()
    this = os.pidfd_open(os.getpid())
    files = [(os.POSIX_SPAWN_DUP2, this, 0), *[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]]
    os.posix_spawn(sys.executable, [sys.executable, "-c", END_THE_REST, f"NBSERVED_TEST_RUN={mark}"], {},
                   file_actions=files, setsid=True)
    os.close(this)
    os.environ["NBSERVED_TEST_RUN"] = mark


def pytest_configure(config):
    end_the_rest_with_this_process()
    config.addinivalue_line("markers", "one(parameter, ...): what the test looks at does not depend on these: one value each")


def first_of_each(items):
    """Of a test with the mark `one` the items with the first value of the parameters that the mark names."""
    seen = {}
    for item in items:
        mark = item.get_closest_marker("one")
        if mark:
            others = (f"{name} {value!r}" for name, value in item.callspec.params.items() if name not in mark.args)
            seen.setdefault((item.nodeid.split("[")[0], *others), item)
    firsts = set(seen.values())
    return [item for item in items if not item.get_closest_marker("one") or item in firsts]


def pytest_collection_modifyitems(config, items):
    """The files that take longest (MINUTES, about) begin first: pytest-xdist hands files out in this order."""
    chosen = first_of_each([item for item in items if tests_engine(item)])
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
    items.sort(key=lambda item: -getattr(item.module, "MINUTES", 0))


# What a test is skipped for, by its reason, and the command that makes it run.
SKIPPED_FOR = (
    (r"non-free", "a program that this Debian has in non-free alone"),
    (r"\(make deps|not installed|this fio|this iperf", "a program that is missing (make deps)"),
    (r"\broot\b", "root (sudo make check)"),
    (r"\bbuild (has|is)|built without", "a part that this build leaves out (make without RDMA=no and its like)"),
    ("", "another kernel or host (make check-vm: in VMs)"),
)


def skipped_line(reasons, units):
    """One line: how many tests were skipped, what for, and what makes them run."""
    counts = collections.Counter(next(what for pattern, what in SKIPPED_FOR if re.search(pattern, reason))
                                 for reason in reasons)
    counts[SKIPPED_FOR[-1][1]] += units
    each = ", ".join(f"{count} for {what}" for what, count in counts.most_common() if count)
    return f"skipped {sum(counts.values())}: {each}; PYTEST_ADDOPTS=-rs names them" if each else ""


def skipped_units():
    """Tests that the units skipped, as cmocka counts them in their logs."""
    logs = [pathlib.Path(log) for log in os.environ.get("NBSERVED_UNIT_LOGS", "").split()]
    texts = [log.read_text(errors="replace") for log in logs if log.exists()]
    return sum(int(count) for text in texts for count in re.findall(r"SKIPPED \] (\d+) test", text))


def retried_line(nodeid, text):
    """The line of tests/retried.txt for a test that failed with this text."""
    seen = re.findall(r"^E +(\S.*)", text, re.MULTILINE) or text.splitlines()[-1:] or ["no text"]
    return f"{time.strftime('%Y-%m-%d')} {nodeid.split('[')[0]} {seen[0][:120]}"


def pytest_terminal_summary(terminalreporter):
    """What was skipped; tests that passed only when .ci/run repeated them: they have a defect, which is to be fixed."""
    line = skipped_line([report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])], skipped_units())
    if line:
        terminalreporter.write_line(line)
    repeated = terminalreporter.stats.get("rerun", [])
    for report in repeated:
        terminalreporter.section(f"failed the first time: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
        terminalreporter.write_line(f"add to tests/retried.txt: {retried_line(report.nodeid, report.longreprtext)}")
    for report in _guilt if repeated else []:
        terminalreporter.section("nbserved's fault")
        terminalreporter.write_line(report)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Adds the logs of its daemons to the report of a test that failed."""
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        for daemon in getattr(item, "daemons", []):
            log = daemon.log().splitlines()
            said = [f"[{len(log) - LOG_SHOWN} lines before]"] * (len(log) > LOG_SHOWN) + log[-LOG_SHOWN:]
            report.sections.append((f"nbserved {daemon.process.pid}: its log", "\n".join(said)))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """The end of one of the processes that run the tests, with pytest-xdist."""
    _guilt.extend(getattr(node, "workeroutput", {}).get("guilt", []))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["guilt"] = _guilt
    elif _guilt:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


# Moves the descriptors of its first arguments to 3, 4, ... and executes the rest.
ACTIVATE = """
import fcntl, os, sys
count = len(os.environ["LISTEN_FDNAMES"].split(":"))
high = [fcntl.fcntl(int(fd), fcntl.F_DUPFD_CLOEXEC, 500) for fd in sys.argv[1:count + 1]]
for fd in sys.argv[1:count + 1]:
    os.set_inheritable(int(fd), False)
for target, fd in enumerate(high, 3):
    os.dup2(fd, target)
os.environ.update(LISTEN_FDS=str(count), LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[count + 1], sys.argv[count + 1:])
"""


def is_ready(s, seconds, output=False):
    """Does s have input, or with `output` room, in this time?  select() takes no descriptor beyond 1023."""
    poll = select.poll()
    poll.register(s, select.POLLIN | (select.POLLOUT if output else 0))
    return bool(poll.poll(seconds * 1000))


def wait_until(condition, what, timeout=TIMEOUT):
    """Polls until condition() is true; its value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"timed out after {timeout} s: {what}")
        time.sleep(0.01)


def read_each(folder, read):
    """{number: read(path)} of a folder of /proc, whose entries may go at any time."""
    found = {}
    for path in pathlib.Path(folder).iterdir():
        with contextlib.suppress(OSError):
            found[int(path.name)] = read(path)
    return found


class Store(list):
    """Pairs of a name and a descriptor, as systemd keeps them: a socket once, under its first name."""

    def keep(self, name, descriptor):
        if any(os.path.sameopenfile(descriptor, other) for _, other in self):
            os.close(descriptor)
        else:
            self.append((name, descriptor))

    def drop(self, name):
        for pair in [pair for pair in self if pair[0] == name]:
            os.close(pair[1])
            self.remove(pair)


def program_of(arguments):
    """The program that has the command."""
    return NBBENCH if arguments and arguments[0] in ("run", "compare", "show", "list") else NBCTL


class Daemon:
    """One running nbserved with a directory, a control socket and a log of its own."""

    def __init__(self, config, directory, options=(), nofile=None, ready=True, env=None, preexec=None, inherit=(),
                 program=NBSERVED):
        self.directory = pathlib.Path(directory)
        self.control = str(self.directory / "control.sock")
        self.config_path = self.directory / "nbserved.ini"
        self.log_path = self.directory / "log"
        self.write_config(config)

        def limits():
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
            if preexec:
                preexec()

        # READY=1 arrives on a socket of ours, as a service manager would hear it.
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify_path = str(self.directory / "notify.sock")
        self.notify.bind(notify_path)
        environment = dict(os.environ, NOTIFY_SOCKET=notify_path, **(env or {}))
        # The descriptor store: one that is given to the next process stays the same.
        self.store = inherit if isinstance(inherit, Store) else Store()
        activate = []
        if inherit:  # such pairs, as a service manager gives them
            environment["LISTEN_FDNAMES"] = ":".join(name for name, _ in inherit)
            activate = [sys.executable, "-c", ACTIVATE, *(str(fd) for _, fd in inherit)]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*activate, str(program), "-c", str(self.config_path), *options],
                stdin=subprocess.DEVNULL,
                pass_fds=[fd for _, fd in inherit],
                stdout=log,
                stderr=log,
                env=environment,
                preexec_fn=limits if nofile or preexec else None,  # with one, Python copies itself by fork()
            )
        self.pid = self.process.pid
        if ready:
            try:
                self.wait_ready()
            except BaseException:
                self.process.kill()  # no other process knows of it
                self.process.wait()
                raise

    def wait_ready(self):
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            if is_ready(self.notify, 0.05):
                if "READY=1" in self.receive_notification():
                    return
            if self.process.poll() is not None:
                pytest.fail(f"nbserved ended with {self.process.returncode}:\n{self.log()}")
        pytest.fail(f"nbserved was not ready in {TIMEOUT} s:\n{self.log()}")

    def notified(self):
        """Messages to the service manager since the last call."""
        messages = []
        while is_ready(self.notify, 0):
            messages.append(self.receive_notification())
        return messages

    def receive_notification(self):
        """One message to the service manager, obeyed if it is about the descriptor store."""
        data, descriptors, _, _ = socket.recv_fds(self.notify, 4096, 256)
        fields = dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)
        name = fields.get("FDNAME")
        if "FDSTOREREMOVE" in fields:
            self.store.drop(name)
        for descriptor in descriptors:
            if "FDSTORE" in fields:
                self.store.keep(name, descriptor)
            else:  # BARRIER=1
                os.close(descriptor)
        return data.decode()

    def write_config(self, config):
        """Another configuration, for a reload; the control socket stays."""
        if "[server]" not in config:
            config = "[server]\n" + config
        config = config.replace("[server]", f"[server]\ncontrol = {self.control}", 1)
        self.config_path.write_text(config)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def call(self, method, **parameters):
        return varlink_client.call(self.control, f"org.nbserved.Control.{method}", parameters)

    def stats(self, name):
        """The GetStats entry of one listener."""
        return self.call("GetStats", listeners=[name])["listeners"][0]

    def status(self, name):
        for listener in self.call("GetStatus")["listeners"]:
            if listener["name"] == name:
                return listener
        pytest.fail(f"no listener {name}")

    def addresses(self, name):
        """[(host, port), ...] as really bound; of a Unix socket what connect() takes, a string."""
        result = []
        for text in self.status(name)["addresses"]:
            host, port = text.rsplit(":", 1)
            if host == "unix":
                result.append(port.replace("@", "\0", 1) if port[0] == "@" else port)
            else:
                result.append((host.strip("[]"), int(port)))
        return result

    def port(self, name):
        return self.addresses(name)[0][1]

    def connect(self, name, timeout=TIMEOUT):
        s = socket.create_connection(self.addresses(name)[0], timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def nbctl(self, *arguments, check=True, program=None, **options):
        """Runs nbctl, or nbbench for its commands."""
        return subprocess.run([str(program or program_of(arguments)), "-s", self.control, *arguments], check=check,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT, **options)

    def wait_closed(self, name, count=0, accepted=0):
        """Until the listener has seen `accepted` connections and has only count of them open."""

        def is_closed():
            connections = self.stats(name)["connections"]
            return connections["accepted"] >= accepted and connections["open"] <= count

        wait_until(is_closed, f"{name} still has more than {count} connections")

    def freeze(self):
        """SIGSTOP, and until each thread has stopped: on a busy host that takes some time."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: set(self.of_threads(lambda task: (task / "stat").read_text().rsplit(")", 1)[1].split()[0]).values())
                   == {"T"}, "it has stopped")

    def of_threads(self, read):
        """{TID: read(its folder in /proc)}, without those that end meanwhile."""
        return read_each(f"/proc/{self.pid}/task", read)

    def threads(self):
        """{TID: name}.  Threads end on their own: the kernel's after some idle seconds, others a moment after they
        were waited for.  So compare those that are there with those that may be."""
        return self.of_threads(lambda task: (task / "comm").read_text().strip())

    def files(self):
        """{descriptor: what it is open for}, without those that it closes meanwhile."""
        return read_each(f"/proc/{self.pid}/fd", os.readlink)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self):
        """Bytes of resident memory that are the daemon's own."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        return pytest.fail("no RssAnon in /proc/PID/status")

    def terminate(self, timeout=TIMEOUT):
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def stop(self):
        """SIGTERM, twice if it drains for long; fails on anything but a clean end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(guilty(f"nbserved did not end:\n{self.log()}"))
        self.notify.close()
        while self.store:
            os.close(self.store.pop()[1])
        log = self.log()
        if "Sanitizer" in log or "runtime error:" in log:
            pytest.fail(guilty(log))
        return status


@pytest.fixture
def start_daemon(request):
    """start_daemon(config_text, ...) -> Daemon; all are stopped, and must end cleanly, after the test."""
    daemons = request.node.daemons = []
    directories = []

    def start(config, **options):
        directory = tempfile.mkdtemp(prefix="nbserved-test-")
        directories.append(directory)
        os.chmod(directory, 0o755)
        daemon = Daemon(config, directory, **options)
        daemons.append(daemon)
        return daemon

    yield start
    expected = []
    for daemon in daemons:
        killed = daemon.process.poll() == -signal.SIGKILL
        status = daemon.stop()
        if status != 0 and not killed and not getattr(daemon, "may_fail", False):
            expected.append(guilty(f"nbserved ended with {status}:\n{daemon.log()}"))
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
    assert not expected, "\n".join(expected)


LATER = 3  # the exit status of a start that fails for a reason that may pass


def failed_start(start_daemon, config, status=LATER, **options):
    """The log of a daemon that must not start."""
    daemon = start_daemon(config, ready=False, **options)
    daemon.may_fail = True
    assert daemon.process.wait(TIMEOUT) == status, daemon.log()
    assert not os.path.exists(daemon.control)
    return daemon.log()


def check_config(folder, config, program=NBSERVED, **options):
    """(exit status, errors) of --check-config."""
    path = pathlib.Path(folder, "check.ini")
    path.write_bytes(config if isinstance(config, bytes) else config.encode())
    done = subprocess.run([program, "-c", path, "--check-config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=TIMEOUT, **options)
    return done.returncode, done.stderr


def listener(name, service="echo", engine="epoll", **keys):
    """A [listener] section on a port that the kernel chooses."""
    lines = [f"[listener {name}]", f"service = {service}", f"engine = {engine}"]
    keys.setdefault("address", "127.0.0.1:0")
    for key, value in keys.items():
        values = value if isinstance(value, list) else [value]
        lines += [f"{key.replace('_', '-')} = {v}" for v in values]
    return "\n".join(lines) + "\n"


def export(name="disk", store="io_uring", **keys):
    """An [export] section; with a path of a file."""
    lines = [f"[export {name}]", f"store = {store}", *(f"{key.replace('_', '-')} = {value}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"


def run(*command, **options):
    """The output of a program, both streams, which must succeed."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    done = subprocess.run(["timeout", "-k", "5", str(TIMEOUT), *map(str, command)], **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


def rows_of(document):
    """The rows of a result of `compare --json`, group after group."""
    return [row for group in document["groups"] for row in group["rows"]]


# Below the ports that the kernel gives to clients and to sockets that ask for none: those that are free stay so.
NAMED_PORTS = range(10000, 30000)


def twin_address(host="127.0.0.1"):
    """One whose port is free for TCP and for UDP."""
    while True:
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind((host, random.SystemRandom().choice(NAMED_PORTS)))
                udp.bind(tcp.getsockname())
            except OSError:
                continue
            return "%s:%d" % tcp.getsockname()


@pytest.fixture
def daemon(request, start_daemon):
    """Of the module's CONFIG; without one, with an echo listener of each engine."""
    return start_daemon(getattr(request.module, "CONFIG", "".join(listener(f"echo-{e}", engine=e) for e in ENGINES)))


def make_certificate(directory, name, days=90, algorithm="ec"):
    """A self-signed certificate for loopback and its key, in one file; its path."""
    how = {"ec": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["rsa:2048"]}[algorithm]
    key, certificate, both = (directory / f"{name}.{end}" for end in ["key", "crt", "pem"])
    subprocess.run(
        [*["openssl", "req", "-x509", "-newkey", *how, "-nodes", "-keyout", key, "-out", certificate, "-days", str(days)],
         *["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]], check=True, stderr=-3)
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    both.chmod(0o600)
    return both


@pytest.fixture(scope="session")
def pem(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"), "first")


@pytest.fixture(params=ENGINES)
def engine(request):
    """Every scenario runs over each engine; none is skipped where io_uring works."""
    return request.param


@pytest.fixture(params=[errno.EPERM, errno.ENOSYS], ids=["forbidden", "absent"])
def no_io_uring(request):
    """preexec for a daemon that may not use io_uring, or whose kernel lacks it."""
    fixes = {errno.EPERM: "kernel.io_uring_disabled=0", errno.ENOSYS: "engine = epoll"}
    function = deny(NR_IO_URING_SETUP, request.param)
    function.fix = fixes[request.param]
    return function


@pytest.fixture(scope="session")
def faulty_calls(tmp_path_factory):
    library = tmp_path_factory.mktemp("faulty") / "faulty.so"
    source = pathlib.Path(__file__).with_name("faulty.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def start_faulty(start_daemon, tmp_path, faulty_calls):
    """start_faulty(config): a daemon whose calls fail, or wait, as its say() says: see faulty.c."""

    def start(config):
        orders = tmp_path / "orders"
        orders.write_text("")
        env = {"LD_PRELOAD": str(faulty_calls), "FAULTY": str(orders), "WATCHDOG_USEC": "3000000",
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        daemon = start_daemon(config, env=env)
        daemon.env = env
        daemon.say = orders.write_text
        return daemon

    return start


@pytest.fixture
def faulty(start_faulty, tmp_path):
    """One with an export on a file."""
    return start_faulty(f"[export disk]\npath = {tmp_path}/disk\nsize = 8M\ncreate = yes\nstore = threads\n"
                        + listener("nbd", service="nbd", exports="disk"))


@pytest.fixture
def loop_device(tmp_path):
    """loop_device(*options, image=a new one of 8 MiB) -> the path of a block device."""
    devices = []

    def attach(*options, image=None):
        if image is None:
            image = tmp_path / f"image{len(devices)}"
            image.write_bytes(b"b" * (8 << 20))
        done = subprocess.run(["losetup", "--find", "--show", *options, image], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            pytest.skip("no loop devices here, or not root")
        devices.append(done.stdout.strip())
        return devices[-1]

    yield attach
    for device in devices:
        subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture
def small(tmp_path):
    """A folder with room for 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]).returncode:
        pytest.skip("mounting a small file system takes root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def loopback_ports():
    """(host, port): a loopback address of this test's own, on which ports from there on are free."""
    chosen = random.SystemRandom()
    host = "127." + ".".join(str(chosen.randrange(1, 255)) for _ in range(3))
    return host, chosen.choice(NAMED_PORTS)


# A user's limit counts what all of the user's processes have locked, these tests' daemons together.
locks_memory = pytest.mark.skipif(
    os.geteuid() != 0 and resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != resource.RLIM_INFINITY,
    reason="needs root, or no limit of locked memory")


def limit_locked_memory(size):
    """For preexec: that many bytes at most, for root, too, even where it has inherited CAP_IPC_LOCK (containers)."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (size, size))
    libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    sets[2] = sets[5] = 0  # nothing is inherited
    libc.capset(header, sets)
    libc.prctl(24, 14)  # PR_CAPBSET_DROP, CAP_IPC_LOCK


def is_sanitized():
    """True for a build with a sanitizer, whose memory use tells nothing about the daemon's."""
    binary = NBSERVED.read_bytes()
    return b"__asan_init" in binary or b"__tsan_init" in binary


def as_nobody(program, directory):
    """A copy of the program in there, and how subprocess starts it without any right.

    The build itself may be where others may not enter, as below root's home.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    os.chmod(directory, 0o755)
    nobody = pwd.getpwnam("nobody")
    return shutil.copy(program, directory), {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def requires(tool):
    """Skip with the reason where a generator is not installed."""
    path = shutil.which(tool)
    if not path:
        pytest.skip(f"{tool} is not installed (make deps)")
    return path
