"""sockperf against its own generator, over each engine, and against what no generator sends."""

import re
import socket
import struct
import subprocess

import pytest
from conftest import TIMEOUT, listener, requires
from traffic import Sender, connect, is_ended, noise, receive, send_until_stuck

MINUTES = 0.9

CLIENT, PONG_REQUEST, WARM_UP = 1, 2, 4
KIB, MIB = 1024, 1024 * 1024


def message(flags, payload=b"", sequence=1, length=None):
    length = 14 + len(payload) if length is None else length
    return struct.pack(">QHI", sequence, flags, length) + payload


def sockperf(daemon, command, *options, seconds=1):
    """The output of sockperf, without its colours."""
    host, port = daemon.addresses("sockperf")[0]
    arguments = [requires("sockperf"), command, "--tcp", "-i", host, "-p", str(port)]
    result = subprocess.run(["timeout", "-k", "5", str(TIMEOUT), *arguments, "-t", str(seconds), *options],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
    assert result.returncode == 0, text
    return text


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


@pytest.fixture
def daemon(start_daemon, engine):
    daemon = start_daemon(listener("sockperf", service="sockperf", engine=engine))
    yield daemon
    daemon.wait_closed("sockperf")
    pool = daemon.stats("sockperf")["pool"]
    assert pool["free"] == pool["chunks"]


def counted(daemon):
    """When all has been looked at."""
    daemon.wait_closed("sockperf")
    operations = daemon.stats("sockperf")["operations"]
    return operations["pong"]["count"], operations["count"]["count"]


# ---- The generator ----


@pytest.mark.parametrize("size", ["14", "100000"])
def test_ping_pong(daemon, size):
    """Every ping comes back as it was: --data-integrity compares them."""
    text = sockperf(daemon, "ping-pong", "-m", size, "--data-integrity")
    sent = number(r"\[Total Run\].*SentMessages=(\d+)", text)
    received = number(r"\[Total Run\].*ReceivedMessages=(\d+)", text)
    assert number(r"Latency is ([\d.]+)", text.replace("latency", "Latency")) > 0
    # Messages in flight when its time is over are lost; it does not count the last 50 ms as dropped.
    assert received > 0 and sent - received <= 1
    assert number(r"dropped messages = (\d+)", text) <= sent - received
    assert number(r"duplicated messages = (\d+)", text) == 0
    assert number(r"out-of-order messages = (\d+)", text) == 0
    pongs, others = counted(daemon)
    assert pongs >= received and others == 0
    assert daemon.stats("sockperf")["connections"]["closed"]["protocol"] == 0


def test_under_load(daemon):
    for _ in range(10):
        before = counted(daemon)
        text = sockperf(daemon, "under-load", "-m", "200", "--mps", "20000", "--reply-every", "10")
        sent = number(r"\[Total Run\].*SentMessages=(\d+)", text)
        received = number(r"\[Total Run\].*ReceivedMessages=(\d+)", text)
        assert 0 < received <= sent / 10 + 1
        pongs, others = (now - then for now, then in zip(counted(daemon), before))
        assert pongs >= received and 8 * pongs < others < 10 * pongs + 10
        dropped = number(r"dropped messages = (\d+)", text)
        if dropped == 0:
            break
        # Interrupted, it leaves many replies in flight when its time is over.
        assert dropped <= sent / 10 + 1 - received
    else:
        pytest.fail(f"{dropped} messages dropped")


def test_throughput(daemon):
    """No ping asks for an answer: all are counted."""
    text = sockperf(daemon, "throughput", "-m", "1400")
    sent = number(r"Total of (\d+) messages sent", text)
    pongs, others = counted(daemon)
    # Warm-up and the last messages that its end cuts off are not counted.
    assert pongs == 0 and 0 < others <= sent + 1
    assert number(r"BandWidth is ([\d.]+)", text) > 0


# ---- By hand ----


def test_messages_come_back_with_the_flag_cleared(daemon):
    payloads = [b"", b"x", noise(1000), noise(30 * KIB, 1), noise(MIB - 14, 2)]
    with daemon.connect("sockperf") as s:
        for i, payload in enumerate(payloads):
            s.sendall(message(CLIENT | WARM_UP, payload) + message(0, payload))
            s.sendall(message(CLIENT, payload))
            sender = Sender(s, message(0x8000 | CLIENT | PONG_REQUEST, payload, i), fin=False)
            expected = message(0x8000 | PONG_REQUEST, payload, i)
            assert receive(s, len(expected)) == expected
            sender.finish()
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b""
    assert counted(daemon) == (len(payloads), len(payloads))


@pytest.mark.parametrize("length", [0, 13, MIB + 1, 2**31, 2**32 - 1])
def test_a_length_that_cannot_be_ends_the_connection(daemon, length):
    with daemon.connect("sockperf") as s:
        s.sendall(message(CLIENT | PONG_REQUEST, length=length))
        assert is_ended(s)
    with daemon.connect("sockperf") as s:
        s.sendall(message(CLIENT | PONG_REQUEST))
        assert receive(s, 14) == message(PONG_REQUEST)
    daemon.wait_closed("sockperf")
    assert daemon.stats("sockperf")["connections"]["closed"]["protocol"] == 1


def test_a_client_that_never_reads_is_paused(daemon):
    messages = message(CLIENT | PONG_REQUEST, bytes(1000 - 14)) * 64

    def another_is_served():
        with daemon.connect("sockperf") as s:
            s.sendall(message(CLIENT | PONG_REQUEST))
            assert receive(s, 14) == message(PONG_REQUEST)

    with connect(daemon.addresses("sockperf")[0], receive_buffer=64 * KIB) as client:
        send_until_stuck(client, messages, len(messages), 64 * MIB, another_is_served)


def test_random_bytes_do_not_disturb_other_clients(daemon):
    for seed in range(30):
        s = connect(daemon.addresses("sockperf")[0])
        Sender(s, noise(100 * KIB, seed))
        assert is_ended(s)
        s.close()
