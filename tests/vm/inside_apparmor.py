"""Run by `make check-apparmor` in a VM with systemd: the installed service, and some of the system tests,
under packaging/apparmor.nbserved, in complain and then in enforce mode.  Nothing may be refused, nor would be."""

import os
import socket
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NBSERVED_BUILD", TOP / "build"))
# Tests that open files, make sockets or read /proc, in each engine: not all, since the VM's CPU is emulated.
SMOKE = [f"tests/system/daemon/test_{name}.py" for name in ("services", "exports", "nbd", "unix", "http", "udp", "nvme", "netperf")]
CHOSEN = ("discard_drops or nbdinfo or nbdcopy or made_sparse or in_its_own_way or stale_file or abstract_name or "
          "python_keeps or openmetrics_has or the_doctor_tells or echo_of_every_size or wildcard_answers or "
          "nbd_serves_the_same_bytes or connection_for_each_request")  # fmt: skip
PROFILE = Path("/etc/apparmor.d/nbserved")
# The tests' daemons are root's, have their files below /tmp, and are told to stop by tests that run unconfined.
OF_THE_TESTS = "capability,\n/tmp/** rwk,\n/usr/sbin/nbserved mrix,\n"
ELSEWHERE = Path("/root/x.ini")
UNIX = "/var/lib/nbserved/x.sock"
WRAPPER = '#!/bin/sh\nexec aa-exec -p nbserved -- /usr/sbin/nbserved "$@"\n'


def run(*words, check=True, timeout=400, **how):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=timeout, **how)  # fmt: skip
    assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}"
    return done.stdout


def said():
    """AppArmor's log lines on nbserved since the last call."""
    lines = run("dmesg", "--read-clear").splitlines()
    return [line for line in lines if 'profile="nbserved"' in line and ("ALLOWED" in line or "DENIED" in line)]


def confines():
    """Files elsewhere are refused, or would be in complain mode; the log names both."""
    said()
    answer = run("aa-exec", "-p", "nbserved", "--", "/usr/sbin/nbserved", "--check-config", "-c", ELSEWHERE, check=False)
    assert any(f'name="{ELSEWHERE}"' in line for line in said()), answer
    return "Permission denied" in answer


def service():
    """The unit is confined, and does all that it is for."""
    run("systemctl", "restart", "nbserved")
    pid = run("systemctl", "show", "-P", "MainPID", "nbserved").strip()
    label = Path(f"/proc/{pid}/attr/apparmor/current").read_text().strip()
    status = run("nbctl", "status")
    states = dict(line.split()[:2] for line in status.splitlines() if " echo " in line)
    assert [states["echo-" + engine] for engine in ("epoll", "uring", "uring-poll", "unix")] == ["serving"] * 4, status
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(UNIX)
        s.sendall(b"x")
        assert s.recv(1) == b"x"
    for port in (7007, 7008, 7009):
        run("redis-benchmark", "-p", port, "-t", "ping_mbulk", "-n", "2000", "-q")
    for port in (10809, 10810, 10811):
        run("nbdcopy", "--request-size=1048576", "null:", f"nbd://127.0.0.1:{port}/disk0", check=False)
        run("nbdinfo", f"nbd://127.0.0.1:{port}/disk0")
    run("qemu-img", "bench", "-f", "raw", "-w", "-n", "-c", "500", "nbd://127.0.0.1:10809/disk0")
    for words in ("stats", "stats --openmetrics", "connections", "exports", "doctor"):
        run("nbctl", *words.split(), check=False)
    run("systemctl", "reload", "nbserved")
    run("systemctl", "restart", "nbserved")  # sockets by the descriptor store
    run("systemctl", "stop", "nbserved")
    return label


def smoke(build):
    done = run(sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "--reruns", "1", "-k", CHOSEN, *SMOKE, timeout=1500,
               cwd=TOP, env={**os.environ, "NBSERVED_BUILD": str(build)})  # fmt: skip
    return done.strip().splitlines()[-1]


def main():
    enabled = Path("/sys/module/apparmor/parameters/enabled").read_text().strip()
    assert enabled == "Y", "this kernel has AppArmor switched off"
    run("mount", "-t", "securityfs", "securityfs", "/sys/kernel/security", check=False)
    Path("/proc/sys/kernel/printk_ratelimit").write_text("0")
    run("make", "-C", TOP, "-o", "all", f"BUILD={BUILD}", "install")
    run("systemd-sysusers")
    run("systemd-tmpfiles", "--create", "nbserved.conf")
    PROFILE.write_text(Path("/usr/share/nbserved/apparmor.nbserved").read_text())
    build = Path("/var/tmp/confined")
    build.mkdir()
    (build / "nbserved").write_text(WRAPPER)
    (build / "nbserved").chmod(0o755)
    (build / "nbctl").symlink_to("/usr/bin/nbctl")
    ELSEWHERE.write_text("")
    with open("/etc/nbserved/nbserved.ini", "a") as file:
        file.write(f"\n[listener echo-unix]\naddress = unix:{UNIX}\nservice = echo\nengine = epoll\n")
    local = PROFILE.parent / "local/nbserved"
    wrong = []
    for mode, words in (("complain", ["--Complain"]), ("enforce", [])):
        local.unlink(missing_ok=True)
        run("apparmor_parser", "--replace", *words, PROFILE)
        assert confines() == (mode == "enforce")
        label = service()
        assert label == f"nbserved ({mode})", label
        found = said()
        print(f"{mode}: the service is {label}, {len(found)} complaints", flush=True)
        local.write_text(OF_THE_TESTS)
        run("apparmor_parser", "--replace", *words, PROFILE)
        print(f"{mode}: {smoke(build)}", flush=True)
        more = said()
        print(f"{mode}: {len(more)} complaints of the tests", flush=True)
        wrong += found + more
    print("\n".join(sorted({line.split("apparmor=")[-1] for line in wrong})))
    assert not wrong
    print("ok")


main()
