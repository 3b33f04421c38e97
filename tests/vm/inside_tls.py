"""Run by test_vm_disks.py in the VM: `tls = ktls-tx` and `tls = ktls`, with a kernel that has them."""
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/system"), str(TOP / "tests/system/daemon")]
from conftest import TIMEOUT, engine, listener, start_daemon, wait_until  # noqa: E402,F401
from test_nbd_tls import OPT_LIST, OPT_STARTTLS, REP_ACK, option, pem, run, secure  # noqa: E402,F401
from test_nbd_tls import Raw as NbdClient  # noqa: E402
from test_tls import Client, Raw, connect, exchange, is_polite, receive_all, sessions  # noqa: E402

MODES = ["ktls-tx", "ktls"]
SERVICES = ["http", "echo", "discard", "nbd"]
SIZE = 1 << 20
EXPORT = f"[export disk]\nsize = {SIZE}\nstore = memory\n"


def kernel_counts():
    """/proc/net/tls_stat: {name: count}."""
    return {name: int(count) for name, count in (line.split() for line in open("/proc/net/tls_stat"))}


@pytest.fixture(scope="module", autouse=True)
def module():
    subprocess.run(["modprobe", "tls"], check=True)


@pytest.fixture
def daemon(start_daemon, engine, pem):
    """Each service in both modes; the kernel's counts and the daemon's are the same at the end."""
    names = [f"{service}-{mode}" for service in SERVICES for mode in MODES]
    sections = [
        listener(name, service, engine, tls=mode, tls_certificate=pem, **({"exports": "disk"} if service == "nbd" else {}))
        for name in names for service, mode in [name.split("-", 1)]
    ]
    daemon = start_daemon(EXPORT + "".join(sections))
    daemon.broken, before = 0, kernel_counts()
    yield daemon
    for name in names:
        daemon.wait_closed(name)
    stats = [sessions(daemon, name) for name in names]
    after = kernel_counts()
    sent, opened, broken = (after[name] - before[name] for name in ["TlsTxSw", "TlsRxSw", "TlsDecryptError"])
    assert sent == sum(s["kernel_sends"] for s in stats) and opened == sum(s["kernel_receives"] for s in stats)
    assert broken == daemon.broken
    assert after["TlsCurrTxSw"] == after["TlsCurrRxSw"] == 0
    # Each session is of one path, whole.
    for name, s in zip(names, stats):
        assert s["kernel_sends"] == s["handshakes"] and s["kernel_refused"] == 0
        assert s["kernel_receives"] == (s["handshakes"] if name.endswith("-ktls") else 0)


def each(service):
    return [f"{service}-{mode}" for mode in MODES]


def test_https_to_curl_and_wrk(daemon, pem, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(os.urandom(1 << 20))
    for name in each("http"):
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
    for name in each("echo"):
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


def test_a_slow_reader_gets_all_and_close_notify(daemon, pem):
    """The kernel holds sealed records for which the socket has no room: these must not be lost at the end."""
    for name in each("http"):
        with connect(daemon, name, pem) as s:
            s.suppress_ragged_eofs = False  # an end without close_notify is an error
            s.sendall(b"GET /bytes/8M HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            wait_until(lambda name=name: daemon.stats(name)["tx_blocked"] > 0, "its socket is full")
            head, body = receive_all(s).split(b"\r\n\r\n", 1)
            assert len(body) == 8 << 20, head
        daemon.wait_closed(name, accepted=1)


def test_other_keys_end_the_connection(daemon, pem):
    """`K` wants new keys of the server as well, `k` only changes the client's, which the library can follow."""
    for mode in MODES:
        client = Client(daemon, f"echo-{mode}")
        client.say(b"first", b"first")
        if mode == "ktls-tx":
            client.say(b"k", b"KEYUPDATE")
            client.say(b"second", b"second")
        client.say(b"K", b"KEYUPDATE")
        with contextlib.suppress(BrokenPipeError):
            client.say(b"third", None)
            client.end()
        daemon.wait_closed(f"echo-{mode}", accepted=1)
        assert sessions(daemon, f"echo-{mode}")["key_updates"] == 1
        is_polite(daemon, pem, f"echo-{mode}")


def test_a_changed_record_ends_the_connection(daemon, pem):
    daemon.broken = 1  # those of ktls-tx are the library's
    for name in each("echo"):
        client = Raw(daemon, name)
        client.handshake()
        record = client.sealed(b"first")
        client.socket.sendall(record[:-1] + bytes([record[-1] ^ 1]))
        assert b"first" not in client.rest()
        daemon.wait_closed(name, accepted=1)
        assert sessions(daemon, name)["failed"] == 1
        is_polite(daemon, pem, name)


def test_a_client_that_does_not_get_far(daemon, pem):
    """No handshake, part of one, other bytes, a reset: the connection ends, and other clients are not affected."""
    for name in each("echo"):
        for part in [0, 1, 100, None]:
            client = Raw(daemon, name)
            client.socket.sendall(client.flight()[:part])
            client.socket.close()
        client = Raw(daemon, name)
        client.socket.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.rest()
        client = Raw(daemon, name)
        client.handshake()
        client.reset()
        client.socket.sendall(client.sealed(b"hello")[:-1])
        client.socket.close()
        daemon.wait_closed(name, accepted=6)
        assert sessions(daemon, name)["timeouts"] == 0
        is_polite(daemon, pem, name)


def test_nbdinfo_and_nbdcopy_in_ktls(daemon, pem, tmp_path):
    disk, back = tmp_path / "disk", tmp_path / "back"
    disk.write_bytes(os.urandom(SIZE))
    for name in each("nbd"):
        uri = f"nbds://127.0.0.1:{daemon.port(name)}/disk?tls-certificates={pem.parent}"
        assert f"export-size: {SIZE}" in run("nbdinfo", uri)
        run("nbdcopy", disk, uri)
        run("nbdcopy", uri, back)
        assert back.read_bytes() == disk.read_bytes()
        daemon.wait_closed(name)
        counts = sessions(daemon, name)
        assert counts["failed"] == 0 and counts["plain_in"] > SIZE and counts["plain_out"] > SIZE


def test_starttls_in_ktls(daemon):
    """In pieces; with something behind it; from clients that go before and after it."""
    for name in each("nbd"):
        client = NbdClient(daemon, name)
        for byte in option(OPT_STARTTLS):
            client.send(bytes([byte]))
        assert client.option_replies() == [(REP_ACK, b"")]
        with secure(client):
            client.go(b"disk")
        for behind in [option(OPT_LIST), b"\x16"]:
            with NbdClient(daemon, name) as client:
                client.send(option(OPT_STARTTLS) + behind)
                assert client.is_closed()
        for bytes_sent in [0, 4, 16]:
            with NbdClient(daemon, name) as client:
                client.send(option(OPT_STARTTLS)[:bytes_sent])
        daemon.wait_closed(name, accepted=6)
        counts = sessions(daemon, name)
        assert counts["handshakes"] == 1 and counts["timeouts"] == counts["failed"] == 0
        assert daemon.stats(name)["connections"]["closed"]["protocol"] == 2


@pytest.mark.parametrize("cipher", ["aes-256-gcm", "chacha20-poly1305"])
def test_ciphers_of_the_kernel(start_daemon, pem, cipher):
    """Linux 7.3 is run without the modules of the second one: then the listeners say so."""
    daemon = start_daemon(listener("plain") + "".join(
        listener(f"echo-{mode}", tls=mode, tls_cipher=cipher, optional="yes") for mode in MODES))
    has = {item["name"]: item["ok"] for item in daemon.call("Doctor")["checks"]}[f"ktls {cipher}"]
    for name in each("echo"):
        if not has:
            assert f"does not take {cipher}" in daemon.status(name)["reason"]
            continue
        is_polite(daemon, None, name)
        assert sessions(daemon, name)["kernel_sends"] == 1
        assert daemon.status(name)["tls"]["driver"]
