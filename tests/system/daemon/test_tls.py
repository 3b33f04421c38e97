"""Listeners with `tls = user`, from outside: curl, wrk, openssl s_client, Python's ssl; and hostile clients."""

import contextlib
import hashlib
import json
import os
import pathlib
import pwd
import re
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading

import pytest
from conftest import (NBSERVED, TIMEOUT, as_nobody, check_config, failed_start, is_ready, listener, make_certificate,
                      requires, rows_of, wait_until)
from traffic import receive, receive_all, together

with tempfile.TemporaryDirectory() as _folder:
    if "has no OpenSSL" in check_config(_folder, listener("x", tls="user"))[1]:
        pytest.skip("this build has no OpenSSL", allow_module_level=True)

RECORD = 16384
CIPHERS = {
    "aes-128-gcm": "TLS_AES_128_GCM_SHA256",
    "aes-256-gcm": "TLS_AES_256_GCM_SHA384",
    "chacha20-poly1305": "TLS_CHACHA20_POLY1305_SHA256",
}


def openssl(*arguments, **options):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, stdout=-1, stderr=-1, timeout=TIMEOUT, **options)


def client_context(pem=None):
    """Of a client that checks the server's certificate, if there is one to check it with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(pem)
    context.verify_mode = ssl.CERT_REQUIRED if pem else ssl.CERT_NONE
    if pem:
        context.load_verify_locations(pem.with_suffix(".crt"))
    return context


def connect(daemon, name, pem=None):
    return client_context(pem).wrap_socket(daemon.connect(name), server_hostname="localhost")


def exchange(s, data):
    """Sends and receives at the same time; what came back.  By one thread: Python's sockets of TLS allow no second one."""
    left, back = memoryview(data), bytearray()
    s.setblocking(False)
    while len(back) < len(data):
        try:
            if left:
                left = left[s.send(left[:RECORD]) :]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            part = s.recv(1 << 16)
            assert part, f"ended after {len(back)} of {len(data)} bytes"
            back += part
        except ssl.SSLWantReadError:
            assert is_ready(s, TIMEOUT, output=bool(left)), "nothing came"
    s.settimeout(TIMEOUT)
    return bytes(back)


def sessions(daemon, name):
    return daemon.stats(name)["sessions"]


def secured(name, pem, **keys):
    return listener(name, tls="user", tls_certificate=pem, **keys)


def both(engine, pem, **keys):
    return "".join(secured(s, pem, service=s, engine=engine, **keys) for s in ["http", "echo"])


# ---- The services ----


def test_https_to_curl_wrk_and_h2load(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem))
    url = f"https://localhost:{daemon.port('http')}"
    curl = ["curl", "-s", "--fail", "--cacert", pem.with_suffix(".crt"), "--connect-to", "localhost::127.0.0.1:"]

    def fetch(*arguments):
        return subprocess.run([*curl, *arguments], check=True, stdout=-1, timeout=TIMEOUT).stdout

    assert fetch(f"{url}/") == b"nbserved\n"
    assert len(fetch(f"{url}/bytes/3M")) == 3 << 20
    body = os.urandom(1 << 20)
    assert fetch("--data-binary", f"@{write(pem.parent / engine, body)}", f"{url}/echo") == body
    for command in [["wrk", "-t1", "-c8", "-d1"], ["h2load", "--h1", "-n64", "-c4"], ["hey", "-n", "64", "-c", "4", "-host", "localhost"]]:
        if shutil.which(command[0]):
            subprocess.run([*command, url.replace("localhost", "127.0.0.1") + "/"], check=True, stdout=-1, timeout=TIMEOUT)
    daemon.wait_closed("http")
    stats = daemon.stats("http")
    assert stats["operations"]["get"]["count"] >= 65 and stats["sessions"]["failed"] == 0
    assert stats["sessions"]["plain_out"] < stats["bytes_out"]


def write(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("buffer_size", ["4K", "64K"])
def test_echo_of_records_of_all_sizes(start_daemon, engine, pem, buffer_size):
    daemon = start_daemon(both(engine, pem, buffer_size=buffer_size))
    with connect(daemon, "echo", pem) as s:
        for size in [1, 2, 100, 4095, 4096, RECORD - 1, RECORD, RECORD + 1, 3 * RECORD + 7, 2 << 20]:
            data = os.urandom(size)
            assert exchange(s, data) == data, size
        s.unwrap()
    daemon.wait_closed("echo", accepted=1)
    assert sessions(daemon, "echo")["handshakes"] == 1 and sessions(daemon, "echo")["failed"] == 0
    assert sessions(daemon, "echo")["plain_in"] == sessions(daemon, "echo")["plain_out"]


def test_cpu_time_of_handshakes_is_theirs_alone(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem))
    for _ in range(20):
        with connect(daemon, "echo", pem) as s:
            assert exchange(s, b"x") == b"x"
    stats = daemon.stats("echo")
    of_20, cost = stats["sessions"]["handshake_cpu_ns"], stats["cost"]
    assert stats["sessions"]["handshakes"] == 20
    assert 0 < of_20 < 1.1 * (cost["cpu_user_ns"] + cost["cpu_system_ns"])
    with connect(daemon, "echo", pem) as s:
        assert exchange(s, b"x") == b"x"  # the client's part of a handshake may end before the server's
        of_21 = sessions(daemon, "echo")["handshake_cpu_ns"]
        for _ in range(200):
            assert exchange(s, b"x") == b"x"
        assert of_20 < of_21 == sessions(daemon, "echo")["handshake_cpu_ns"]


def test_discard_and_chargen(start_daemon, engine, pem):
    daemon = start_daemon("".join(secured(s, pem, service=s, engine=engine) for s in ["discard", "chargen"]))
    with connect(daemon, "discard", pem) as s:
        s.sendall(bytes(5 << 20))
        s.unwrap()
    daemon.wait_closed("discard", accepted=1)
    assert sessions(daemon, "discard")["plain_in"] == 5 << 20
    with connect(daemon, "chargen", pem) as s:
        text = receive(s, 1 << 20)
    assert text.startswith(b" !\"#$%&'()*+,-./0123456789") and text[:74 * 95] == text[74 * 95 : 2 * 74 * 95]
    daemon.wait_closed("chargen", accepted=1)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_the_cipher_is_the_only_one(start_daemon, pem, cipher):
    daemon = start_daemon(both("epoll", pem, tls_cipher=cipher))
    with connect(daemon, "echo", pem) as s:
        assert s.version() == "TLSv1.3" and s.cipher()[0] == CIPHERS[cipher]
    assert daemon.status("echo")["tls"]["cipher"] == cipher


def test_rsa_and_a_key_in_another_file(start_daemon, tmp_path):
    pem = make_certificate(tmp_path, "rsa", algorithm="rsa")
    key_first = tmp_path / "key_first.pem"
    write(key_first, pem.with_suffix(".key").read_bytes() + pem.with_suffix(".crt").read_bytes()).chmod(0o600)
    daemon = start_daemon(
        listener("two", tls="user", tls_certificate=pem.with_suffix(".crt"), tls_key=pem.with_suffix(".key"))
        + listener("one", tls="user", tls_certificate=key_first)
    )
    for name in ["one", "two"]:
        with connect(daemon, name, pem) as s:
            assert exchange(s, b"hello") == b"hello"


def test_a_certificate_is_made(start_daemon, engine):
    daemon = start_daemon(listener("http", service="http", engine=engine, tls="user"))
    certificate = ssl.get_server_certificate(("127.0.0.1", daemon.port("http")))
    context = ssl.create_default_context(cadata=certificate)
    with context.wrap_socket(daemon.connect("http"), server_hostname="localhost") as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert receive_all(s).endswith(b"\r\n\r\nnbserved\n")
    assert daemon.status("http")["tls"]["subject"] == "CN=nbserved"
    assert "https://" in daemon.status("http")["example"]
    assert "tls user, OpenSSL 3." in daemon.nbctl("status").stdout


def test_compare_with_and_without_tls(start_daemon, engine, pem, tmp_path):
    """One group, judged as ever: the costs are compared per request, with the bytes of the service."""
    daemon = start_daemon(listener("plain", service="http", engine=engine)
                          + listener("sealed", service="http", engine=engine, tls="user", tls_certificate=pem))
    rows, curl = tmp_path / "rows.jsonl", ["curl", "-skf", "{uri}bytes/64K", "-o", tmp_path / "body"]
    done = daemon.nbctl("compare", "--repeat", "2", "--save", rows, "plain", "sealed", "--", *curl)
    assert f"tls by {daemon.status('sealed')['tls']['library']} with aes-128-gcm" in done.stdout
    assert f"{engine}+tls" in daemon.nbctl("show", rows, "--wide").stdout
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    plain, sealed = ([row for row in saved if row["listener"] == name] for name in ["plain", "sealed"])
    assert all("tls" not in row for row in plain) and all(row["tls"]["cipher"] == "aes-128-gcm" for row in sealed)
    assert max(row["bytes_out"] for row in saved) < (64 << 10) + 200  # no records and no handshake: these are more
    grouped = rows_of(json.loads(daemon.nbctl("show", rows, "--json").stdout))
    assert [("cost" in row["verdicts"], row["listener"]) for row in grouped] == [(False, "plain"), (True, "sealed")]


def test_a_resume_leaves_the_certificates_of_other_listeners_alone(start_daemon, tmp_path):
    """Neither is a changed one taken nor a broken one an error: that is for a reload."""
    pem = make_certificate(tmp_path, "web")
    daemon = start_daemon(listener("web", tls="user", tls_certificate=pem) + listener("echo"))
    before = ssl.get_server_certificate(("127.0.0.1", daemon.port("web")))
    for text in [make_certificate(tmp_path, "other").read_text(), "nonsense"]:
        pem.write_text(text)
        daemon.nbctl("drain", "echo")
        assert daemon.nbctl("resume", "echo").stdout == "Serving again: echo\n"
        assert ssl.get_server_certificate(("127.0.0.1", daemon.port("web"))) == before
    assert daemon.nbctl("reload", check=False).returncode == 1


# ---- Ends ----


def test_close_notify_is_answered_after_all_output(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem))
    client, data = Raw(daemon, "echo"), os.urandom(100_000)
    client.handshake()
    client.socket.sendall(client.sealed(data) + client.close_notify())
    client.received.write(client.rest())
    assert client.read_to_end() == data  # fails unless close_notify comes last
    daemon.wait_closed("echo", accepted=1)
    assert daemon.stats("echo")["connections"]["closed"]["peer"] == 1
    assert sessions(daemon, "echo")["truncated"] == 0


def test_the_service_ends_with_close_notify(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem))
    for request in [b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"nonsense\r\n\r\n"]:
        with connect(daemon, "http", pem) as s:
            s.suppress_ragged_eofs = False
            s.sendall(request)
            assert receive_all(s).startswith(b"HTTP/1.1 ")
    daemon.wait_closed("http", accepted=2)


def test_a_fin_without_close_notify(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem))
    data = os.urandom(50_000)
    with connect(daemon, "echo", pem) as s:
        s.sendall(data)
        socket.socket.shutdown(s, socket.SHUT_WR)
        assert receive_all(s) == data  # half closed: all is answered, and close_notify ends it
    daemon.wait_closed("echo", accepted=1)
    assert sessions(daemon, "echo")["truncated"] == 1


def test_a_client_that_does_not_read(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem, buffers=64))
    with connect(daemon, "http", pem) as slow:
        slow.sendall(b"GET /bytes/32M HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_until(lambda: daemon.stats("http")["tx_blocked"] > 0, "its socket is full")
        with connect(daemon, "http", pem) as other:
            other.sendall(b"GET /bytes/1M HTTP/1.0\r\n\r\n")
            assert len(receive_all(other)) > 1 << 20
        head = receive(slow, 64)
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert len(receive(slow, 30 << 20)) == 30 << 20


def test_many_connections_share_a_small_pool(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem, buffers=16, buffer_size="4K"))
    data = os.urandom(200_000)
    results = []
    together(*[lambda: results.append(exchange(connect(daemon, "echo", pem), data) == data)] * 12)
    assert results == [True] * 12
    daemon.wait_closed("echo", accepted=12)


# ---- Hostile clients ----


class Raw:
    """A client whose records a test can see and change: Python's TLS in memory over a plain socket."""

    def __init__(self, daemon, name, context=None):
        self.socket = daemon.connect(name)
        self.received, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = (context or client_context()).wrap_bio(self.received, self.out, server_hostname="localhost")

    def flight(self):
        """What the client would send next, in its handshake; empty when it is done."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.out.read()

    def pump(self):
        data = self.socket.recv(1 << 16)
        self.received.write(data)
        return data

    def handshake(self):
        done = False
        while not done:
            try:
                self.tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            if data := self.out.read():
                self.socket.sendall(data)
            if not done:
                assert self.pump()

    def reset(self):
        """The socket's close() resets the connection."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def sealed(self, data):
        self.tls.write(data)
        return self.out.read()

    def close_notify(self):
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self.out.read()

    def read_to_end(self):
        """All data up to the server's close_notify."""
        data = b""
        with contextlib.suppress(ssl.SSLZeroReturnError):
            while part := self.tls.read(1 << 16):
                data += part
        return data

    def rest(self):
        """All that the server still sends; a reset also ends it."""
        data = b""
        try:
            while part := self.socket.recv(1 << 16):
                data += part
        except ConnectionResetError:
            pass
        return data


def is_polite(daemon, pem, name="echo"):
    """Another client is served as ever."""
    with connect(daemon, name, pem) as s:
        assert exchange(s, b"polite") == b"polite"


NO_TLS = {"http": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "zeros": bytes(1000),
          "noise": hashlib.shake_256(b"noise").digest(5000), "ssh": b"SSH-2.0-client\r\n",
          "empty records": b"\x16\x03\x01\x00\x00" * 100, "an alert": b"\x15\x03\x03\x00\x02\x02\x28",
          "data before the handshake": b"\x17\x03\x03\x00\x05hello",
          "a record beyond its maximum": b"\x16\x03\x01\xff\xff" + bytes(70_000),
          "a message beyond its maximum": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16380)}


@pytest.mark.one("engine")
@pytest.mark.parametrize("what", NO_TLS)
def test_no_tls_at_all(start_daemon, engine, pem, what):
    daemon = start_daemon(both(engine, pem))
    client = Raw(daemon, "echo")
    client.socket.sendall(NO_TLS[what])
    client.socket.shutdown(socket.SHUT_WR)
    client.rest()
    daemon.wait_closed("echo", accepted=1)
    is_polite(daemon, pem)
    assert sessions(daemon, "echo")["handshakes"] == 1


def test_an_older_version_is_refused_with_an_alert(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem))
    context = client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="(?i)alert (protocol version|handshake failure)"):
        context.wrap_socket(daemon.connect("echo"))
    daemon.wait_closed("echo", accepted=1)
    assert sessions(daemon, "echo")["failed"] == 1
    assert daemon.stats("echo")["connections"]["closed"]["protocol"] == 1
    is_polite(daemon, pem)


def test_single_bytes(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem))
    client = Raw(daemon, "echo")
    while data := client.flight():
        for i in range(len(data)):
            client.socket.sendall(data[i : i + 1])
        if not client.received.pending and client.tls.version() and not client.flight():
            break
        client.pump()
    record = client.sealed(b"hello")
    for i in range(len(record)):
        client.socket.sendall(record[i : i + 1])
    while True:
        client.pump()
        try:
            assert client.tls.read(100) == b"hello"
            break
        except ssl.SSLWantReadError:
            pass
    client.socket.close()


def test_ends_within_each_flight(start_daemon, engine, pem):
    """The client goes after any part of its flights, with a FIN and with a reset."""
    daemon = start_daemon(both(engine, pem))
    count = 0
    for reset in [False, True]:
        for part in [1, 4, 5, 6, 100, -1, 0]:
            client = Raw(daemon, "echo")
            hello = client.flight()
            client.socket.sendall(hello[:part] if part else hello)
            if part == 0:
                client.pump()
                client.socket.sendall(client.flight()[:-1])
            if reset:
                client.reset()
            client.socket.close()
            count += 1
    daemon.wait_closed("echo", accepted=count)
    assert sessions(daemon, "echo")["handshakes"] == 0
    is_polite(daemon, pem)


def test_a_reset_within_a_record(start_daemon, engine, pem):
    """It may arrive together with data that is not answered: the connection ends without another event."""
    daemon = start_daemon(both(engine, pem))
    for _ in range(20):
        client = Raw(daemon, "echo")
        client.handshake()
        record = client.sealed(b"hello")
        client.reset()
        client.socket.sendall(record[:-1])
        client.socket.close()
    daemon.wait_closed("echo", accepted=20)
    is_polite(daemon, pem)


@pytest.mark.parametrize("what", ["a bit is flipped", "a record is left out", "a record comes twice", "plain text"])
def test_changed_records(start_daemon, engine, pem, what):
    daemon = start_daemon(both(engine, pem))
    client = Raw(daemon, "echo")
    client.handshake()
    first, second = client.sealed(b"first"), client.sealed(b"second")
    if what == "a bit is flipped":
        client.socket.sendall(first[:-1] + bytes([first[-1] ^ 1]))
    elif what == "a record is left out":
        client.socket.sendall(second)
    elif what == "a record comes twice":
        client.socket.sendall(first + first)
    else:
        client.socket.sendall(b"first and second\n" * 100)
    data = client.rest()
    assert b"first" not in data and b"second" not in data
    daemon.wait_closed("echo", accepted=1)
    assert sessions(daemon, "echo")["failed"] == 1
    is_polite(daemon, pem)


def test_what_follows_close_notify_is_dropped(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem))
    client = Raw(daemon, "echo")
    client.handshake()
    record = client.sealed(b"last")
    client.socket.sendall(record + client.close_notify() + bytes(1000))
    client.received.write(client.rest())
    assert client.read_to_end() == b"last"
    daemon.wait_closed("echo", accepted=1)
    assert sessions(daemon, "echo")["failed"] == 0


class Client:
    """openssl s_client; the first character of a line is a command, `K` and `k` change keys."""

    def __init__(self, daemon, name, *options):
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{daemon.port(name)}", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def say(self, line, answer):
        """Sends a line, and reads up to a line that has the answer, or to the end."""
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        for said in self.process.stdout:
            if answer and answer in said:
                return

    def end(self):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait(TIMEOUT)


def test_key_updates(start_daemon, engine, pem):
    """`K` asks the server for new keys as well, `k` only changes the client's."""
    daemon = start_daemon(both(engine, pem))
    client = Client(daemon, "echo")
    for i in range(40):
        client.say(b"line %d" % i, b"line %d" % i)
        client.say(b"K" if i % 2 else b"k", b"KEYUPDATE")
    client.say(b"last", b"last")
    client.end()
    daemon.wait_closed("echo", accepted=1)
    assert sessions(daemon, "echo")["failed"] == 0
    is_polite(daemon, pem)


def test_certificates_of_clients_and_renegotiation_are_no_surprise(start_daemon, engine, pem):
    """`R` renegotiates, which TLS 1.3 does not have: s_client ends, and the daemon serves on."""
    daemon = start_daemon(both(engine, pem))
    client = Client(daemon, "echo", "-cert", str(pem), "-key", str(pem))
    client.say(b"hello", b"hello")
    client.say(b"R", None)
    client.end()
    daemon.wait_closed("echo", accepted=1)
    is_polite(daemon, pem)


def test_1000_hostile_handshakes_beside_a_polite_client(start_daemon, engine, pem):
    daemon = start_daemon(both(engine, pem), nofile=4096)
    with connect(daemon, "echo", pem) as polite:
        hello = Raw(daemon, "echo").flight()
        crowd = []
        for i in range(1000):
            s = daemon.connect("echo")
            s.sendall(hello[: len(hello) if i % 2 else len(hello) - 1])
            crowd.append(s)
            if i % 100 == 0:
                assert exchange(polite, b"hello") == b"hello"
        is_polite(daemon, pem)
        assert exchange(polite, b"hello") == b"hello"
        for s in crowd:
            s.close()
    daemon.wait_closed("echo", accepted=1000)


def test_handshakes_are_evicted_oldest_first(start_daemon, pem):
    daemon = start_daemon(both("epoll", pem), nofile=4096)
    crowd = []
    for _ in range(1030):
        s = daemon.connect("echo")
        s.sendall(b"\x16")
        crowd.append(s)
    # On a slow machine they may also have taken more than 10 s.
    wait_until(lambda: sum(sessions(daemon, "echo")[k] for k in ["evicted", "timeouts"]) >= 6, "the oldest are gone")
    assert crowd[0].recv(1) == b""
    for s in crowd:
        s.close()


# ---- Configuration, certificates, reload ----


def test_keys_that_do_not_fit(tmp_path, pem):
    for keys, said in [
        ({"service": "iperf3", "tls": "user"}, "tls: requires a service that TLS can serve (service is iperf3)"),
        ({"transport": "udp", "engine": "epoll", "tls": "user"}, "tls: requires transport = tcp (transport is udp)"),
        ({"tls_cipher": "aes-256-gcm"}, "tls-cipher: requires tls = user (tls is none)"),
        ({"tls_certificate": pem}, "tls-certificate: requires tls = user (tls is none)"),
        ({"tls": "users"}, "tls: expected none, user, ktls-tx or ktls, got 'users' (did you mean 'user'?)"),
        ({"engine": "io_uring", "tls": "ktls", "zero_copy_min": "8K"},
         "zero-copy-min: requires tls = none or user (tls is ktls)"),
        ({"engine": "io_uring", "tls": "ktls", "zero_copy_receive": "copy"},
         "zero-copy-receive: requires tls = none or user (tls is ktls)"),
        ({"address": "unix:/run/x.sock", "tls": "ktls-tx"},
         "address: expected IP:PORT with tls = ktls-tx, got 'unix:/run/x.sock'"),
        ({"tls": "user", "tls_cipher": "rc4"}, "expected aes-128-gcm, aes-256-gcm or chacha20-poly1305, got 'rc4'"),
        ({"service": "discard", "tls": "user", "receive": "drop"}, "receive: requires tls = none (tls is user)"),
    ]:
        status, errors = check_config(tmp_path, listener("x", **keys))
        assert status == 1 and said in errors


def test_files_that_cannot_be_used(start_daemon, tmp_path, pem):
    other = make_certificate(tmp_path, "other")
    encrypted, open_to_all, writable = tmp_path / "encrypted", tmp_path / "open", tmp_path / "writable"
    openssl("ec", "-in", other, "-aes128", "-passout", "pass:secret", "-out", encrypted)
    for path, mode in [(open_to_all, 0o644), (writable, 0o660)]:
        shutil.copy(other, path)
        path.chmod(mode)
    large, empty = write(tmp_path / "large", bytes(300_000)), write(tmp_path / "empty", b"")
    for path in [large, empty, encrypted]:
        path.chmod(0o600)
    os.mkfifo(tmp_path / "fifo")
    for certificate, key, said in [
        (tmp_path / "none", "same", "tls-certificate: cannot read"),
        (tmp_path / "none", "same", "No such file or directory"),
        (tmp_path, "same", "Is a directory"),
        (tmp_path / "fifo", "same", "Not a regular file"),
        (large, "same", "is larger than 256 KiB"),
        (empty, "same", "has no certificate"),
        (open_to_all, "same", "may be read by others; `chmod g-w,o-rwx"),
        (writable, "same", "may be written by others; `chmod g-w,o-rwx"),
        (pem.with_suffix(".crt"), "same", "may be read by others"),
        (pem, other, f"tls-key: the key of '{other}' is not that of the certificate in '{pem}'"),
        (other.with_suffix(".crt"), encrypted, "has no key without a password"),
    ]:
        config = secured("x", certificate, tls_key=key)
        log = failed_start(start_daemon, config, 1)
        assert said in log and "listener 'x'" in log, (said, log)
        errors = check_config(tmp_path, config)[1]
        name = "tls-key" if "tls-key" in log else "tls-certificate"
        line = config.split("\n").index(f"{name} = {key if name == 'tls-key' else certificate}") + 1
        assert f"/check.ini:{line}: [listener x] {name}: " in errors and said.removeprefix("tls-certificate: ") in errors


def test_files_that_another_user_could_replace_are_refused(start_daemon, tmp_path):
    """At the start, by a check of the configuration, and by a reload, which changes nothing."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to give files away")
    owner, both = pwd.getpwnam("nobody").pw_uid, make_certificate(tmp_path, "both")
    key, certificate = both.with_suffix(".key"), both.with_suffix(".crt")
    keys = write(tmp_path / "keys.psk", b"alice:" + b"ab" * 32 + b"\n")
    for path in [key, keys]:
        path.chmod(0o600)
    files = {both: "tls-certificate", certificate: "tls-certificate", key: "tls-key", keys: "tls-psk-file"}
    config = secured("both", both) + secured("two", certificate, tls_key=key) + listener("psk", tls="user", tls_psk_file=keys)
    daemon = start_daemon(config)
    for path, name in files.items():
        said = f"{name}: '{path}' belongs to uid {owner}; expected root or the daemon's user as its owner: `chown root {path}`"
        os.chown(path, owner, -1)
        assert said in daemon.nbctl("reload", check=False).stdout
        assert said in failed_start(start_daemon, config, 1)
        assert said in check_config(tmp_path, config)[1]
        os.chown(path, 0, -1)
    daemon.nbctl("reload")


def test_a_daemon_trusts_files_of_its_own_user_and_of_root():
    with tempfile.TemporaryDirectory() as directory:
        program, nobody = as_nobody(NBSERVED, directory)
        pem = make_certificate(pathlib.Path(directory), "lab")
        errors = []
        for user, mode in [(nobody["user"], 0o600), (0, 0o640), (pwd.getpwnam("daemon").pw_uid, 0o640)]:
            os.chown(pem, user, nobody["group"])
            pem.chmod(mode)
            errors.append(check_config(directory, secured("x", pem), program, **nobody)[1])
    assert errors[:2] == ["", ""] and "belongs to uid" in errors[2]


def test_roots_check_of_a_configuration_trusts_files_of_the_services_user(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give files away")
    pem, users = make_certificate(tmp_path, "lab"), tmp_path / "passwd"
    path, owner = write(tmp_path / "x.ini", secured("x", pem).encode()), 54321
    users.write_text(f"root:x:0:0::/:/bin/sh\nnbserved:x:{owner}:{owner}::/:/bin/false\n")
    check = f"mount --bind {users} /etc/passwd && exec {NBSERVED} -c {path} --check-config"
    for user, said in [(owner, ""), (owner + 1, "belongs to uid")]:
        os.chown(pem, user, -1)
        done = subprocess.run([requires("unshare"), "-m", "sh", "-c", check], stderr=-1, timeout=TIMEOUT, text=True)
        assert said in done.stderr and bool(said) == bool(done.returncode), done.stderr


def test_the_kernels_tls_is_there_or_the_reason_why_not(start_daemon, pem):
    """What the kernel does is tested in a VM (tests/vm/inside_tls.py): not every kernel has the module."""
    modes = ["ktls-tx", "ktls"]
    daemon = start_daemon("".join(listener(mode, tls=mode, tls_certificate=pem, optional="yes") for mode in modes)
                          + listener("plain"))
    checks = {item["name"]: item for item in daemon.call("Doctor")["checks"]}
    has = checks["ktls aes-128-gcm"]["ok"]
    for mode in modes:
        status = daemon.status(mode)
        assert status["state"] == ("serving" if has else "unavailable")
        if has:
            is_polite(daemon, None, mode)
        else:
            assert "this kernel has no TLS" in status["reason"] and "; `modprobe tls`" in status["reason"]
    if not has:
        assert checks["ktls aes-128-gcm"]["fix"].startswith("`modprobe tls`")
        assert "this kernel has no TLS" in failed_start(start_daemon, listener("x", tls="ktls", tls_certificate=pem), 1)


def serial_of(daemon, name):
    return ssl.get_server_certificate(("127.0.0.1", daemon.port(name)))


def test_a_reload_replaces_the_certificate(start_daemon, engine, tmp_path):
    pem = make_certificate(tmp_path, "one")
    daemon = start_daemon(both(engine, pem))
    old = serial_of(daemon, "echo")
    assert daemon.status("echo")["tls"]["subject"] == daemon.status("echo")["tls"]["issuer"] == "CN=one"
    assert daemon.status("echo")["tls"]["days_left"] in [89, 90]
    with connect(daemon, "echo", pem) as s:
        shutil.copy(make_certificate(tmp_path, "two", days=7), pem)
        assert serial_of(daemon, "echo") == old  # not before the reload
        daemon.nbctl("reload")
        assert serial_of(daemon, "echo") != old
        assert exchange(s, b"still") == b"still"  # the old session goes on
    status = daemon.status("echo")["tls"]
    assert status["subject"] == "CN=two" and status["days_left"] in [6, 7]
    assert re.search("certificate of CN=two by CN=two, [67] days left", daemon.nbctl("status").stdout)
    assert re.search("new clients get the certificate of CN=two, for [67] days", daemon.log())


def test_a_reload_with_a_wrong_file_changes_nothing(start_daemon, tmp_path):
    pem = make_certificate(tmp_path, "one")
    daemon = start_daemon(both("epoll", pem))
    old = serial_of(daemon, "echo")
    pem.write_text("nothing")
    said = daemon.nbctl("reload", check=False)
    assert said.returncode and f"[listener echo]: tls-certificate: '{pem}' has no certificate" in said.stdout
    assert serial_of(daemon, "echo") == old and daemon.status("echo")["tls"]["subject"] == "CN=one"
    daemon.call("Drain", listener="echo")


def test_an_expired_certificate_is_served_and_refused_by_the_check(start_daemon, tmp_path):
    pem = make_certificate(tmp_path, "old")
    request, key = tmp_path / "old.csr", tmp_path / "old.key"
    openssl("req", "-new", "-key", key, "-subj", "/CN=old", "-out", request)
    openssl("x509", "-req", "-in", request, "-signkey", key, "-days", "0", "-out", pem.with_suffix(".crt"))
    pem.write_bytes(pem.with_suffix(".crt").read_bytes() + key.read_bytes())
    daemon = start_daemon(both("epoll", pem))
    wait_until(lambda: daemon.status("echo")["tls"]["days_left"] < 0, "it has expired")
    daemon.nbctl("reload")
    assert re.search("certificate of CN=old by CN=old, -[0-9]+ days left", daemon.nbctl("status").stdout)
    is_polite(daemon, None)
    # Before a start it is an error: there is time to replace it.
    assert f"tls-certificate: '{pem}': the certificate of CN=old has expired" in check_config(tmp_path, secured("x", pem))[1]


def test_reloads_under_load(start_daemon, engine, tmp_path):
    pem = make_certificate(tmp_path, "one")
    daemon = start_daemon(both(engine, pem))
    done, failures = threading.Event(), []

    def load():
        while not done.is_set():
            try:
                is_polite(daemon, None)
            except (OSError, AssertionError) as error:
                failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for t in threads:
        t.start()
    for i in range(6):
        shutil.copy(make_certificate(tmp_path, f"next{i}"), pem)
        daemon.nbctl("reload")
    done.set()
    for t in threads:
        t.join()
    assert not failures and daemon.status("echo")["tls"]["subject"] == "CN=next5"


def test_no_core_file_has_the_keys(start_daemon, pem):
    daemon = start_daemon(both("epoll", pem))
    with open(f"/proc/{daemon.pid}/coredump_filter", encoding="ascii") as mask:
        assert int(mask.read(), 16) == 0  # no kind of memory
