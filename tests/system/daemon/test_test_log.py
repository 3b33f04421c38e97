"""The line of the log for each test of clients of iperf3 and netperf: what they asked for, and both sides' figures."""

import re

import pytest
import test_netperf
from conftest import listener, twin_address, wait_until
from test_iperf3 import Client, ends, finish, start

LINE = re.compile(r"listener '(?P<listener>\w+)': test of (?P<service>\w+) from 127\.0\.0\.1:\d+(?P<off> was broken off)?: "
                  r"(?P<options>[^;\n]*)(; client: (?P<client>[^;\n]*))?(; server: (?P<server>[^;\n]*))?$", re.M)
FIGURES = re.compile(r"(\d+) bytes sent, (\d+) received(?:, (\d+) transactions)?(?:, (\d+) datagrams)?(?:, (\d+) lost)?")


def logged(daemon, count=1):
    """The lines, as soon as there are `count` of them."""
    wait_until(lambda: len(LINE.findall(daemon.log())) == count, f"{count} tests are logged")
    return list(LINE.finditer(daemon.log()))


def figures(text):
    return [int(number or 0) for number in FIGURES.match(text).groups()]


@pytest.fixture
def daemon(start_daemon, engine):
    return start_daemon(listener("tcp", service="iperf3", engine=engine, workers=2))


@pytest.mark.parametrize("options,expected", [(["-P", "3"], "-P 3 -n 3145728 -l 131072"),
                                              (["-R", "-C", "reno"], "-R -n 3145728 -l 131072 -C reno")])
def test_both_sides_of_iperf3(daemon, options, expected):
    """Streams are on any worker; each side's figures are those that the client prints."""
    report = finish(start(daemon.addresses("tcp")[0], "-n", "3M", *options))
    (test,) = logged(daemon)
    assert (test["listener"], test["service"], test["off"], test["options"]) == ("tcp", "iperf3", None, expected)
    sent, received = ends(report)
    client, server = figures(test["client"]), figures(test["server"])
    if "-R" in options:
        assert client[1] == received and server[0] >= received and client[0] == server[1] == 0
    else:
        assert client[0] == report["end"]["sum_sent"]["bytes"] and server[1] == received and client[1] == server[0] == 0


def test_datagrams_are_of_the_listener_with_the_control(start_daemon, engine):
    address = twin_address()
    daemon = start_daemon(listener("tcp", service="iperf3", address=address)
                          + listener("udp", service="iperf3", engine=engine, transport="udp", address=address))
    report = finish(start(daemon.addresses("tcp")[0], "-u", "-n", "100K", "-l", "1000"))
    (test,) = logged(daemon)
    assert test["listener"] == "tcp" and test["options"].startswith("-u -n 102400 -l 1000 ")
    assert figures(test["client"])[3] == report["end"]["sum"]["packets"]
    assert figures(test["server"])[4] == report["end"]["sum"]["lost_packets"]


def test_a_test_that_is_broken_off_has_no_figures(daemon):
    """Its streams may still run on another worker."""
    with Client(daemon.addresses("tcp")[0], parallel=4) as client:
        client.run()
        for s in client.streams:
            s.sendall(bytes(100000))
        client.control.close()
        (test,) = logged(daemon)
    assert test["off"] and test["client"] is test["server"] is None and test["options"] == "-P 4 -l 131072"


@pytest.mark.parametrize("odd", [-1, 1e308, -1e308, "x", None, [], 1 << 60])
def test_figures_that_cannot_be_are_left_out(daemon, odd):
    """They are shown only, so they end no test."""
    with Client(daemon.addresses("tcp")[0]) as client:
        client.run()
        client.send(4)
        client.expect(13)
        client.send_json({"cpu_util_total": odd, "streams": [
            {"id": 1, "bytes": 7, "retransmits": odd, "errors": odd, "jitter": odd, "end_time": odd}]})
        client.receive_json()
        client.expect(14)
        client.send(16)
    (test,) = logged(daemon)
    assert test["client"] == "7 bytes sent, 0 received, 0.000 s, CPU 0.0 %"


def test_many_tests_are_logged_at_a_limited_rate(daemon):
    for _ in range(200):
        with Client(daemon.addresses("tcp")[0]) as client:
            client.open()
    daemon.wait_closed("tcp", accepted=200)
    assert 1 <= len(LINE.findall(daemon.log())) < 200


def test_netperf_tells_no_figures_of_the_client(start_daemon, engine):
    daemon = start_daemon(test_netperf.ranged(engine))
    client = test_netperf.Client(daemon)
    client.stream(1_000_000)
    client.transactions(100, 10, 20)
    stream, transactions = logged(daemon, 2)
    assert stream["options"] == "-t TCP_STREAM -l -1000000" and figures(stream["server"])[1] == 1_000_000
    assert transactions["options"] == "-t TCP_RR -l 60 -- -r 10,20" and figures(transactions["server"])[2] == 100
    assert stream["client"] is transactions["client"] is None and not stream["off"]
    client.ask(test_netperf.RECEIVE, 10)
    client.control.close()
    assert logged(daemon, 3)[2]["off"]
