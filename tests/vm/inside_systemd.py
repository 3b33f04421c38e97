#!/usr/bin/python3
"""Runs in the container, as root: uses nbserved as an administrator would and writes down what it saw.

One JSON document, facts.json beside this file; test_systemd.py judges it.  A step that fails leaves
its exception in the document and the steps after it still run.
"""
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

UNIT = "nbserved.service"
UNIT_FILE = "/usr/lib/systemd/system/nbserved.service"
CONFIG = Path("/etc/nbserved/nbserved.ini")
DROPIN = Path("/run/systemd/system/nbserved.service.d/test.conf")
NBD = [10809, 10810, 10811]
ECHO = {"epoll": 7007, "io_uring": 7008, "io_uring-poll": 7009}
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
MEMBER = ["setpriv", "--reuid=65534", "--regid=65534", "--groups=nbserved"]


def run(*command):
    """The status and output of a command; never raises for its failure."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return {"status": done.returncode, "out": done.stdout, "err": done.stderr}


def must(*command):
    result = run(*command)
    assert result["status"] == 0, (command, result)
    return result["out"]


def show():
    return dict(line.split("=", 1) for line in must("systemctl", "show", UNIT).splitlines())


def main_pid():
    return int(show()["MainPID"])


def wait_until(what, condition, seconds=10.0):
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
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        for start in range(0, len(sent), 10_000):
            client.sendall(sent[start:start + 10_000])
            while len(received) < start:
                received += client.recv(65536)
        client.shutdown(socket.SHUT_WR)
        while data := client.recv(65536):
            received += data
    return bytes(received) == sent


def process(pid):
    """What the kernel says about a process's rights and limits."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                  if ":\t" in line)
    limits = {line[:26].strip(): line[26:].split()[0]
              for line in Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]}
    return {"status": status, "limits": limits}


@contextlib.contextmanager
def dropin(line):
    """The service, started anew with one more line in its unit."""
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
    """sysusers and tmpfiles have made what the unit needs."""
    must("systemd-sysusers")
    must("systemd-tmpfiles", "--create", "nbserved.conf")
    state = Path("/var/lib/nbserved").stat()
    return {"user": must("getent", "passwd", "nbserved"), "mode": oct(state.st_mode & 0o777),
            "uid": state.st_uid, "nbserved": int(must("id", "-u", "nbserved"))}


def analyze():
    return {"verify": run("systemd-analyze", "verify", UNIT_FILE),
            "security": run("systemd-analyze", "security", "--offline=true", UNIT_FILE)}


def start():
    result = run("systemctl", "start", UNIT)
    unit = show()
    return {"start": result, "unit": unit, "process": process(int(unit["MainPID"])),
            "init": process(1),
            "socket": oct(Path("/run/nbserved/control.sock").stat().st_mode & 0o777)}


def traffic():
    facts = {engine: echo(port) for engine, port in ECHO.items()}
    with socket.create_connection(("127.0.0.1", 9019), timeout=5) as client:
        facts["chargen"] = len(client.recv(4096))
    with socket.create_connection(("127.0.0.1", 9009), timeout=5) as client:
        client.sendall(b"x" * 100_000)
        client.shutdown(socket.SHUT_WR)
        facts["discard"] = client.recv(1) == b""
    return facts


@contextlib.contextmanager
def disk(port):
    """disk(request, offset, length, payload, flags) -> (error, data) of the default export."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        stream = client.makefile("rb")
        stream.read(18)
        client.sendall(struct.pack(">I8sIIIH", 3, b"IHAVEOPT", 7, 6, 0, 0))
        kind = None
        while kind != 1:  # ACK
            _, _, kind, length = struct.unpack(">QIII", stream.read(20))
            stream.read(length)

        def request(command, offset=0, length=0, payload=b"", flags=0):
            client.sendall(struct.pack(">IHHQQI", 0x25609513, flags, command, 7, offset, length)
                           + payload)
            _, error, _ = struct.unpack(">IIQ", stream.read(16))
            return error, stream.read(length) if command == 0 and not error else b""

        yield request


def blocks():
    """What each listener reads of the disk, a byte of each block that storage() wrote."""
    facts = {}
    for port in NBD:
        with disk(port) as request:
            facts[str(port)] = [request(0, i * 4096, 4096)[1][0] for i in range(len(NBD))]
    return facts


def storage():
    """Each listener writes a block, then makes it stable."""
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


def scrape():
    """The status and body that the exporter answers; None while nobody listens."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:9107/metrics", timeout=5) as reply:
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
    with socket.create_connection(("127.0.0.1", ECHO["epoll"]), timeout=5) as client:
        client.sendall(b"open when it dies")
        os.kill(old, signal.SIGKILL)
        wait_until("a new main process after SIGKILL", lambda: restarted(old))
    return {"restarts": show()["NRestarts"], "echo": {e: echo(p) for e, p in ECHO.items()},
            "nbctl": run("nbctl", "status")}


def watchdog():
    """Fed often enough while it lives; a daemon that hangs is killed and started again."""
    with dropin("WatchdogSec=1s"):
        alive = main_pid()
        time.sleep(2.5)  # the property is that nothing happens
        facts = {"fed": main_pid() == alive}
        os.kill(alive, signal.SIGSTOP)
        wait_until("a new main process after the watchdog", lambda: restarted(alive))
        facts["restarts"] = show()["NRestarts"]
    return facts


def stop():
    """With a connection open: it is drained."""
    ended = Path("/run/ended")
    with dropin(f"ExecStopPost=+/bin/sh -c 'echo $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS >{ended}'"):
        return {**drain(), "ended": ended.read_text().strip()}


def drain():
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", ECHO["io_uring"]), timeout=5) as client:
        client.sendall(b"hello")
        answer = client.recv(100)
        result = run("systemctl", "stop", UNIT)
        end = client.recv(100)
    return {"stop": result, "seconds": time.monotonic() - begin, "answer": answer.decode(),
            "end": end.decode(), "runtime": os.path.exists("/run/nbserved")}


def bad_config():
    """A wrong file is said once, with its line; it is not tried again and again."""
    good = CONFIG.read_text()
    try:
        CONFIG.write_text(good + "\n[listener broken]\nadress = 127.0.0.1:1\n")
        result = run("systemctl", "start", UNIT)
        time.sleep(0.7)  # RestartSec and more: the property is that nothing happens
        return {"start": result, "unit": show(), "lines": len(good.splitlines()) + 3}
    finally:
        CONFIG.write_text(good)


def journal():
    """Everything the daemon said, with its fields."""
    lines = must("journalctl", "-o", "json", "--no-pager", f"_SYSTEMD_UNIT={UNIT}").splitlines()
    return [json.loads(line) for line in lines]


def main():
    facts = {}
    for step in (users, analyze, start, traffic, storage, control, unix_socket, metrics, kill, blocks,
                 watchdog, stop, bad_config, journal):
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
