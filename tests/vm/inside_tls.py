"""Run by test_vm_clients.py in the VM: `tls = ktls-tx` and `tls = ktls`, with a kernel that has them."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/system"))
from conftest import TIMEOUT, engine, listener, start_daemon  # noqa: E402,F401
from test_tls import Raw, connect, exchange, pem, sessions  # noqa: E402,F401

MODES = ["ktls-tx", "ktls"]


def kernel_counts():
    """/proc/net/tls_stat: {name: count}."""
    return {name: int(count) for name, count in (line.split() for line in open("/proc/net/tls_stat"))}


@pytest.fixture(scope="module", autouse=True)
def module():
    subprocess.run(["modprobe", "tls"], check=True)


@pytest.fixture
def daemon(start_daemon, engine, pem):
    """Each service in both modes; the kernel's counts and the daemon's are the same at the end."""
    names = [f"{service}-{mode}" for service in ["http", "echo", "discard"] for mode in MODES]
    daemon = start_daemon("".join(
        listener(name, name.split("-")[0], engine, tls=name.split("-", 1)[1], tls_certificate=pem) for name in names))
    before = kernel_counts()
    yield daemon
    for name in names:
        daemon.wait_closed(name)
    stats = [sessions(daemon, name) for name in names]
    after = kernel_counts()
    sent, opened, broken = (after[name] - before[name] for name in ["TlsTxSw", "TlsRxSw", "TlsDecryptError"])
    assert sent == sum(s["kernel_sends"] for s in stats) and opened == sum(s["kernel_receives"] for s in stats)
    assert broken == 0
    assert after["TlsCurrTxSw"] == after["TlsCurrRxSw"] == 0
    # Each session is of one path, whole.
    for name, s in zip(names, stats):
        assert s["kernel_sends"] == s["handshakes"] and s["kernel_refused"] == 0
        assert s["kernel_receives"] == (s["handshakes"] if name.endswith("-ktls") else 0)


def each(daemon, service):
    return [f"{service}-{mode}" for mode in MODES]


def test_https_to_curl_and_wrk(daemon, pem, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(os.urandom(1 << 20))
    for name in each(daemon, "http"):
        url = f"https://127.0.0.1:{daemon.port(name)}"

        def fetch(*arguments):
            return subprocess.run(["curl", "-s", "--fail", "--cacert", pem.with_suffix(".crt"), *arguments],
                                  check=True, stdout=-1, timeout=TIMEOUT).stdout

        assert fetch(f"{url}/") == b"nbserved\n"
        assert len(fetch(f"{url}/bytes/3M")) == 3 << 20
        assert fetch("--data-binary", f"@{body}", f"{url}/echo") == body.read_bytes()
        if shutil.which("wrk"):
            subprocess.run(["wrk", "-t1", "-c4", "-d1", url + "/"], check=True, stdout=-1, timeout=TIMEOUT)
        daemon.wait_closed(name)
        assert sessions(daemon, name)["failed"] == 0


def test_echo_and_an_upload(daemon, pem):
    for mode in MODES:
        with connect(daemon, f"echo-{mode}", pem) as s:
            for size in [1, 4096, 16384, 16385, 500_000]:
                data = os.urandom(size)
                assert exchange(s, data) == data, size
            s.unwrap()
        with connect(daemon, f"discard-{mode}", pem) as s:
            s.sendall(bytes(4 << 20))
            s.unwrap()
        daemon.wait_closed(f"echo-{mode}", accepted=1)
        daemon.wait_closed(f"discard-{mode}", accepted=1)
        assert sessions(daemon, f"discard-{mode}")["plain_in"] == 4 << 20
        counts = sessions(daemon, f"echo-{mode}")
        assert counts["plain_in"] == counts["plain_out"] and counts["truncated"] == 0


def test_data_and_the_end_directly_behind_the_handshake(daemon):
    """All of it arrives with the client's Finished: the kernel opens what was sent before it had the keys."""
    for name in each(daemon, "echo"):
        client, data = Raw(daemon, name), os.urandom(100_000)
        client.socket.sendall(client.flight())
        while True:
            client.pump()
            if last := client.flight():
                break
        client.socket.sendall(last + client.sealed(data) + client.close_notify())
        client.received.write(client.rest())
        assert client.read_to_end() == data  # fails unless close_notify comes last
        daemon.wait_closed(name, accepted=1)
        assert sessions(daemon, name)["truncated"] == 0
