"""What the http service says to each request that public lists of probes send: RFC 9110 and 9112, by section."""

import re
import socket

import pytest
from conftest import listener
from traffic import receive_all

HOST = b"Host: x\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"  # 404, if the connection still serves


def get(target=b"/", fields=HOST, method=b"GET", version=b"HTTP/1.1"):
    return b"%s %s %s\r\n%s\r\n" % (method, target, version, fields)


def post(fields, body=b""):
    return b"POST /echo HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body


def coded(coding, body=b"0\r\n\r\n"):
    return post(b"Transfer-Encoding: " + coding + b"\r\n", body)


def chunks(body):
    return coded(b"chunked", body)


def sized(length):
    return post(b"Content-Length:" + length + b"\r\n", b"hello")


# Served; the next request is served as well.
SERVED = {
    "9112 3.2 hosts": [get(fields=b"Host:\r\n"), get(fields=b"Host: a,b\r\n"), get(fields=b"Host: [::1]:80\r\n")],
    "9112 2.2 an empty line before": [b"\r\n" + get()],
    "9112 2.3 a later minor version": [get(version=b"HTTP/1.2")],
    "9112 6.1 codings": [coded(b"ChUnKeD"), coded(b", chunked,")],
    "9112 7.1 chunks": [chunks(b"0\r\nA: b\r\n\r\n"), chunks(b"000\r\n\r\n")],
    "9110 8.6 lengths": [sized(b" 5"), sized(b" 005"), sized(b"\t5\t")],
    "9110 5.5 values": [get(fields=HOST + b"X: \xc3\r\n")],
    "9110 7.8, 10.1.1, 14.2 what may be ignored": [
        get(fields=HOST + b"Connection: upgrade\r\nUpgrade: websocket\r\n"), get(fields=HOST + b"Range: bytes=0-1\r\n"),
        post(b"Expect: 200-maybe\r\nContent-Length: 0\r\n")],
}  # fmt: skip

# Refused by 400; nothing behind it is read.
REFUSED = {
    "9112 3 request lines": [get(m) for m in (b"/a#b", b"/a\0b", b"/a\x01", b"/\xff", b"abc", b"*", b" /", b"/ ")]
    + [get(method=m) for m in (b"G@T", b" GET", b"GET\t")] + [get(b"h:80", method=b"CONNECT"), b"GET /\r\n" + HOST + b"\r\n"],
    "9112 2.3 versions": [get(version=v) for v in (b"http/1.1", b"HTTP/1.1x", b"HTTP/1.", b"HTTP/01.1", b"HTTP/1.1 ")],
    "9112 3.2 hosts": [get(fields=f) for f in (b"", HOST + HOST)],
    "9112 3.2.2, 3.2.4, 7.1.1 what only proxies and extensions need": [
        get(b"http://h/"), get(b"*", method=b"OPTIONS"), chunks(b"5;a=b\r\nhello\r\n0\r\n\r\n")],
    "9112 2.2 line ends": [get().replace(b"\r\n", b"\n"), get(fields=HOST + b"X: a\rb\r\n"), b"\r\n" * 100 + get()],
    "9112 5 fields": [get(fields=HOST + f) for f in (b"X: a\r\n b\r\n", b": b\r\n", b"Xb\r\n", b"X y: b\r\n", b"X\xc3: b\r\n",
                                                     b"X: a\0b\r\n", b"X: \x7f\r\n")] + [get(fields=b" " + HOST)],
    "9112 5.1 no space before the colon": [post(b"Content-Length : 5\r\n", b"hello"), post(b"Transfer-Encoding : chunked\r\n")],
    "9112 6.1 codings": [coded(c) for c in (b"gzip", b"chunked, gzip", b"chunked, chunked", b"", b"xchunked", b"chunked;q=1",
                                            b"\x0bchunked", b"chunked\r\nTransfer-Encoding: chunked")]
    + [b"POST /echo HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    "9112 6.3 a length and a coding": [post(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")],
    "9110 8.6 lengths": [sized(n) for n in (b"", b" 5, 5", b" 5, 6", b" +5", b" -1", b" 0x5", b" 5 5", b" 5\r\nContent-Length: 5",
                                            b" 5\r\nContent-Length: 6")],
    "9112 7.1 chunks": [chunks(c + b"\r\n0\r\n\r\n") for c in (
        b"5;\r\nhello", b"5;=x y\r\nhello", b"5;a\nhello", b"5\nhello", b"0x5\r\nhello", b" 5\r\nhello", b"5 \r\nhello",
        b"-5\r\nhello", b"5_\r\nhello", b"\r\nhello", b"5;a\rX\r\nhello")]
    + [chunks(b"0\r\nA b\r\n\r\n"), chunks(b"0\r\n\n")],
}  # fmt: skip

# Anything else: the statuses of all replies.
OTHER = [
    (get(method=b"FOO"), [501, 404]), (get(method=b"get"), [501, 404]), (get(method=b"TRACE"), [405, 404]),
    (get(version=b"HTTP/2.0"), [505]), (get(version=b"HTTP/9.9"), [505]), (coded(b"gzip, chunked"), [501]),
    (post(b"Content-Length: 99999999999999999999999\r\n"), [413]), (get(b"/" + b"a" * 70000), [414]),
    (get(fields=HOST + b"X: " + b"a" * 70000 + b"\r\n"), [431]), (get(method=b"A" * 70000), [501]),
    (get(fields=HOST + b"Connection: foo, close\r\n"), [200]), (get(method=b"HEAD"), [200, 404]),
    (post(b"Transfer_Encoding: chunked\r\nContent-Length: 0\r\n"), [200, 404]),
    (b"POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", [200]),
    (chunks(b"FFFFFFFFFFFFFFFFF\r\nhello"), [413]), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    (get(fields=HOST + b"Content-Length: 1\r\nExpect: 100-continue\r\n") + b"x", [200, 404]),
    # Refused before its body is asked for, which may come or not: so the connection ends.
    (get(b"/x", HOST + b"Content-Length: 5\r\nExpect: 100-continue\r\n", b"POST"), [404]),
    (chunks(b"5\r\nhelloX\r\n0\r\n\r\n"), [200]), (chunks(b"5\r\nhello\n0\r\n\r\n"), [200]),  # replied before the fault
    (get(fields=HOST + b"Content-Length: 5\r\n") + b"hello" + get(), [200, 200, 404]), (get(b"/x") * 3, [404] * 4),
]  # fmt: skip


def statuses(daemon, request):
    """Of all replies until the daemon ends the connection."""
    with daemon.connect("http") as s:
        try:
            s.sendall(request + LAST)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # a refusal needs no more of what is sent
        return [int(n) for n in re.findall(rb"HTTP/1\.1 (\d{3}) ", receive_all(s))]


@pytest.fixture
def daemon(start_daemon, engine):
    return start_daemon(listener("http", service="http", engine=engine))


def test_what_is_right_is_served(daemon):
    for section, requests in SERVED.items():
        for request in requests:
            assert statuses(daemon, request) in ([200, 404], [204, 404]), (section, request)


def test_what_is_wrong_is_refused(daemon):
    for section, requests in REFUSED.items():
        for request in requests:
            assert statuses(daemon, request) == [400], (section, request)
    daemon.wait_closed("http")
    stats, refused = daemon.stats("http"), sum(map(len, REFUSED.values()))
    assert stats["connections"]["closed"]["protocol"] == stats["operations"]["refused"]["count"] == refused
    assert stats["operations"]["get"]["count"] == 0


def test_what_is_not_supported_is_said(daemon):
    for request, expected in OTHER:
        assert statuses(daemon, request) == expected, request[:100]
