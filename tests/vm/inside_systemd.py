#!/usr/bin/python3
"""Runs in the container, as root: uses nbserved as an administrator would and writes down what it saw.

One JSON document, facts.json beside this file; test_systemd.py judges it.  A step that fails leaves
its exception in the document and the steps after it still run.
"""
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

UNIT = "nbserved.service"
UNIT_FILE = "/usr/lib/systemd/system/nbserved.service"
SOCKET_FILE = "/usr/lib/systemd/system/nbserved.socket"
CONFIG = Path("/etc/nbserved/nbserved.ini")
DROPIN = Path("/run/systemd/system/nbserved.service.d/test.conf")
NBD = [10809, 10810, 10811]
ECHO = {"epoll": 7007, "io_uring": 7008, "io_uring-poll": 7009}
LIMIT_SECONDS = 60  # for what takes a moment, on a busy machine
WATCHDOG = "WatchdogSec=3s"  # longer than such a machine may stop a thread
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
MEMBER = ["setpriv", "--reuid=65534", "--regid=65534", "--groups=nbserved"]


def run(*command):
    """The status and output of a command; never raises for its failure."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    return {"status": done.returncode, "out": done.stdout, "err": done.stderr}


def must(*command):
    result = run(*command)
    assert result["status"] == 0, (command, result)
    return result["out"]


def show():
    return dict(line.split("=", 1) for line in must("systemctl", "show", UNIT).splitlines())


def main_pid():
    return int(show()["MainPID"])


def wait_until(what, condition, seconds=LIMIT_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        time.sleep(0.02)


def restarted(old_pid):
    now = show()
    return now["ActiveState"] == "active" and int(now["MainPID"]) not in (0, old_pid)


def echo(port):
    """Sends 300 kB and its FIN, in pieces; true when all of it came back and then an end of file."""
    sent, received = os.urandom(300_000), bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as client:
        for start in range(0, len(sent), 10_000):
            client.sendall(sent[start:start + 10_000])
            while len(received) < start:
                received += client.recv(65536)
        client.shutdown(socket.SHUT_WR)
        while data := client.recv(65536):
            received += data
    return bytes(received) == sent


def process(pid):
    """A process's rights and limits as the kernel reports them."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                  if ":\t" in line)
    limits = {line[:26].strip(): line[26:].split()[0]
              for line in Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]}
    return {"status": status, "limits": limits}


@contextlib.contextmanager
def dropin(line):
    """The service, started again with one more line in its unit."""
    DROPIN.parent.mkdir(parents=True, exist_ok=True)
    DROPIN.write_text(f"[Service]\n{line}\n")
    must("systemctl", "daemon-reload")
    must("systemctl", "restart", UNIT)
    try:
        yield
    finally:
        DROPIN.unlink()
        must("systemctl", "daemon-reload")


# ---- The steps, in this order --------------------------------------------------------------------

def users():
    """sysusers and tmpfiles have made the user and the directory of the unit."""
    must("systemd-sysusers")
    must("systemd-tmpfiles", "--create", "nbserved.conf")
    state = Path("/var/lib/nbserved").stat()
    return {"user": must("getent", "passwd", "nbserved"), "mode": oct(state.st_mode & 0o777),
            "uid": state.st_uid, "nbserved": int(must("id", "-u", "nbserved"))}


def analyze():
    return {"verify": run("systemd-analyze", "verify", UNIT_FILE, SOCKET_FILE),
            "security": run("systemd-analyze", "security", "--offline=true", UNIT_FILE)}


def start():
    result = run("systemctl", "start", UNIT)
    unit = show()
    return {"start": result, "unit": unit, "process": process(int(unit["MainPID"])),
            "init": process(1),
            "socket": oct(Path("/run/nbserved/control.sock").stat().st_mode & 0o777)}


def traffic():
    return {engine: echo(port) for engine, port in ECHO.items()}


@contextlib.contextmanager
def disk(port):
    """disk(request, offset, length, payload, flags) -> (error, data) of the default export."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as client:
        stream = client.makefile("rb")
        stream.read(18)
        client.sendall(struct.pack(">I8sIIIH", 3, b"IHAVEOPT", 7, 6, 0, 0))
        kind = None
        while kind != 1:  # ACK
            _, _, kind, length = struct.unpack(">QIII", stream.read(20))
            stream.read(length)

        def request(command, offset=0, length=0, payload=b"", flags=0):
            client.sendall(struct.pack(">IHHQQI", 0x25609513, flags, command, 7, offset, length) + payload)
            _, error, _ = struct.unpack(">IIQ", stream.read(16))
            return error, stream.read(length) if command == 0 and not error else b""

        yield request


def blocks():
    """The first byte of each block that storage() wrote, as each listener reads it."""
    facts = {}
    for port in NBD:
        with disk(port) as request:
            facts[str(port)] = [request(0, i * 4096, 4096)[1][0] for i in range(len(NBD))]
    return facts


def storage():
    """Writes a block by each listener, then flushes it."""
    facts = []
    for i, port in enumerate(NBD):
        with disk(port) as request:
            facts.append(request(1, i * 4096, 4096, bytes([i + 1]) * 4096, flags=int(i == 0))[0])
            facts.append(request(3)[0])
    return {"errors": facts, "blocks": blocks()}


def control():
    stats = json.loads(must("nbctl", "stats", "--json"))
    return {"root": run("nbctl", "status"), "nobody": run(*NOBODY, "nbctl", "status"),
            "member": run(*MEMBER, "nbctl", "status"),
            "member_changes": run(*MEMBER, "nbctl", "log-level", "debug"),
            "root_changes": run("nbctl", "log-level", "info"),
            "listeners": {listener["name"]: {key: listener[key] for key in
                                             ("engine", "state", "engine_features", "bytes_in")}
                          for listener in stats["listeners"]}}


def unix_socket():
    """A listener on a Unix socket in the runtime directory, tried as three users."""
    path, extra = Path("/run/nbserved/echo.sock"), CONFIG.parent / "conf.d/unix.ini"
    client = (f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{path}'); "
              "s.sendall(b'hello'); print(s.recv(100).decode())")
    extra.parent.mkdir(exist_ok=True)
    extra.write_text(f"[listener unix]\naddress = unix:{path}\nservice = echo\n")
    try:
        must("systemctl", "restart", UNIT)
        file = path.stat()
        facts = {"mode": oct(file.st_mode & 0o777), "uid": file.st_uid, "group": path.group(),
                 **{name: run(*user, "/usr/bin/python3", "-c", client)
                    for name, user in (("root", []), ("member", MEMBER), ("nobody", NOBODY))}}
    finally:
        extra.unlink()
    must("systemctl", "restart", UNIT)
    return {**facts, "left": path.exists()}


# ---- Paths that the unit keeps from the daemon

FOLDER, HOME = Path("/srv/disks"), Path("/home/disks")


def hidden_device():
    """A block device that the kernel has and /dev has not; None: there is none."""
    names = sorted(path.name for path in Path("/sys/class/block").iterdir())
    return next((name for name in names if not Path("/dev", name).exists()), None)


def own_disk(path):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(8192))
    for own in (path, path.parent):
        shutil.chown(own, "nbserved", "nbserved")


def paths():
    """The doctor's line for each export: as installed, and with its advice taken."""
    def found():
        report = json.loads(must("nbctl", "doctor", "--json"))
        return {e["name"]: e for e in report["exports"] if e["name"] in wanted}

    wanted = {"mine": f"path = {FOLDER}/mine\n", "home": f"path = {HOME}/disk\n",
              "new": f"path = {FOLDER}/new\ncreate = yes\nsize = 1M\n",
              "read": f"path = {FOLDER}/mine\nread-only = yes\n",
              "device": f"path = /dev/{hidden_device()}\n"}
    for path in (FOLDER / "mine", HOME / "disk"):
        own_disk(path)
    facts = {"device": hidden_device()}
    with configured("".join(f"[export {name}]\n{keys}" for name, keys in wanted.items())):
        must("systemctl", "restart", UNIT)
        facts["installed"] = found()
        with dropin(f"ReadWritePaths={FOLDER}\nProtectHome=no"):
            facts["fixed"] = found()
    must("systemctl", "restart", UNIT)
    return facts


# ---- Restarts, under clients who connect all the time

KEPT = Path("/run/nbserved/kept.sock")
EXTRA = CONFIG.parent / "conf.d/test.ini"


class Clients:
    """Connect and exchange a few bytes with every address, until told to stop."""

    def __init__(self, *addresses):
        self.served, self.failed, self.done = {a: 0 for a in addresses}, [], threading.Event()
        self.threads = [threading.Thread(target=self.run, args=[a]) for a in addresses]
        for thread in self.threads:
            thread.start()
        self.wait_served()

    def run(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        while not self.done.is_set():
            with socket.socket(family) as client:
                client.settimeout(LIMIT_SECONDS)
                try:
                    client.connect(address)
                except OSError as error:
                    self.failed.append(f"{address}: {error!r}")
                    return
                with contextlib.suppress(OSError):  # it was connected when the old process ended
                    client.sendall(b"hello")
                    self.served[address] += client.recv(100) == b"hello"

    def wait_served(self):
        """Every address serves again."""
        before = dict(self.served)
        wait_until("clients are served", lambda: self.failed or all(
            count > before[a] + 5 for a, count in self.served.items()))

    def stop(self):
        self.done.set()
        for thread in self.threads:
            thread.join()
        return {"failed": self.failed, "served": list(self.served.values())}


@contextlib.contextmanager
def configured(text):
    """Writes a drop-in of the configuration; the caller restarts the service."""
    EXTRA.parent.mkdir(exist_ok=True)
    EXTRA.write_text(text)
    try:
        yield
    finally:
        EXTRA.unlink()


def stored():
    """How many sockets systemd keeps for the service."""
    return int(show()["NFileDescriptorStore"])


def said_since(cursor, field="MESSAGE", *match):
    lines = must("journalctl", "-o", "json", "--no-pager", f"--after-cursor={cursor}",
                 *(match or [f"_SYSTEMD_UNIT={UNIT}"])).splitlines()
    return [json.loads(line).get(field) for line in lines]


def cursor():
    return must("journalctl", "-n", "0", "--show-cursor").split("-- cursor: ")[1].strip()


def restart():
    """No connection attempt is refused: TCP on each engine, and a Unix socket with two workers."""
    with configured(f"[listener kept]\naddress = unix:{KEPT}\nservice = echo\nworkers = 2\n"
                    "[listener echo-epoll]\nworkers = 2\n"):
        must("systemctl", "restart", UNIT)
        wait_until("sockets are stored", lambda: stored() > 0)
        facts = {"stored": [stored()], "inode": [KEPT.stat().st_ino]}
        clients = Clients(*(("127.0.0.1", port) for port in ECHO.values()), str(KEPT))
        for how in ("restart", "kill", "restart", "reexec", "restart"):
            old = main_pid()
            if how == "kill":
                os.kill(old, signal.SIGKILL)
            elif how == "reexec":
                must("systemctl", "daemon-reexec")
            else:
                must("systemctl", "restart", UNIT)
            wait_until("a new main process", lambda: how == "reexec" or restarted(old))
            clients.wait_served()
            facts["stored"].append(stored())
        facts["inode"].append(KEPT.stat().st_ino)
        facts.update(clients.stop())
        begin = cursor()
    must("systemctl", "restart", UNIT)  # without the Unix socket, and with one worker less
    facts["said"], facts["left"] = said_since(begin), KEPT.exists()
    facts["after"] = stored()
    must("systemctl", "stop", UNIT)
    facts["stopped"] = stored()
    facts["refused"] = not connects(ECHO["epoll"])
    must("systemctl", "start", UNIT)
    return facts


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


def reload():
    """A good one, a bad one that changes nothing, and a restart after both."""
    status = lambda: show()["StatusText"]
    begin, facts = cursor(), {"before": status()}
    must("systemctl", "log-level", "debug")
    try:
        with configured("[listener new]\naddress = 127.0.0.1:7070\nservice = echo\n"
                        "[listener echo-epoll]\naddress = 127.0.0.1:7007\nworkers = 3\n"):
            facts["stored"] = [stored()]
            clients = Clients(("127.0.0.1", ECHO["epoll"]))
            facts["good"] = run("systemctl", "reload", UNIT)
            facts["good_status"], facts["new"] = status(), echo(7070)
            clients.wait_served()
            facts["stored"].append(stored())
            EXTRA.write_text("[listener new]\nadress = 127.0.0.1:7070\n")
            pid, bad = main_pid(), cursor()
            facts["bad"] = run("systemctl", "reload", UNIT)
            must("journalctl", "--sync")
            facts["bad_said"] = said_since(bad)
            facts["bad_status"], facts["same"] = status(), main_pid() == pid
            facts["old"], facts["nbctl"] = echo(7070), run("nbctl", "status")
            clients.wait_served()
            facts["stored"].append(stored())
        facts["removed"] = run("systemctl", "reload", UNIT)
        facts["gone"] = not connects(7070)
        wait_until("the store has forgotten it", lambda: stored() < facts["stored"][1])
        clients.wait_served()
        must("systemctl", "restart", UNIT)
        clients.wait_served()
        facts["stored"].append(stored())
        facts["clients"] = clients.stop()
    finally:
        must("systemctl", "log-level", "info")
    said = said_since(begin, "MESSAGE", "_PID=1")
    facts["notified"] = [line for line in said if line and "Got notification message" in line]
    return facts


def activation():
    """nbserved.socket alone: the first client starts the service, and is served."""
    must("systemctl", "stop", UNIT)
    must("systemctl", "start", "nbserved.socket")
    facts = {"before": show()["ActiveState"], "echo": {e: echo(p) for e, p in ECHO.items()},
             "after": show()["ActiveState"], "stored": stored()}
    clients = Clients(*(("127.0.0.1", port) for port in ECHO.values()))
    must("systemctl", "restart", UNIT)
    clients.wait_served()
    facts.update(clients.stop())
    facts["closed"] = [line for line in said_since(cursor()) if "closed" in line]
    must("systemctl", "stop", "nbserved.socket", UNIT)
    must("systemctl", "start", UNIT)
    return facts


def low_port():
    """A port below 1024 with the drop-in of the manual: that capability, and no other."""
    with configured("[listener low]\naddress = 127.0.0.1:7\nservice = echo\n"), \
            dropin("AmbientCapabilities=CAP_NET_BIND_SERVICE\n"
                   "CapabilityBoundingSet=CAP_NET_BIND_SERVICE"):
        facts = {"process": process(main_pid())["status"], "echo": echo(7)}
    must("systemctl", "restart", UNIT)
    return facts


def scrape():
    """The status and body that the exporter answers; None while no exporter listens."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:9107/metrics", timeout=LIMIT_SECONDS) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return None


def metrics():
    """The exporter, as a service and a user of its own."""
    must("systemctl", "start", "nbserved-metrics")
    wait_until("the exporter", scrape)
    pid = int(must("systemctl", "show", "-P", "MainPID", "nbserved-metrics"))
    status, body = scrape()
    facts = {"process": process(pid)["status"], "status": status, "body": body[:200]}
    must("systemctl", "stop", "nbserved-metrics")
    return {**facts, "result": must("systemctl", "show", "-P", "Result", "nbserved-metrics").strip()}


def kill():
    """SIGKILL: systemd starts it again, and nothing is in its way."""
    old = main_pid()
    with socket.create_connection(("127.0.0.1", ECHO["epoll"]), timeout=LIMIT_SECONDS) as client:
        client.sendall(b"open when it dies")
        os.kill(old, signal.SIGKILL)
        wait_until("a new main process after SIGKILL", lambda: restarted(old))
    return {"restarts": show()["NRestarts"], "echo": {e: echo(p) for e, p in ECHO.items()},
            "nbctl": run("nbctl", "status")}


def watchdog():
    """Fed often enough while it lives; a daemon that hangs is killed and started again."""
    with dropin(WATCHDOG):
        alive, fed = main_pid(), {show()["WatchdogTimestampMonotonic"]}

        def fed_again():
            fed.add(show()["WatchdogTimestampMonotonic"])
            return len(fed) > 3

        wait_until("it is fed", fed_again)
        facts = {"fed": main_pid() == alive}
        os.kill(alive, signal.SIGSTOP)
        wait_until("a new main process after the watchdog", lambda: restarted(alive))
        facts["restarts"] = show()["NRestarts"]
    return facts


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_CONT, WALL = 0x4206, 0x4207, 7, 0x40000000
RECEIVES = {"x86_64": ("45", "47"), "aarch64": ("207", "212")}[os.uname().machine]  # from, msg


def ptrace(request, tid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(tid), None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


def flood(port, done):
    """Keeps a worker busy."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as client:
        while not done.is_set():
            client.sendall(b"x" * 100_000)


def freeze(pid, name):
    """Stops that one thread in the middle of its work, not while it waits; its TID."""
    tid = next(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()
               if (task / "comm").read_text().strip() == name)
    ptrace(PTRACE_SEIZE, tid)
    while True:
        ptrace(PTRACE_INTERRUPT, tid)
        os.waitpid(tid, WALL)
        call = Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()[0]
        if call in RECEIVES:
            return tid
        ptrace(PTRACE_CONT, tid)


def reaped(tid):
    """Its process does not end before its tracer has seen it end."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(tid, os.WNOHANG | WALL)[0] == tid
    return True


def stalled():
    """One worker of many is stuck while all other threads live: the watchdog must notice it."""
    with configured("[listener sink]\naddress = 127.0.0.1:9010\nservice = discard\nengine = epoll\n"), \
            dropin(WATCHDOG):
        old, begin, done = main_pid(), cursor(), threading.Event()
        busy = threading.Thread(target=flood, args=[9010, done])
        busy.start()
        try:
            tid = freeze(old, "sink/0")
            wait_until("a new main process after the stall", lambda: reaped(tid) and restarted(old))
        finally:
            done.set()
            busy.join()
        facts = {"restarts": show()["NRestarts"], "said": said_since(begin),
                 "echo": {e: echo(p) for e, p in ECHO.items()}}
    must("systemctl", "restart", UNIT)
    return facts


def silence():
    """journald has stopped, and the service continues."""
    begin, old, journald = cursor(), main_pid(), int(must("systemctl", "show", "--value", "-p", "MainPID",
                                                          "systemd-journald.service"))
    os.kill(journald, signal.SIGSTOP)
    try:
        # Each level that changes is said.  What stderr has no room for is in test_log.py: systemd gives it 8 MiB.
        levels = [run("nbctl", "log-level", level)["status"] for _ in range(400) for level in ("debug", "info")]
        facts = {"levels": levels, "echo": {e: echo(p) for e, p in ECHO.items()}}
    finally:
        os.kill(journald, signal.SIGCONT)
    must("journalctl", "--sync")  # it has read, so that there is room for what was lost
    must("nbctl", "log-level", "info")
    facts["same"] = main_pid() == old
    must("journalctl", "--sync")
    return {**facts, "said": said_since(begin)}


def stop():
    """With a connection open: it is drained."""
    ended = Path("/run/ended")
    with dropin(f"ExecStopPost=+/bin/sh -c 'echo $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS >{ended}'"):
        return {**drain(), "ended": ended.read_text().strip()}


def drain():
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", ECHO["io_uring"]), timeout=LIMIT_SECONDS) as client:
        client.sendall(b"hello")
        answer = client.recv(100)
        result = run("systemctl", "stop", UNIT)
        end = client.recv(100)
    return {"stop": result, "seconds": time.monotonic() - begin, "answer": answer.decode(),
            "end": end.decode(), "runtime": os.path.exists("/run/nbserved")}


def bad_config():
    """A wrong file is reported once, with its line, and systemd does not restart the service again and again."""
    good = CONFIG.read_text()
    try:
        CONFIG.write_text(good + "\n[listener broken]\nadress = 127.0.0.1:1\n")
        result = run("systemctl", "start", UNIT)
        time.sleep(1.2)  # RestartSec and more: the property is that nothing happens
        return {"start": result, "unit": show(), "lines": len(good.splitlines()) + 3}
    finally:
        CONFIG.write_text(good)


def late():
    """Errors that time cures are tried again: here a directory, as of a file system that is mounted later."""
    good, missing = CONFIG.read_text(), Path("/var/lib/nbserved/late")
    try:
        CONFIG.write_text(good + f"\n[listener late]\nservice = echo\naddress = unix:{missing}/socket\n")
        run("systemctl", "start", "--no-block", UNIT)
        wait_until("it is tried again", lambda: int(show()["NRestarts"]) > 0)
        missing.mkdir()
        shutil.chown(missing, "nbserved", "nbserved")
        wait_until("it serves", lambda: show()["ActiveState"] == "active")
        return {"stop": run("systemctl", "stop", UNIT)}
    finally:
        CONFIG.write_text(good)


def readme():
    """README's commands for a service, in their order, with its drop-in; what is left of them at the end."""
    told = json.loads(Path(__file__).with_name("readme.json").read_text())
    Path(told["drop_in"]).write_text(told["keys"])
    # nspawn puts one of its own over the kernel's, which the unit's sandbox sees: nbctl then takes them for two hosts.
    must("umount", "/proc/sys/kernel/random/boot_id")
    environment = {**os.environ, **told["environment"]}
    results = []
    for command in told["commands"]:
        if "uninstall" in command:
            must("systemctl", "start", "nbserved-metrics.service")
        done = subprocess.run(["bash", "-euc", f'sudo() {{ "$@"; }}; {command}'], cwd=told["top"], env=environment,
                              capture_output=True, text=True, timeout=5 * LIMIT_SECONDS, stdin=subprocess.DEVNULL)  # fmt: skip
        results.append([command, done.returncode, done.stdout + done.stderr])
    found = must("find", "/usr", "/etc", "-xdev", "-name", "*nbserved*", "-o", "-xdev", "-name", "*nbctl*")
    units = must("systemctl", "list-units", "--all", "--no-legend", "--state=active", "nbserved*")
    return {"results": results, "left": sorted(set(found.split())), "units": units}


def journal():
    """Everything the daemon said, with its fields."""
    lines = must("journalctl", "-o", "json", "--no-pager", "SYSLOG_IDENTIFIER=nbserved").splitlines()
    return [json.loads(line) for line in lines]


def main():
    facts = {}
    for step in (users, analyze, start, traffic, storage, control, unix_socket, paths, restart, reload, activation,
                 low_port, metrics, kill, blocks, watchdog, stalled, silence, stop, bad_config, late, readme,
                 journal):
        begin = time.monotonic()
        try:
            facts[step.__name__] = step()
        except Exception:
            facts[step.__name__] = None
            facts.setdefault("failed", {})[step.__name__] = traceback.format_exc()
        print(f"{step.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
    with contextlib.suppress(Exception):
        print(must("journalctl", "--no-pager", "-u", UNIT))
    Path(__file__).with_name("facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
