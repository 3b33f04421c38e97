"""The servers that the benchmark compares: how to start, ask and stop them.

Each is one process, so that its CPU clock is its cost.  Servers run on the last CPU of those we may
use, clients on the first; a server that needs a second thread of its own (SQPOLL) may use all.
"""

import contextlib
import os
import pathlib
import resource
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/clients"))
import varlink_client  # noqa: E402

ALL_CPUS = sorted(os.sched_getaffinity(0))
CLIENT_CPU, SERVER_CPU = ALL_CPUS[0], ALL_CPUS[-1]
START_SECONDS = 20
CLIENT_SECONDS = 180


def prepare(cpus, niceness=-15):
    """Runs in the child before its program starts: sets descriptors, CPUs, priority (-15: others disturb less)."""

    def child():
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        os.sched_setaffinity(0, cpus)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, niceness)

    return child


def run(argv, cpus=(CLIENT_CPU,), seconds=CLIENT_SECONDS):
    """Runs a client; its standard output.  Its errors go to ours."""
    done = subprocess.run(
        [str(a) for a in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        preexec_fn=prepare(cpus),
        timeout=seconds,
        check=True,
    )
    return done.stdout.decode()


GIVEN_PORTS = set()


def free_port():
    """A port of 127.0.0.1 that this process has not been given before: the first may not be bound yet."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        if port not in GIVEN_PORTS:
            GIVEN_PORTS.add(port)
            return port


class Server:
    """A running server: name, pid, port.  A context manager that ends it."""

    def __init__(self, name, argv, cpus=(SERVER_CPU,), niceness=-15, **popen):
        self.name = name
        self.port = None
        self.process = subprocess.Popen(
            [str(a) for a in argv],
            stdin=subprocess.DEVNULL,
            preexec_fn=prepare(cpus, niceness),
            **{"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, **popen},
        )
        self.pid = self.process.pid
        self.pids = [self.pid]  # whose CPU time is counted

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def cpu_ns(self):
        """CPU time of all threads (the clocks of clock_getcpuclockid())."""
        return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in self.pids)

    def wait_port(self):
        """Until something listens on our port."""
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"{self.name} does not start")
            time.sleep(0.05)


class Bare(Server):
    """One of our yardsticks: prints its port."""

    def __init__(self, name, program, *arguments, **options):
        super().__init__(name, [program, *arguments], **options)
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            raise RuntimeError(f"{program} does not start")
        self.port = int(line[1])


class Foreign(Server):
    """Somebody else's server: a command with {port} in it."""

    def __init__(self, name, command, **options):
        port = free_port()
        argv = command.format(port=port).split()
        super().__init__(name, argv, **{"stdout": subprocess.DEVNULL, **options})
        self.port = port
        try:
            self.wait_port()
        except BaseException:
            self.__exit__()
            raise


class Daemon(Server):
    """nbserved with `sections`, and one more listener if it has keys (a list: a line each); `server` are keys, too."""

    def __init__(self, name, program, sections="", server="drain-timeout = 1s\n", cpus=(SERVER_CPU,), niceness=-15, **keys):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nbserved-bench-"))
        self.control = self.directory / "control.sock"
        config = self.directory / "nbserved.ini"
        lines = {"address": "127.0.0.1:0", "max-connections": "1000000", **keys} if keys else {}
        config.write_text(
            f"[server]\ncontrol = {self.control}\nlog-level = warning\n{server}{sections}"
            + "[listener bench]\n" * bool(lines)
            + "".join(f"{k} = {v}\n" for k, vs in lines.items() for v in (vs if isinstance(vs, list) else [vs]))
        )
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.directory / "notify.sock"))
        environment = {**os.environ, "NOTIFY_SOCKET": notify.getsockname()}
        with notify, open(self.directory / "log", "wb") as log:
            super().__init__(name, [program, "-c", config], cpus, niceness, env=environment, stdout=subprocess.DEVNULL,
                             stderr=log)
            try:
                self.wait_ready(notify)
            except BaseException:
                self.__exit__()
                raise
        self.port = int(self.stats()["addresses"][0].rsplit(":", 1)[1])

    def __exit__(self, *_):
        super().__exit__()
        shutil.rmtree(self.directory, ignore_errors=True)

    def wait_ready(self, notify):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if select.select([notify], [], [], 0.1)[0] and b"READY=1" in notify.recv(4096):
                return
        raise RuntimeError(f"{self.name}: {(self.directory / 'log').read_text()}")

    def stats(self, name=None):
        """GetStats's document of the listener; of the first."""
        reply = varlink_client.call(self.control, "org.nbserved.Control.GetStats", {"listeners": [name] if name else []})
        return reply["listeners"][0]

    def syscalls(self):
        """How often the worker has called the kernel, by name."""
        return self.stats()["cost"]["syscalls"]


@contextlib.contextmanager
def started(*makers):
    """Starts servers, in order; ends all of them in any case."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(make()) for make in makers]
