"""What test_rdma.py runs in a VM with systemd: the installed, sandboxed service, with RDMA let in."""
import os
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NBSERVED_BUILD", TOP / "build"))
ADDRESSES = {"rxe": "10.9.0.1", "siw": "10.9.1.1"}
CONFIG = """[server]
[listener rdma]
address = 0.0.0.0:7471
transport = rdma
service = echo
workers = 2
"""


def run(*words, check=True):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=60)
    assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{journal()}"
    return done.stdout


def journal():
    return subprocess.run(["journalctl", "--no-pager", "-u", "nbserved"], capture_output=True, text=True).stdout


def main():
    run("modprobe", "-a", "rdma_rxe", "siw", "ib_uverbs", "rdma_ucm")
    for name, address in ADDRESSES.items():
        run("ip", "link", "add", f"{name}_a", "type", "veth", "peer", "name", f"{name}_b")
        run("ip", "address", "add", f"{address}/24", "dev", f"{name}_a")
        for side in "ab":
            run("ip", "link", "set", f"{name}_{side}", "up")
        run("rdma", "link", "add", f"{name}0", "type", name, "netdev", f"{name}_a")
    run("make", "-C", TOP, "-o", "all", f"BUILD={BUILD}", "install")  # as it was built
    run("systemd-sysusers")
    run("systemd-tmpfiles", "--create", "nbserved.conf")
    Path("/etc/nbserved/nbserved.ini").write_text(CONFIG)
    run("systemctl", "daemon-reload")

    # Without the drop-in there are no devices, and the start says what is missing.
    run("systemctl", "start", "nbserved", check=False)
    assert "nbserved-rdma.conf" in journal() and "DeviceAllow=" in journal(), journal()

    drop_in = Path("/etc/systemd/system/nbserved.service.d")
    drop_in.mkdir(parents=True)
    (drop_in / "rdma.conf").write_text(Path("/usr/share/nbserved/nbserved-rdma.conf").read_text())
    run("systemctl", "daemon-reload")
    run("systemctl", "reset-failed", "nbserved")
    run("systemctl", "start", "nbserved")
    for address in ADDRESSES.values():
        for words in ((4, 4096, 50, 4), (1, 64, 200, 1)):
            out = run(BUILD / "vm/rdma_client", "echo", address, 7471, *words)
            assert out == f"ok {words[0] * words[2]}\n", out
    status = run("nbctl", "status")
    assert "rxe0/1 RoCE" in status and "siw0/1 iWARP" in status, status
    print(run("systemd-analyze", "security", "--no-pager", "nbserved").strip().splitlines()[-1])
    run("systemctl", "stop", "nbserved")
    assert "Result=success" in run("systemctl", "show", "-p", "Result", "nbserved")
    print("ok")


main()
