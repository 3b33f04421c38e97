"""iperf3 -u: control over TCP, datagrams to a listener with transport udp; what is lost, comes twice or too late is
what both ends report."""

import socket
import struct

import pytest
from conftest import TIMEOUT, listener, twin_address, wait_until
from test_iperf3 import (ACCESS_DENIED, CREATE_STREAMS, DISPLAY_RESULTS, EXCHANGE_RESULTS, IPERF_DONE, PARAM_EXCHANGE,
                         SERVER_ERROR, TEST_END, TEST_RUNNING, TEST_START, Client, finish, start)
from traffic import receive

HELLO, ANSWER = bytes.fromhex("39383736"), bytes.fromhex("36373839")


def twins(engine, **keys):
    address = twin_address()
    return (listener("iperf3", service="iperf3", engine=engine, address=address, **keys)
            + listener("udp", service="iperf3", engine=engine, address=address, transport="udp", buffers=256, **keys))


@pytest.fixture
def daemon(start_daemon, engine):
    daemon = start_daemon(twins(engine))
    yield daemon
    daemon.wait_closed("iperf3")


def reference(numbers):
    """iperf3's count of datagrams that arrive in this order: (the highest number, lost)."""
    high = lost = 0
    for number in numbers:
        if number > high:
            lost += number - high - 1
            high = number
        else:
            lost -= lost > 0
    return high, lost


def test_each_of_many_clients_has_its_own_counts(daemon):
    """Clients of one address: their streams come one test after the other, and then at once."""
    counts = [30 + 10 * i for i in range(6)]
    clients = [start(daemon.addresses("iperf3")[0], "-u", "-b", "1M", "-l", "200", "-k", str(count), "-P", "2")
               for count in counts]
    for count, client in zip(counts, clients):
        document = finish(client)
        assert document["end"]["sum"]["lost_packets"] == 0
        sent = [stream["udp"]["packets"] for stream in document["end"]["streams"]]
        assert sum(sent) >= count
    assert daemon.stats("iperf3")["operations"]["test"]["count"] == len(counts)


@pytest.mark.parametrize("options", ["--bidir", "-R -P 3 -l 9000", "-O 1 -t 1", "-b 0 -l 1400", "--udp-counters-64bit"])
def test_iperf3s_options(start_daemon, options):
    daemon = start_daemon(twins("auto", workers=2))
    length = [] if "-t" in options else ["-k", "100"]
    document = finish(start(daemon.addresses("iperf3")[0], "-u", "-b", "2M", "-l", "500", *length, *options.split()))
    for stream in document["end"]["streams"]:
        assert stream["udp"]["packets"] > 0 and stream["udp"]["out_of_order"] == 0
    daemon.wait_closed("iperf3")


# ---- By hand ----


class Datagrams(Client):
    def __init__(self, daemon, **params):
        super().__init__(daemon.addresses("iperf3")[0], **{"udp": True, "len": 100, **params})
        self.expect(PARAM_EXCHANGE)
        self.send_json(self.params)

    def stream(self):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(TIMEOUT)
        s.connect(self.address)
        self.streams.append(s)
        return s

    def begin(self):
        s = self.stream()
        s.send(HELLO)
        assert s.recv(100) == ANSWER
        return s

    def end(self, *packets):
        self.send(TEST_END)
        self.expect(EXCHANGE_RESULTS)
        self.send_json({"streams": [{"id": 1 if i == 0 else i + 2, "bytes": 0, "packets": n}
                                    for i, n in enumerate(packets)]})
        results = self.receive_json()
        self.expect(DISPLAY_RESULTS)
        self.send(IPERF_DONE)
        return results["streams"]


def datagram(number, wide=False):
    return struct.pack(">IIQ" if wide else ">III", 1, 2, number).ljust(100, b"x")


def test_datagram_numbers_reveal_losses(daemon):
    """In both widths; of the last one only the client knows."""
    for wide in (False, True):
        with Datagrams(daemon, **({"udp_counters_64bit": 1} if wide else {})) as client:
            client.expect(CREATE_STREAMS)
            s = client.begin()
            client.expect(TEST_START, TEST_RUNNING)
            numbers = [1, 2, 5, 4, 4, 7, 1 << 40 if wide else 9]
            for number in numbers:
                s.send(datagram(number, wide))
            s.send(b"short")
            wait_until(lambda s=s: daemon.stats("udp")["operations"]["receive"]["count"] >= (wide + 1) * 8, "all came")
            result, = client.end(numbers[-1] + 5)
            assert (result["packets"], result["errors"], result["bytes"]) == (*reference(numbers), 705)


def test_tests_of_an_address_take_turns(daemon):
    with Datagrams(daemon) as one:
        one.expect(CREATE_STREAMS)
        with Datagrams(daemon) as other:
            with other.connect() as s:  # its datagrams are its streams
                assert receive(s, 1) == bytes([ACCESS_DENIED])
            one.begin()  # is the first one's
            one.expect(TEST_START, TEST_RUNNING)
            other.expect(CREATE_STREAMS)
            other.begin().send(datagram(3))
            other.expect(TEST_START, TEST_RUNNING)
            one.streams[0].send(datagram(1))
            result, = other.end(0)
            assert result["packets"] in (0, 3)  # it may have come before the test
            result, = one.end(1)
            assert (result["packets"], result["errors"]) == (1, 0)


def test_datagrams_of_no_session(daemon):
    """No answer, no stream; nor does a test wait for one that has not asked."""
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger.connect(daemon.addresses("udp")[0])
    for data in (HELLO, b"", b"6789x", bytes(1000)):
        stranger.send(data)
    wait_until(lambda: daemon.stats("udp")["udp"]["refused"] == 4, "they are refused")
    assert daemon.stats("udp")["udp"]["out"] == 0
    with Datagrams(daemon) as client:
        client.expect(CREATE_STREAMS)
        client.control.close()
        wait_until(lambda: daemon.stats("iperf3")["connections"]["open"] == 0, "it is gone")
        client.stream().send(HELLO)
        wait_until(lambda: daemon.stats("udp")["udp"]["refused"] == 5, "nobody waits for it")


def test_streams_end_with_control(daemon):
    with Datagrams(daemon, reverse=True, bandwidth=1_000_000) as client:
        client.expect(CREATE_STREAMS)
        s = client.begin()
        client.expect(TEST_START, TEST_RUNNING)
        assert [struct.unpack(">I", s.recv(1000)[8:12])[0] for _ in range(50)] == list(range(1, 51))
        client.control.close()
        wait_until(lambda: daemon.stats("udp")["connections"]["open"] == 0, "nothing is sent any more")


def test_each_clients_datagrams_have_its_own_traffic_class(daemon):
    """Of two tests at once over one socket; the answer to the first datagram has it, too."""
    def classes(s, count):
        for _ in range(count):
            _, control, _, _ = s.recvmsg(1000, 64)
            yield from (data[0] for level, kind, data in control
                        if (level, kind) == (socket.IPPROTO_IP, socket.IP_TOS))

    with (Datagrams(daemon, reverse=True, bandwidth=1_000_000, TOS=184) as one,
          Datagrams(daemon, reverse=True, bandwidth=1_000_000) as other):
        for client, value in ((one, 184), (other, 0)):
            client.expect(CREATE_STREAMS)
            s = client.stream()
            s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            s.send(HELLO)
            client.expect(TEST_START, TEST_RUNNING)
            assert list(classes(s, 5)) == [value] * 5
        assert list(classes(one.streams[0], 20)) == [184] * 20


def test_without_a_twin_there_is_no_such_test(start_daemon):
    daemon = start_daemon(listener("iperf3", service="iperf3"))
    with Datagrams(daemon) as client:
        assert receive(client.control, 9) == struct.pack(">BII", SERVER_ERROR, 131, 0)
    assert "no listener with `transport = udp`" in daemon.log()


def test_datagrams_fit_the_listeners_buffers(start_daemon):
    daemon = start_daemon(twins("epoll").replace("transport = udp", "transport = udp\nbuffer-size = 4K"))
    with Datagrams(daemon, window=1 << 29) as client:
        assert receive(client.control, 9) == struct.pack(">BII", SERVER_ERROR, 141, 0)
    with Datagrams(daemon, len=4097) as client:  # it would not hear of it while it waits for datagrams
        assert receive(client.control, 9) == struct.pack(">BII", SERVER_ERROR, 20, 0)


def test_streams_find_their_test_when_a_reload_has_replaced_both_listeners(start_daemon, engine):
    config = twins(engine)
    daemon = start_daemon(config)
    with Datagrams(daemon) as client:
        client.expect(CREATE_STREAMS)
        daemon.write_config(config.replace("service = iperf3\n", "service = iperf3\nbuffer-size = 32K\n"))
        assert daemon.nbctl("reload").stdout.endswith("generation 2\n")
        s = client.begin()
        client.expect(TEST_START, TEST_RUNNING)
        before = daemon.stats("udp")["operations"]["receive"]["count"]
        s.send(datagram(1))  # not before the test runs; and another worker than that of TEST_END takes it
        wait_until(lambda: daemon.stats("udp")["operations"]["receive"]["count"] > before, "it has come")
        (result,) = client.end(1)
        assert (result["packets"], result["errors"]) == (1, 0)
