#!/usr/bin/env python3
"""make demo: the daemon with its default listeners on loopback, load generators against each of
them, and what an operation cost on every engine.  usage: demo.py [BUILD]

Each load is one `nbctl compare`, which visits the engines in turn, in short runs and random order,
until their costs are known or LOAD_TIME is over.  Everything lives in a temporary directory; nothing is
left behind but BUILD/demo.jsonl, which has the rows, and BUILD/report.html.
"""

import fcntl
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import time

import demo_nvme

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONFIG = ROOT / "conf/nbserved.ini"
LOAD_TIME = 10  # seconds of a load, unless the fewest rounds that can decide take longer
SLICE = 0.2  # seconds of a visit, about: many short ones tell more than a few long ones
DISK = "256m"  # of disk0, for the storage loads
SIOCGIFADDR = 0x8915  # <linux/sockios.h>
TIMED = ["--time_based", f"--runtime={round(SLICE * 1000)}ms"]
RUN_MAX = 60  # seconds after which a load has failed

# Services that the default configuration has on io_uring only, on the engine to compare it with.
BASELINE_SERVICES = ("discard", "chargen", "http")
BASELINE = """
[listener {service}-epoll]
address = 127.0.0.1:0
engine = epoll
service = {service}
"""


class Failed(Exception):
    """The demo cannot continue; says why."""


def say(text="", end="\n"):
    print(text, end=end, flush=True)


# ---- Loads ----


class Load:
    """One way to drive a service.  argv() is a whole command: what is measured is what runs.  The port is
    that of a listener, or the placeholder of `nbctl compare`."""

    def __init__(self, service, label, argv, transport="tcp"):
        self.service = service
        self.label = label
        self.argv = argv
        self.transport = transport

    def prepare(self, demo, port):
        """Before the first visit."""

    def begin(self, listener):
        """Before the first visit, for each listener."""

    def end(self):
        """After the last."""


class RedisLoad(Load):
    """A bounded number of requests, chosen so that one run takes about SLICE seconds here."""

    def __init__(self, connections, pipeline):
        self.requests = 1000
        self.options = ["-t", "ping_mbulk,set", "-d", "512"]
        self.options += ["-c", str(connections), "-P", str(pipeline)]
        super().__init__("echo", f"redis-benchmark -c {connections} -P {pipeline}", self.redis)

    def redis(self, port):
        return ["redis-benchmark", "-p", str(port), *self.options, "-n", str(self.requests), "-q"]

    def prepare(self, demo, port):
        """Sets the number of requests, from the rate that the generator itself finds."""
        rate = elapsed = 0
        while elapsed < SLICE / 20:
            self.requests *= 4
            output = demo.run_pinned([*self.redis(port), "--csv"])
            found = re.search(r'"PING_MBULK","([\d.]+)"', output)
            if not found or float(found[1]) == 0:
                raise Failed(f"no rate in what redis-benchmark said:\n{output}")
            rate = float(found[1])
            elapsed = self.requests / rate
        self.requests = max(1000, int(rate * SLICE / 2) // 1000 * 1000)  # of each of the two tests


def fio(direction):
    def argv(port):
        return [
            "fio", "--name=demo", "--ioengine=net", "--protocol=tcp", "--hostname=127.0.0.1",
            f"--port={port}", f"--rw={direction}", "--bs=64k", "--size=1t", *TIMED,
        ]  # fmt: skip

    return argv


def wrk(port):
    return ["wrk", "-t1", "-c50", "-d1", f"http://127.0.0.1:{port}/"]


def disk(port):
    return f"nbd://127.0.0.1:{port}/disk0"


def fio_nbd(direction, block, depth, *options):
    def argv(port):
        return [
            "fio", "--name=demo", "--ioengine=nbd", f"--uri={disk(port)}", f"--rw={direction}",
            f"--bs={block}", f"--iodepth={depth}", f"--size={DISK}", *options,
        ]  # fmt: skip

    return argv


def nbdcopy(port):
    return ["nbdcopy", disk(port), "null:"]


class NbdLoad(Load):
    """Storage.  It is written to before the first of them: a file system that finds room meanwhile,
    or holes that are read in no time, would be compared with nothing."""

    filled = False

    def __init__(self, label, argv):
        super().__init__("nbd", label, argv)

    def prepare(self, demo, port):
        if not NbdLoad.filled:
            demo.run_pinned(fio_nbd("write", "1m", 4)(port))
        NbdLoad.filled = True


class NvmeLoad(Load):
    """Storage, as this kernel's disk: connected to all listeners meanwhile."""

    def __init__(self, label, *options):
        super().__init__("nvme", label, self.fio)
        self.options = options
        self.disks = demo_nvme.Disks()
        self.directory = None  # with a link to the disk of each port

    def fio(self, port):
        return [
            "fio", "--name=demo", "--ioengine=libaio", "--direct=1", "--bs=4k", "--iodepth=32",
            f"--filename={self.directory}/nvme-{port}", f"--size={DISK}", *self.options, *TIMED,
        ]  # fmt: skip

    def prepare(self, demo, port):
        self.directory = demo.directory

    def begin(self, listener):
        try:
            device = self.disks.connect(listener["example"].split())
            os.symlink(device, f"{self.directory}/nvme-{port_of(listener)}")
        except ValueError as error:
            raise Failed(str(error)) from error

    def end(self):
        self.disks.disconnect()


# ---- RDMA: only where there is a device ----


def interface_address(name):
    """An IPv4 address of a network interface; None: it has none."""
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            return socket.inet_ntoa(fcntl.ioctl(s, SIOCGIFADDR, request)[20:24])
        except OSError:
            return None


def rdma_address():
    """That of the first RDMA device that has one."""
    for path in sorted(pathlib.Path("/sys/class/infiniband").glob("*/ports/*/gid_attrs/ndevs/*")):
        try:
            address = interface_address(path.read_text().strip())
        except OSError:  # an empty entry of the device's table
            continue
        if address:
            return address
    return None


def rdma_missing():
    """Why there is no row of RDMA; None: there is."""
    if not any(pathlib.Path("/sys/class/infiniband").glob("*")):
        return "this host has no RDMA device (nbserved --doctor says how to make one)"
    if not RDMA_ADDRESS:
        return "no RDMA device of this host has an IPv4 address"
    if not shutil.which("rping"):
        return "rping is not installed (make deps DEPS=vm)"
    return None


def rping(size, count):
    def argv(port):
        return ["rping", "-c", "-a", RDMA_ADDRESS, "-p", str(port), "-S", str(size), "-C", str(count)]

    return argv


RDMA_ADDRESS = rdma_address()

LOADS = [RedisLoad(1, 1), RedisLoad(50, 1), RedisLoad(50, 16)] + [
    Load("discard", "fio --rw=write --bs=64k", fio("write")),
    Load("chargen", "fio --rw=read --bs=64k", fio("read")),
]
# Not every distribution has these.
LOADS += [
    load
    for load in (
        Load("http", "wrk -c 50", wrk),
        NbdLoad("fio randread 4k, 32 at once", fio_nbd("randread", "4k", 32, *TIMED)),
        NbdLoad("nbdcopy", nbdcopy),
    )
    if shutil.which(load.argv(0)[0])
]
NVME_MISSING = demo_nvme.missing()
if not NVME_MISSING:
    LOADS += [NvmeLoad("fio randread 4k, 32 at once", "--rw=randread")]
if not rdma_missing():
    LOADS += [Load("rping", "rping -S 64 -C 1000", rping(64, 1000), "rdma")]


# ---- The configuration: the installed default, moved out of the way ----


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def demo_config(directory):
    """The text, and the ports that are taken here."""
    taken = []

    def address(match):
        if is_free(int(match[2])):
            return match[0]
        taken.append(int(match[2]))
        return match[1] + "0"

    text = CONFIG.read_text()
    text = re.sub(r"/(run|var/lib)/nbserved/", f"{directory}/", text)
    text = re.sub(r"(?m)^(address = 127\.0\.0\.1:)(\d+)", address, text)
    text += "".join(BASELINE.format(service=s) for s in BASELINE_SERVICES)
    return text, taken


# ---- CPUs ----


def siblings(cpu):
    """The hardware threads of cpu's core."""
    path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    cpus = set()
    try:
        for part in path.read_text().strip().split(","):
            first, _, last = part.partition("-")
            cpus |= set(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        pass
    return cpus | {cpu}


def choose_cpus():
    """One CPU for the server; others, and not of the same core if it can be, for generators."""
    usable = os.sched_getaffinity(0)
    server = min(usable)
    return {server}, usable - siblings(server) or usable - {server} or usable


def cpu_list(cpus):
    cpus = sorted(cpus)
    if len(cpus) > 1 and cpus == list(range(cpus[0], cpus[-1] + 1)):
        return f"CPUs {cpus[0]}-{cpus[-1]}"
    return ("CPUs " if len(cpus) > 1 else "CPU ") + ",".join(map(str, cpus))


# ---- The demo ----


def command(argv):
    """The generator's own command line."""
    return " ".join(argv[argv.index("--") + 1 :] if "--" in argv else argv)


def port_of(listener):
    return listener["addresses"][0].rsplit(":", 1)[1]


class Demo:
    def __init__(self, build, directory):
        self.nbserved = str(build / "nbserved")
        self.nbctl = [str(build / "nbctl"), "-s", f"{directory}/control.sock"]
        self.build = build
        self.directory = directory
        self.rows = build / "demo.jsonl"
        self.log = directory / "log"
        self.daemon = None
        self.running = None  # a generator, with nbctl around it
        self.failures = 0
        self.conclusion = None  # nbctl's conclusion from all rows
        self.report = build / "report.html"
        self.server_cpus, self.client_cpus = choose_cpus()

    # -- Processes --

    def start(self):
        text, taken = demo_config(self.directory)
        config = self.directory / "nbserved.ini"
        config.write_text(text)
        with open(self.log, "wb") as log:
            self.daemon = subprocess.Popen(
                [self.nbserved, "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours: the daemon ends after the generator
                preexec_fn=lambda: os.sched_setaffinity(0, self.server_cpus),
            )
        deadline = time.monotonic() + 10
        while True:
            status = subprocess.run(
                [*self.nbctl, "status", "--json"], capture_output=True, check=False
            )
            if status.returncode == 0:
                return json.loads(status.stdout), taken
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"nbserved did not start:\n{self.log.read_text()}")
            time.sleep(0.02)

    def run_pinned(self, argv):
        """Runs a generator to its end; its output.  Failed when it fails or takes too long."""
        self.running = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, self.client_cpus),
        )
        try:
            output = self.running.communicate(timeout=RUN_MAX)[0]
        except subprocess.TimeoutExpired as error:
            self.end_running()
            raise Failed(f"not finished after {RUN_MAX} s: {command(argv)}") from error
        if self.running.returncode:
            raise Failed(f"{command(argv)}\n{output}")
        self.running = None
        return output

    def end_running(self):
        if self.running and self.running.poll() is None:
            os.killpg(self.running.pid, signal.SIGKILL)  # its own session: it and its generator
            self.running.wait()
        self.running = None

    def stop(self):
        """Ends all processes that it started; True: the daemon ended well."""
        self.end_running()
        if not self.daemon:
            return True
        self.daemon.terminate()
        try:
            return self.daemon.wait(10) == 0
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()
            return False

    # -- Measuring --

    def measure(self, load, listeners):
        before = self.rows.stat().st_size if self.rows.exists() else 0
        names = [listener["name"] for listener in listeners]
        compare = ["compare", "--quiet", "--label", load.label, "--time", str(LOAD_TIME), "--save", str(self.rows)]
        self.run_pinned([*self.nbctl, *compare, *names, "--", *load.argv("{port}")])
        if not self.rows.exists() or self.rows.stat().st_size == before:
            raise Failed(f"{', '.join(names)}: nothing was served")

    def run_load(self, load, listeners):
        begin = time.monotonic()
        engines = ["/".join([l["engine"], *l["stores"]]) for l in listeners]
        say(f"  {load.service:<9}{load.label:31}{' '.join(engines)}", end="")
        try:
            load.prepare(self, port_of(listeners[0]))
            for listener in listeners:
                load.begin(listener)
            self.measure(load, listeners)
            say(f"  {time.monotonic() - begin:.1f} s")
        except Failed as error:
            self.failures += 1
            say(f"FAILED\n{error}")
        finally:
            load.end()

    def run_loads(self, status):
        serving = [l for l in status["listeners"] if l["state"] == "serving"]
        # The baseline of each comparison first.
        serving.sort(key=lambda l: (l["engine"] != "epoll", l["stores"] != ["threads"]))
        for load in LOADS:
            listeners = [
                l for l in serving if (l["service"], l["transport"]) == (load.service, load.transport)
            ]
            if listeners:
                self.run_load(load, listeners)

    # -- Telling --

    def introduce(self, status, taken):
        cpus = cpu_list(os.sched_getaffinity(0))
        say(f"nbserved {status['version']} on Linux {platform.release()}, {cpus}.")
        if self.server_cpus & self.client_cpus:
            say("One CPU only: server and generators share it; rates and latencies mean little.")
        else:
            server, clients = cpu_list(self.server_cpus), cpu_list(self.client_cpus)
            say(f"The server is pinned to {server}, the generators to {clients}.")
        say("Listeners: those of conf/nbserved.ini; what it has on io_uring alone also on epoll.")
        if taken:
            say(f"Taken on this host, so others were chosen: port {', '.join(map(str, taken))}.")
        for reason, names in absent(status, "tcp" if rdma_missing() else None).items():
            say(textwrap.fill(f"{', '.join(names)}: {reason}", 100, subsequent_indent="  "))
        if rdma_missing():
            say(f"RDMA: no rows: {rdma_missing()}.")
        if NVME_MISSING:
            say(f"NVMe: no rows: {NVME_MISSING}.")
        say()
        say("Each load visits the engines in turn, in short runs, until their costs are known:")

    def show(self):
        """The table, the report and the conclusion; whether there is one."""
        say()
        load = [*self.nbctl, "compare", "--load", str(self.rows)]
        shown = subprocess.run([*load, "--html", str(self.report)], check=False)
        told = subprocess.run([*load, "--json"], capture_output=True, check=False)
        if shown.returncode or told.returncode:
            return False
        self.conclusion = json.loads(told.stdout)["conclusion"]
        return bool(self.conclusion)

    def conclude(self):
        say(textwrap.fill(self.conclusion, 100, break_on_hyphens=False))
        say(f"All of it in pictures: {os.path.relpath(self.report)}")
        say()

    def try_next(self, taken):
        here = "" if ROOT == pathlib.Path.cwd() else f"  cd {ROOT}\n"
        build = os.path.relpath(self.build, ROOT)
        say(NEXT.format(here=here, build=build))
        if taken:
            ports = ", ".join(map(str, taken))
            say(f"  (first stop what listens on port {ports}, or edit {build}/try.ini)")

    def run(self):
        self.rows.unlink(missing_ok=True)
        status, taken = self.start()
        self.introduce(status, taken)
        self.run_loads(status)
        if not self.rows.exists() or not self.show():
            self.failures += 1
        self.try_next(taken)
        if self.conclusion:
            self.conclude()
        return self.failures


def absent(status, transport):
    """The listeners, of one transport or all, that do not serve, by why."""
    reasons = {}
    for listener in status["listeners"]:
        if listener["state"] != "serving" and transport in (None, listener["transport"]):
            reason = f"{listener['state']}: {listener.get('reason', '')}"
            reasons.setdefault(reason, []).append(listener["name"])
    return reasons


NEXT = """
What to try next:

{here}  {build}/nbserved -c conf/nbserved.ini --doctor     # what this host allows, how to fix each "no"

  # The default configuration by hand, with its control socket and its disk in {build}/:
  sed -E "s#/(run|var/lib)/nbserved/#$PWD/{build}/#" conf/nbserved.ini >{build}/try.ini
  {build}/nbserved -c {build}/try.ini &
  export NBSERVED_SOCKET=$PWD/{build}/control.sock
  {build}/nbctl status
  {build}/nbctl compare -- redis-benchmark -p 7008 -t ping_mbulk -c 50 -n 500000 -q
  iperf -c 127.0.0.1 -p 9009 -t 5 & {build}/nbctl stats discard-uring --watch    # Ctrl-C ends it
  kill %1                                        # drains and ends

  make check                                     # the tests; then doc/install.md
"""


def check_tools():
    missing = [t for t in ("redis-benchmark", "fio") if not shutil.which(t)]
    if missing:
        raise Failed(f"not installed: {', '.join(missing)} (make deps DEPS='build demo')")


def on_signal(number, _frame):
    raise KeyboardInterrupt(number)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGHUP, on_signal)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="nbserved-demo-"))
    demo = Demo(build, directory)
    failures = 1
    try:
        check_tools()
        failures = demo.run()
    except Failed as error:
        say(f"demo: {error}")
    except KeyboardInterrupt:
        say("\ndemo: interrupted")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the cleaning up is left
        if not demo.stop():
            failures += 1
            say(f"demo: nbserved did not end well:\n{demo.log.read_text()}")
        shutil.rmtree(directory, ignore_errors=True)
    if failures:
        say(f"demo: FAILED ({failures})")
    else:
        say(f"demo: done in {time.monotonic() - begin:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
