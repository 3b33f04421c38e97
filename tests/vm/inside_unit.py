"""Run by test_vm_unit.py in a VM with systemd: the installed, sandboxed service, with RDMA or frames let in."""
import json
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NBSERVED_BUILD", TOP / "build"))
ADDRESSES = {"rxe": "10.9.0.1", "siw": "10.9.1.1"}
# Of the installed configuration.
RDMA = ["echo-rdma", "rping-rdma", "fio-rdma", "nvme-rdma", "perftest-rdma", "perftest-lat-rdma"]
DROP_IN = Path("/etc/systemd/system/nbserved.service.d/rdma.conf")
NEEDED = Path("/etc/nbserved/conf.d/needed.ini")
FRAMES = NEEDED.with_name("frames.ini")
SO_NO_CHECK = 11
# LeakSanitizer, of a build that has it, wants ptrace(2), which the sandbox forbids.
NO_LEAKS = "\n[Service]\nEnvironment=ASAN_OPTIONS=detect_leaks=0\n"


def run(*words, check=True):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=300)
    assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{journal()}"
    return done.stdout


def journal():
    return subprocess.run(["journalctl", "--no-pager", "-u", "nbserved"], capture_output=True, text=True).stdout


def start(drop_in, check=True):
    DROP_IN.parent.mkdir(parents=True, exist_ok=True)
    DROP_IN.write_text(drop_in + NO_LEAKS)
    run("systemctl", "daemon-reload")
    run("systemctl", "reset-failed", "nbserved", check=False)
    run("systemctl", "restart", "nbserved", check=check)


def rdma_listeners():
    """[(state, reason), ...]; all others serve, and no error is logged."""
    status = json.loads(run("nbctl", "status", "--json"))
    listeners = {listener["name"]: listener for listener in status["listeners"]}
    rdma = [listeners.pop(name) for name in RDMA]
    assert {listener["state"] for listener in listeners.values()} == {"serving"}, status
    return [(listener["state"], listener.get("reason", "")) for listener in rdma]


def is_unavailable(*reasons):
    for state, reason in rdma_listeners():
        assert state == "unavailable" and all(part in reason for part in reasons), reason


def clients():
    """Use of the installed listeners, over both devices."""
    for name, address in ADDRESSES.items():
        for words in (("-C", 20), ("-C", 5, "-S", 65535)):
            # Its threads race at its end (inside_remote.py), when all is done.
            out = run("rping", "-c", "-V", "-v", "-a", address, "-p", 7174, *words, check=False)
            assert out.count("ping data: ") == words[1], out
        for words in ((4, 4096, 50, 4), (1, 64, 200, 1)):
            out = run(BUILD / "vm/rdma_client", "echo", address, 7010, *words)
            assert out == f"ok {words[0] * words[2]}\n", out
        run("fio", "--name=f", "--thread", "--ioengine=rdma", f"--hostname={address}", "--port=7175", "--verb=write",
            "--rw=write", "--bs=4k", "--iodepth=4", "--size=1M")
        found = run("nvme", "discover", "-t", "rdma", "-a", address, "-s", 4422)
        assert "subtype: nvme subsystem" in found, found
        print(f"{name}: rping, echo, fio and nvme are served")


def frames():
    """A listener with engine af_xdp: without the drop-in unavailable, with it by frames, inside the unit's sandbox."""
    for words in ("netns add far", "link add near type veth peer name far netns far", "address add 10.9.2.1/24 dev near",
                  "link set near up", "-n far address add 10.9.2.2/24 dev far", "-n far link set far up"):
        run("ip", *words.split())
    FRAMES.parent.mkdir(exist_ok=True)
    FRAMES.write_text("[listener frames]\naddress = 10.9.2.1:7011\nservice = echo\ntransport = udp\noptional = yes\n"
                      "engine = af_xdp\nxdp-queues = near:0\n")
    drop_in = Path("/usr/share/nbserved/nbserved-xdp.conf").read_text()
    parts = [line for line in drop_in.splitlines() if "=" in line and not line.startswith("#")]
    assert len(parts) == 4, parts
    for without in [drop_in, *parts]:
        start(drop_in.replace(without, ""))
        status = json.loads(run("nbctl", "status", "--json"))
        (found,) = [each for each in status["listeners"] if each["name"] == "frames"]
        report = json.loads(run("nbctl", "doctor", "--json", check=False))
        (told,) = [each for each in report["listeners"] if each["name"] == "frames"]
        assert found["state"] == "unavailable" and not told["available"], (without, found, told)
        for said in found["reason"], told["reason"] + told["fix"]:
            assert "af_xdp" in said and "nbserved-xdp.conf" in said, (without, said)
        print(f"without {without!r}: {found['reason']}" if without != drop_in else f"as installed: {found['reason']}")
    start(drop_in)
    assert "xdp" in run("ip", "link", "show", "near")
    ask = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
           f"s.setsockopt(socket.SOL_SOCKET, {SO_NO_CHECK}, 1)\ns.settimeout(60)\ns.connect(('10.9.2.1', 7011))\n"
           "for i in range(100):\n    s.send(b'%d' % i)\n    assert s.recv(100) == b'%d' % i\n")
    run("ip", "netns", "exec", "far", "/usr/bin/python3", "-c", ask)
    (stats,) = [each for each in json.loads(run("nbctl", "stats", "--json"))["listeners"] if each["name"] == "frames"]
    assert stats["udp"]["frames_in"] == stats["udp"]["frames_out"] == 100, stats
    print(run("systemd-analyze", "security", "--no-pager", "nbserved").strip().splitlines()[-1])
    run("systemctl", "kill", "--signal=KILL", "nbserved")
    run("systemctl", "stop", "nbserved")
    assert "xdp" not in run("ip", "link", "show", "near")


def rdma():
    run("modprobe", "-a", "rdma_rxe", "siw", "ib_uverbs", "rdma_ucm", "nvme-rdma")
    for name, address in ADDRESSES.items():
        run("ip", "link", "add", f"{name}_a", "type", "veth", "peer", "name", f"{name}_b")
        run("ip", "address", "add", f"{address}/24", "dev", f"{name}_a")
        for side in "ab":
            run("ip", "link", "set", f"{name}_{side}", "up")
        run("rdma", "link", "add", f"{name}0", "type", name, "netdev", f"{name}_a")
    drop_in = Path("/usr/share/nbserved/nbserved-rdma.conf").read_text()

    # As installed: no devices are let in.
    start("")
    is_unavailable("nbserved-rdma.conf", "DeviceAllow=")
    said = journal()
    assert said.count(": unavailable: ") == 1 and "librdmacm" not in said and "libibverbs" not in said, said

    # A host that allows only half is told of the other half.
    start(drop_in.replace("RestrictAddressFamilies=", "#"))
    is_unavailable("RestrictAddressFamilies=AF_NETLINK", "nbserved-rdma.conf")

    # A listener that is not optional stops the start.
    NEEDED.parent.mkdir(exist_ok=True)
    NEEDED.write_text("[listener echo-rdma]\noptional = no\n")
    start("", check=False)
    assert run("systemctl", "is-failed", "nbserved").strip() == "failed"
    assert "listener 'echo-rdma' (" in journal(), journal()
    NEEDED.unlink()

    start(drop_in)
    assert rdma_listeners() == [("serving", "")] * len(RDMA)
    clients()
    status = run("nbctl", "status")
    assert "rxe0/1 RoCE" in status and "siw0/1 iWARP" in status, status
    print(run("systemd-analyze", "security", "--no-pager", "nbserved").strip().splitlines()[-1])
    run("systemctl", "stop", "nbserved")
    assert "Result=success" in run("systemctl", "show", "-p", "Result", "nbserved"), journal()


run("make", "-C", TOP, "-o", "all", f"BUILD={BUILD}", "install")  # as it was built
run("systemd-sysusers")
run("systemd-tmpfiles", "--create", "nbserved.conf")
{"rdma": rdma, "frames": frames}[sys.argv[1]]()
print("ok")
