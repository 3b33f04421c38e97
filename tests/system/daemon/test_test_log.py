"""The line of the log for each test of clients of iperf3 and netperf: what they asked for."""

import re

import pytest
import test_netperf
from conftest import listener, twin_address, wait_until
from test_iperf3 import Client, finish, start

LINE = re.compile(r"listener '(?P<listener>\w+)': connection \d+\.\d+ from 127\.0\.0\.1:\d+: (?P<service>\w+) test: "
                  r"(?P<options>[^\n]*)$", re.M)


def logged(daemon, count=1):
    """The lines, as soon as there are `count` of them."""
    wait_until(lambda: len(LINE.findall(daemon.log())) == count, f"{count} tests are logged")
    return list(LINE.finditer(daemon.log()))


@pytest.fixture
def daemon(start_daemon, engine):
    return start_daemon(listener("tcp", service="iperf3", engine=engine, workers=2))


@pytest.mark.parametrize("options,expected", [(["-P", "3"], "-P 3 -n 3145728 -l 131072"),
                                              (["-R", "-C", "reno"], "-R -n 3145728 -l 131072 -C reno")])
def test_a_test_of_iperf3_is_logged_once(daemon, options, expected):
    """With its parameters as options of the client, however many workers have its streams."""
    finish(start(daemon.addresses("tcp")[0], "-n", "3M", *options))
    (test,) = logged(daemon)
    assert (test["listener"], test["service"], test["options"]) == ("tcp", "iperf3", expected)


def test_datagrams_are_of_the_listener_with_the_control(start_daemon, engine):
    address = twin_address()
    daemon = start_daemon(listener("tcp", service="iperf3", address=address)
                          + listener("udp", service="iperf3", engine=engine, transport="udp", address=address))
    finish(start(daemon.addresses("tcp")[0], "-u", "-n", "100K", "-l", "1000"))
    (test,) = logged(daemon)
    assert test["listener"] == "tcp" and test["options"].startswith("-u -n 102400 -l 1000 ")


@pytest.mark.parametrize("odd", [-1, 1e308, -1e308, "x", None, [], 1 << 60])
def test_figures_that_the_server_does_not_need_end_no_test(daemon, odd):
    with Client(daemon.addresses("tcp")[0]) as client:
        client.run()
        client.send(4)
        client.expect(13)
        client.send_json({"cpu_util_total": odd, "streams": [
            {"id": 1, "bytes": 7, "retransmits": odd, "errors": odd, "jitter": odd, "end_time": odd}]})
        client.receive_json()
        client.expect(14)
        client.send(16)


def test_many_tests_are_logged_at_a_limited_rate(daemon):
    for _ in range(200):
        with Client(daemon.addresses("tcp")[0]) as client:
            client.open()
    daemon.wait_closed("tcp", accepted=200)
    assert 1 <= len(LINE.findall(daemon.log())) < 200


def test_a_test_of_netperf_is_logged(start_daemon, engine):
    daemon = start_daemon(test_netperf.ranged(engine))
    client = test_netperf.Client(daemon)
    client.stream(1_000_000)
    client.transactions(100, 10, 20)
    stream, transactions = logged(daemon, 2)
    assert stream["options"] == "-t TCP_STREAM -l -1000000"
    assert transactions["options"] == "-t TCP_RR -l 60 -- -r 10,20"
    client.control.close()
