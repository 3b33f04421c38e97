"""The http service: generators as they are, and raw sockets for what no generator sends."""

import functools
import hashlib
import http.client
import re
import socket
import time

import pytest
from conftest import TIMEOUT, listener, requires, run, wait_until
from traffic import Exchange, Sender, connect, noise, receive, receive_all, send_until_stuck

KIB, MIB = 1024, 1024 * 1024
ROOT = (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n%s\r\nnbserved\n")
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def pattern(size):
    line = bytes(range(ord("0"), ord("0") + 63)) + b"\n"
    return (line * (size // 64 + 1))[:size]


@pytest.fixture
def daemon(start_daemon, engine):
    daemon = start_daemon(listener("http", service="http", engine=engine))
    yield daemon
    daemon.wait_closed("http")
    pool = daemon.stats("http")["pool"]
    # One holds the pattern, one is what short replies are written into, eight are their reserve.
    assert pool["free"] >= pool["chunks"] - 10


def counts(daemon):
    return {name: o["count"] for name, o in daemon.stats("http")["operations"].items()}


def url(daemon, path="/"):
    return "http://%s:%d%s" % (*daemon.addresses("http")[0], path)


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def exchange(daemon, data, fin=True):
    """All that comes back for data, until the daemon ends the connection."""
    with daemon.connect("http") as s:
        s.sendall(data)
        if fin:
            s.shutdown(socket.SHUT_WR)
        return receive_all(s)


# ---- Generators ----


def test_wrk(daemon):
    text = run(requires("wrk"), "-t1", "-c32", "-d1", "--timeout=60", url(daemon))
    assert number(r"(\d+) requests in", text) > 0
    assert "Non-2xx" not in text and "Socket errors" not in text
    assert counts(daemon)["get"] >= number(r"(\d+) requests in", text)
    assert counts(daemon)["refused"] == 0


def test_h2load(daemon):
    """Two at a time in each connection: HTTP/1.1's pipelining."""
    tool = requires("h2load")
    text = run(tool, "--h1", "-n", "20000", "-c", "10", "-m", "2", url(daemon))
    assert "20000 succeeded, 0 failed, 0 errored" in text
    assert counts(daemon)["get"] == 20000


@pytest.mark.parametrize("keep_alive", [True, False])
def test_ab(daemon, keep_alive):
    """HTTP/1.0: ab -k must be told that the connection stays."""
    requests = 5000 if keep_alive else 1000
    options = ["-k"] if keep_alive else []
    text = run(requires("ab"), "-q", *options, "-n", str(requests), "-c", "8", url(daemon))
    assert number(r"Complete requests:\s+(\d+)", text) == requests
    assert number(r"Failed requests:\s+(\d+)", text) == 0
    assert number(r"HTML transferred:\s+(\d+)", text) == 9 * requests
    if keep_alive:
        assert number(r"Keep-Alive requests:\s+(\d+)", text) == requests
    else:
        accepted = daemon.stats("http")["connections"]["accepted"]
        assert requests <= accepted <= requests + 8
    assert counts(daemon)["get"] >= requests


def test_hey(daemon, tmp_path):
    """Go's client, which few others are like; it keeps connections, or makes one for each request."""
    body = tmp_path / "body"
    body.write_bytes(noise(20 * KIB))
    runs = [
        (["-n", "2000"], "/"),
        (["-n", "200", "-disable-keepalive"], "/bytes/64K"),
        (["-n", "400", "-m", "POST", "-D", str(body)], "/echo"),
        (["-n", "400", "-m", "HEAD"], "/"),
    ]
    for options, path in runs:
        text = run(requires("hey"), "-c", "4", *options, url(daemon, path))
        assert number(r"\[200\]\s+(\d+) responses", text) == int(options[1]), text
        assert "Error distribution" not in text, text
    assert [counts(daemon)[name] for name in ["get", "bytes", "echo", "head"]] == [2000, 200, 400, 400]


def test_curl(daemon, tmp_path):
    """Big bodies both ways, with and without a length, with Expect: 100-continue."""
    fetch = functools.partial(run, text=False)
    curl = [requires("curl"), "-sS", "--fail", "--max-time", str(TIMEOUT)]
    assert fetch(*curl, url(daemon)) == b"nbserved\n"
    assert fetch(*curl, "--http1.0", url(daemon)) == b"nbserved\n"
    assert fetch(*curl, url(daemon, "/bytes/20M")) == pattern(20 * MIB)
    assert b"Content-Length: 5368709120\r\n" in fetch(*curl, "-I", url(daemon, "/bytes/5G"))
    assert b"Content-Length: 1099511627776\r\n" in fetch(*curl, "-I", url(daemon, "/bytes/1T"))
    data = noise(10 * MIB)
    body = tmp_path / "body"
    body.write_bytes(data)
    post = [*curl, "-H", "Expect: 100-continue", "--data-binary", f"@{body}"]
    for options in ([], ["-H", "Transfer-Encoding: chunked"], ["--http1.0"]):
        if "--http1.0" in options:
            options.append("-HExpect:")
        got = fetch(*post, *options, url(daemon, "/echo"))
        assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
        assert fetch(*post, *options, url(daemon, "/discard")) == b""
    assert counts(daemon)["echo"] == counts(daemon)["discard"] == 3
    for path, status in (("/nothing", b"404"), ("/bytes/1025G", b"404"), ("/echo", b"405")):
        told = fetch(curl[0], "-s", "-o", "/dev/null", "-w", "%{http_code}", url(daemon, path))
        assert told == status


def test_python_keeps_its_connection(daemon):
    host, port = daemon.addresses("http")[0]
    client = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    for size in (0, 1, 63, 64, 16 * KIB, 100 * KIB + 1):
        client.request("GET", f"/bytes/{size}")
        assert client.getresponse().read() == pattern(size)
        client.request("POST", "/echo", noise(size))
        assert client.getresponse().read() == noise(size)
        pieces = [b"a", noise(size), b"z" * 70000]
        client.request("POST", "/echo", iter([p for p in pieces if p]), encode_chunked=True)
        assert client.getresponse().read() == b"".join(pieces)
        client.request("HEAD", "/")
        assert client.getresponse().read() == b""
        client.request("PUT", "/", b"body")
        answer = client.getresponse()
        assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD")
        answer.read()
    client.close()
    assert daemon.stats("http")["connections"]["accepted"] == 1


# ---- Framing ----


def stream():
    """Requests of every kind, and all that comes back."""
    data, expected = [], []
    for seed in range(20):
        body = noise(seed * 700, seed)
        data.append(GET)
        expected.append(ROOT % b"")
        data.append(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
        expected.append(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        chunk = b"%x\r\n" % (len(body) + 1) + body + b"!\r\n0\r\n\r\n"
        data.append(POST + CHUNKED + b"\r\n" + chunk)
        expected.append(head + CHUNKED + b"\r\n" + chunk)
        data.append(b"GET /bytes/%d HTTP/1.1\r\nHost: x\r\n\r\n" % (seed * 5000))
        expected.append(head + b"Content-Length: %d\r\n\r\n" % (seed * 5000) + pattern(seed * 5000))
    return b"".join(data), b"".join(expected)


def exchange_streams(daemon, count):
    """`count` connections at once, each with the stream at random splits."""
    data, expected = stream()
    address = daemon.addresses("http")[0]
    exchanges = [Exchange(connect(address), data, seed) for seed in range(count)]
    end = time.monotonic() + TIMEOUT
    while not all(e.ended for e in exchanges) and time.monotonic() < end:
        for e in exchanges:
            try:
                if e.is_sending():
                    e.send()
                if not e.ended:
                    e.receive()
            except BlockingIOError:
                pass
    for e in exchanges:
        assert e.ended and e.received == expected
        e.socket.close()


def test_any_split_gives_the_same_bytes(daemon):
    exchange_streams(daemon, 8)


def test_pipelining_answers_many_in_a_send(daemon):
    before = daemon.stats("http")["cost"]["syscalls"]
    with daemon.connect("http") as s:
        sender = Sender(s, GET * 10000)
        assert receive_all(s) == (ROOT % b"") * 10000
        sender.finish()
    after = daemon.stats("http")["cost"]["syscalls"]
    assert counts(daemon)["get"] == 10000
    total = sum(after.values()) - sum(before.values()) if isinstance(after, dict) else after - before
    assert total < 5000


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("head, status", [
    (b"GET / HTTP/1.1", 200),
    (b"HEAD / HTTP/1.1", 200),
    (b"OPTIONS / HTTP/1.1", 405),
    (b"GET /nothing HTTP/1.1", 404),
    (b"PUT / HTTP/1.1", 405),
    (b"FOO / HTTP/1.1", 501),
    (b"POST /echo HTTP/1.1\r\nExpect: 100-continue", 200),
])  # fmt: skip
def test_a_request_within_a_body_is_not_answered(daemon, head, status, single):
    """Whatever the method is, and whether its body was asked for: the next request is the one behind the body."""
    length = b"%s\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (head, len(GET)) + GET
    chunked = b"%s\r\nHost: x\r\n%s\r\n%x\r\n" % (head, CHUNKED, len(GET)) + GET + b"\r\n0\r\n\r\n"
    last = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with daemon.connect("http") as s:
        for piece in [length, chunked, last] if not single else [bytes([b]) for b in length + chunked + last]:
            s.sendall(piece)
        got = [int(n) for n in re.findall(rb"HTTP/1.1 (\d+) ", receive_all(s))]
    assert [n for n in got if n != 100] == [status, status, 404]


def test_an_error_is_read_before_the_connection_is_reset(daemon):
    """The client is still sending a large body when it is refused."""
    with daemon.connect("http") as s:
        s.sendall(b"GET / HTTP/1.1\n\r\n" + bytes(3 * MIB))
        assert receive(s, 12) == b"HTTP/1.1 400"


@pytest.mark.parametrize("drain", [False, True])
def test_the_last_reply_is_read_before_the_connection_is_reset(start_daemon, engine, drain):
    """The client continues to send after a request that ends the connection: the server ends its output after the
    reply, and still reads."""
    daemon = start_daemon(listener("http", service="http", engine=engine))
    with daemon.connect("http") as s:
        if drain:
            s.sendall(POST + b"Content-Length: 5\r\n\r\nhel")
            wait_until(lambda: daemon.stats("http")["bytes_in"] > 40, "it has the request")
            daemon.process.terminate()
            wait_until(lambda: "draining" in daemon.log(), "it drains")
            s.sendall(b"lo" + GET * 30000)
        else:
            s.sendall(POST + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello" + GET * 30000)
        last = receive_all(s).rpartition(b"HTTP/1.1 200")[2]  # a worker that is not told yet answers more
        assert b"Connection: close" in last and last.endswith((b"hello", b"nbserved\n"))
        s.sendall(b"x")
    if drain:
        assert daemon.process.wait(TIMEOUT) == 0


# ---- Bounds ----


def quiet(daemon):
    """The listener's turns have stopped: no thread spins."""
    state = {}

    def is_quiet():
        before = state.get("turns")
        state["turns"] = daemon.stats("http")["cost"]["turns"]
        time.sleep(0.05)
        return state["turns"] == before

    wait_until(is_quiet, "all blocked connections sleep")


def test_a_client_that_asks_for_much_and_never_reads_costs_little(daemon):
    clients = [connect(daemon.addresses("http")[0], receive_buffer=16 * KIB) for _ in range(20)]
    for s in clients:
        s.sendall(b"GET /bytes/1000M HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_until(lambda: daemon.stats("http")["tx_blocked"] >= 20, "all are blocked")
    quiet(daemon)
    stats = daemon.stats("http")
    assert stats["bytes_out"] < 20 * 8 * MIB
    assert stats["pool"]["free"] >= stats["pool"]["chunks"] - 30
    with daemon.connect("http") as s:
        s.sendall(GET)
        assert receive(s, len(ROOT) - 2) == ROOT % b""
    for s in clients[:10]:
        s.close()
    for s in clients[10:]:  # a client that reads late gets all of it
        got = receive(s, 3 * MIB)
        assert got.split(b"\r\n\r\n", 1)[1] == pattern(3 * MIB)[: len(got) - got.index(b"\r\n\r\n") - 4]
        s.close()


def test_a_client_that_pipelines_and_never_reads_is_paused(daemon):
    with connect(daemon.addresses("http")[0], receive_buffer=16 * KIB) as s:
        sent = send_until_stuck(s, GET * 1000, len(GET), 64 * MIB, lambda: quiet(daemon))
        s.setblocking(True)
        s.settimeout(TIMEOUT)
        s.shutdown(socket.SHUT_WR)
        answered = sent // len(GET)
        assert receive_all(s) == (ROOT % b"") * answered


def test_a_small_pool_serves_all(start_daemon, engine):
    daemon = start_daemon(listener("http", service="http", engine=engine, buffers=16, buffer_size="4K"))
    exchange_streams(daemon, 4)


def test_a_latency_sample_stands_for_all_requests_of_its_flush(daemon):
    """Requests that come together and are answered together waited as long as each other."""
    with daemon.connect("http") as s:
        for _ in range(400):
            s.sendall(GET * 32)
            receive(s, 32 * len(ROOT % b""))
    wait_until(lambda: counts(daemon)["get"] == 400 * 32, "all are counted")
    samples = daemon.stats("http")["operations"]["get"]["latency_ns"]["count"]
    assert samples > 0 and samples % 32 == 0


def test_the_length_of_turns_is_sampled(daemon):
    with daemon.connect("http") as s:
        for _ in range(3000):
            s.sendall(GET)
            receive(s, len(ROOT % b""))
    cost = daemon.stats("http")["cost"]
    assert 0 < cost["turn_ns"]["count"] <= cost["turns"] / 8
    assert 0 < cost["turn_ns"]["min"] <= cost["turn_ns"]["max"]
