"""Zero-copy receive (zcrx) in copy mode: the kernel fills pages of an area, and every byte of them is right; few
pages stop nobody; and where it cannot be, the listener is unavailable and says why.

Few kernels can: `make check-vm-zcrx` runs this file on Linux 7.3 in a VM."""

import contextlib
import ctypes
import json
import os
import random
import re
import subprocess

import pytest
from conftest import NBSERVED, TIMEOUT, limit_locked_memory, listener, requires, wait_until
from nbd_client import READ, WRITE, connect as connect_nbd
from test_iperf3 import ends, iperf3
from traffic import (Exchange, NeverReader, Sender, connect, echo, erratic_clients_leave_nothing, noise, receive,
                     reset, run_exchanges)

KIB, MIB = 1024, 1024 * 1024
PAGE = os.sysconf("SC_PAGESIZE")
CAP_NET_ADMIN, PR_CAPBSET_DROP = 12, 24
# An area has as many bytes as the pool.
SMALL, DEFAULT = {"buffers": 64, "buffer_size": "4K"}, {}
AREAS = {"256K": SMALL, "16M": DEFAULT}


def section(name, service=None, **keys):
    keys = {"engine": "io_uring", "zero_copy_receive": "copy", **keys}
    return listener(name, service or name, **keys)


def finding(**how):
    """The doctor's line about it, as this host is."""
    done = subprocess.run([NBSERVED, "--doctor", "--json"], stdout=subprocess.PIPE, timeout=TIMEOUT, **how)
    (found,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "io_uring: zcrx"]
    return found


@pytest.fixture(scope="module")
def able():
    found = finding()
    if not found["ok"]:
        (pytest.fail if os.environ.get("ZCRX_MUST") else pytest.skip)(f"not here: {found['reason']}")


def counts(daemon, name):
    return daemon.stats(name)["zero_copy_received"]


def all_is_free(daemon, name):
    """No connection is left, nor a page that is out."""
    daemon.wait_closed(name)
    stats = daemon.stats(name)
    pool, pages = stats["pool"], stats["zero_copy_received"]
    assert pool["free"] >= pool["chunks"] - 4 * stats["workers"]  # those that each shares, sends, and seals into
    assert pages["pages_free"] == pages["pages"]
    assert pages["bytes"] == pages["copied_bytes"] == stats["bytes_in"]
    assert stats["cost"]["syscalls"]["recv"] == 0  # a device's data cannot be read by a call
    assert "zcrx" in stats["engine_features"] and "eager_io" not in stats["engine_features"]
    return stats


# ---- Where it cannot be ----


def drop_net_admin():
    """For preexec: root without this capability, also where it is inherited (containers)."""
    libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    sets[2] = sets[5] = 0
    libc.capset(header, sets)
    libc.prctl(PR_CAPBSET_DROP, CAP_NET_ADMIN)


def is_unavailable(daemon, *words):
    status = daemon.status("trial")
    assert status["state"] == "unavailable" and re.search(".*".join(words), status["reason"]), status
    assert "; " in status["reason"], "and how to fix it"
    with daemon.connect("other") as s:
        echo(s)


def test_without_the_kernel_it_is_unavailable(start_daemon):
    found = finding()
    if found["ok"] or "kernel" not in found["reason"]:
        pytest.skip("this kernel has it")
    assert "zero-copy-receive = no" in found["fix"]
    daemon = start_daemon(section("trial", "echo", optional="yes") + listener("other", "echo"))
    is_unavailable(daemon, "this kernel has no zero-copy receive")


def test_without_the_capability_it_is_unavailable(able, start_daemon):
    daemon = start_daemon(section("trial", "echo", optional="yes") + listener("other", "echo"), preexec=drop_net_admin)
    is_unavailable(daemon, "CAP_NET_ADMIN", "AmbientCapabilities")
    found = finding(preexec_fn=drop_net_admin)
    assert not found["ok"] and "CAP_NET_ADMIN" in found["reason"]


def test_without_locked_memory_it_is_unavailable(able, start_daemon):
    daemon = start_daemon(section("trial", "echo", optional="yes") + listener("other", "echo"),
                          preexec=lambda: limit_locked_memory(4 * MIB))
    is_unavailable(daemon, "16384 KiB of zero-copy-receive", "LimitMEMLOCK", "lower `buffers`")


@pytest.mark.parametrize(("queue", "why"), [
    ("not-there:0", "there is no such interface"), ("lo:0", "the driver of this interface cannot")])
def test_without_a_device_that_can_it_is_unavailable(able, start_daemon, queue, why):
    """All that can be tried of it without such a device."""
    daemon = start_daemon(section("trial", "echo", optional="yes", zero_copy_receive=queue, max_connections=100)
                          + listener("other", "echo"))
    is_unavailable(daemon, f"zero-copy-receive = {queue}", why)


# ---- Every byte ----


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("keys", [{}, {"zero_copy_min": "1"}, {"workers": 2}, {"tls": "none", "buffers": 16}],
                         ids=lambda keys: "+".join(keys) or "plain")
def test_echo_in_pieces_of_all_sizes(able, start_daemon, area, keys):
    daemon = start_daemon(section("echo", **{**AREAS[area], **keys}))
    exchanges = [Exchange(connect(daemon.addresses("echo")[0]), noise(MIB >> i, i), i) for i in range(5)]
    run_exchanges(exchanges)
    for e in exchanges:
        e.socket.close()
    stats = all_is_free(daemon, "echo")
    assert stats["bytes_in"] == stats["bytes_out"] == sum(len(e.data) for e in exchanges)
    assert stats["connections"]["closed"]["peer"] == len(exchanges)
    assert {"defer_taskrun", "restricted"} <= set(stats["engine_features"])


@pytest.mark.parametrize("area", AREAS)
def test_discard_counts_all_and_sees_the_end(able, start_daemon, area):
    daemon = start_daemon(section("discard", **AREAS[area], receive="drop"))  # there is no copy to skip
    with daemon.connect("discard") as s:
        s.sendall(noise(8 * MIB))
        s.shutdown(1)
        assert s.recv(1) == b""
    stats = all_is_free(daemon, "discard")
    assert stats["bytes_in"] == 8 * MIB and "drop" not in stats["engine_features"]
    assert stats["zero_copy_received"]["pages"] == (256 * KIB if area == "256K" else 16 * MIB) // PAGE


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("store", ["memory", "blocking", "threads", "io_uring"])
def test_nbd_writes_are_read_back(able, start_daemon, tmp_path, area, store):
    chosen, size = random.Random(3), 4 * MIB
    path = "" if store == "memory" else f"path = {tmp_path}/disk\ncreate = yes\n"
    daemon = start_daemon(f"[export disk]\nsize = {size}\nstore = {store}\n{path}"
                          + section("nbd", exports="disk", **AREAS[area]))
    model = bytearray(size)
    with connect_nbd(daemon, "nbd") as client:
        for _ in range(60):
            length = chosen.choice([1, 511, 512, 513, 4096, 65536, 300001, MIB])
            offset = chosen.randrange(size - length)
            data = chosen.randbytes(length)
            model[offset:offset + length] = data
            client.request(WRITE, offset, length, data)
            assert client.reply() == (0, b"")
        for offset in range(0, size, MIB):
            client.request(READ, offset, MIB)
            assert client.reply(MIB) == (0, bytes(model[offset:offset + MIB]))
    all_is_free(daemon, "nbd")


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("options", [["-n", "16M"], ["-n", "4M", "-P", "3"], ["-n", "4M", "--bidir"]])
def test_iperf3(able, start_daemon, area, options):
    requires("iperf3")
    daemon = start_daemon(section("iperf3", **AREAS[area]))
    sent, received = ends(iperf3(daemon, *options))
    assert sent == received > 0
    all_is_free(daemon, "iperf3")


def test_a_body_inside_tls(able, start_daemon):
    requires("openssl")
    daemon = start_daemon(section("http", **SMALL, tls="user"))
    body = noise(300 * KIB)
    client = subprocess.run(
        ["timeout", str(TIMEOUT), "openssl", "s_client", "-quiet", "-connect", "127.0.0.1:%d" % daemon.port("http")],
        input=b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert client.stdout.endswith(body)
    all_is_free(daemon, "http")


# ---- Few pages, many clients ----


@pytest.mark.parametrize("area", AREAS)
def test_floods_of_small_messages_pin_no_pages(able, start_daemon, area):
    """Small messages that the service does not take yet hold no page each: they are copied together."""
    daemon = start_daemon(section("echo", **AREAS[area]))
    data = noise(64 * 4000)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.connect("echo")) for _ in range(4)]
        for at in range(0, len(data), 64):
            for s in clients:
                s.sendall(data[at:at + 64])
            if at % (64 * 500) == 64 * 499:
                for s in clients:
                    assert receive(s, 64 * 500) == data[at + 64 - 64 * 500:at + 64]
        assert daemon.stats("echo")["bytes_copied"] > 0
    all_is_free(daemon, "echo")


def are_stuck(daemon, clients):
    for client in clients:
        client.push()
    states = [c["state"] for c in daemon.call("ListConnections", listener="echo")["connections"]]
    return len(states) == len(clients) and set(states) <= {"throttled", "starved"}


@pytest.mark.parametrize("area", AREAS)
def test_clients_that_never_read_leave_pages_to_others(able, start_daemon, area):
    daemon = start_daemon(section("echo", **AREAS[area]))
    address = daemon.addresses("echo")[0]
    with contextlib.ExitStack() as stack:
        clients = [NeverReader(address) for _ in range(3)]
        for client in clients:
            stack.callback(client.close)
        wait_until(lambda: are_stuck(daemon, clients), "they hold as much as they may")
        with daemon.connect("echo") as s:
            for size in (1, 600, 5000, 200 * KIB):
                sender = Sender(s, noise(size), fin=False)
                assert receive(s, size) == noise(size)
                sender.finish()
    all_is_free(daemon, "echo")


def test_requests_that_come_bit_by_bit_leave_pages_to_others(able, start_daemon):
    """More of them than there are pages, each too long to be copied at once."""
    daemon = start_daemon(section("http", **SMALL))
    head = b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 1000
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.connect("http")) for _ in range(100)]
        for s in clients:
            s.sendall(head)
        wait_until(lambda: daemon.stats("http")["bytes_in"] == 100 * len(head), "all are received")
        for s in clients:
            s.sendall(b"\r\n\r\n")
        for s in clients:
            assert s.recv(100).startswith(b"HTTP/1.1 200 ")
    all_is_free(daemon, "http")


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("service", ["echo", "discard"])
def test_erratic_clients_leave_nothing_behind(able, start_daemon, service, area):
    daemon = start_daemon(section(service, **AREAS[area]))
    erratic_clients_leave_nothing(daemon, service, f"{service} {area}", service == "echo", kept=1)
    all_is_free(daemon, service)


def test_a_reset_behind_data_is_seen(able, start_daemon):
    daemon = start_daemon(section("discard"))
    for i in range(20):
        s = daemon.connect("discard")
        s.sendall(noise(1 + 3000 * i))
        reset(s)
    daemon.wait_closed("discard", accepted=20)
    closed = all_is_free(daemon, "discard")["connections"]["closed"]
    assert closed["peer"] + closed["reset"] == sum(closed.values()) == 20


def test_a_drain_ends_with_pages_out(able, start_daemon):
    daemon = start_daemon("[server]\ndrain-timeout = 100ms\n" + section("echo", **SMALL, zero_copy_min="4K"))
    clients = [NeverReader(daemon.addresses("echo")[0]) for _ in range(5)]
    wait_until(lambda: are_stuck(daemon, clients), "they hold as much as they may")
    assert counts(daemon, "echo")["pages_free"] < 64
    assert daemon.terminate() == 0
    assert "ending with connections open" not in daemon.log()
    for client in clients:
        client.close()


def test_a_reload_replaces_a_listener_with_pages_out(able, start_daemon):
    daemon = start_daemon(section("echo"))
    with daemon.connect("echo") as old:
        echo(old)
        daemon.write_config(section("echo", buffers=64).replace(":0", ":%d" % daemon.port("echo")))
        daemon.nbctl("reload")
        with daemon.connect("echo") as new:
            echo(new, noise(200 * KIB))
        assert counts(daemon, "echo")["pages"] == MIB // PAGE
