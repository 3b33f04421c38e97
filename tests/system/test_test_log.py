"""`nbctl tests`: what clients of iperf3 and netperf asked for, and what both sides counted."""

import json
import socket
import threading

import pytest
import test_netperf
import varlink_client
from conftest import TIMEOUT, listener, twin_address, wait_until
from test_iperf3 import Client, ends, finish, start

KEPT = 100


def recorded(daemon, **parameters):
    return daemon.call("ListTests", **parameters)["tests"]


def ended(daemon, count=1, **parameters):
    """The records, as soon as there are `count` of them."""
    return wait_until(lambda: len(recorded(daemon, **parameters)) == count and recorded(daemon, **parameters),
                      f"{count} tests are recorded")


def run(daemon, *options, name="tcp"):
    return finish(start(daemon.addresses(name)[0], *options))


@pytest.fixture
def daemon(start_daemon, engine):
    return start_daemon(listener("tcp", service="iperf3", engine=engine, workers=2))


def test_both_sides_of_iperf3(daemon):
    """Streams are on any worker; each side's figures are those that the client prints."""
    report = run(daemon, "-n", "3M", "-P", "3")
    (test,) = ended(daemon)
    assert test["listener"] == "tcp" and test["service"] == "iperf3" and test["complete"]
    assert test["options"] == "-P 3 -n 3145728 -l 131072" and test["peer"].startswith("127.0.0.1:")
    sent, received = ends(report)
    assert test["server"]["received_bytes"] == received and test["server"]["sent_bytes"] == 0
    assert test["client"]["sent_bytes"] == report["end"]["sum_sent"]["bytes"]
    assert test["client"]["retransmits"] == report["end"]["sum_sent"]["retransmits"]
    assert test["client"]["duration_ns"] > 0 and test["server"]["duration_ns"] > 0
    shown = report["end"]["cpu_utilization_percent"]["host_total"]
    assert test["client"]["cpu_percent"] == pytest.approx(shown, rel=0.01)
    assert test["ended"].endswith("Z")


@pytest.mark.parametrize("options,expected", [(["-R"], "-R -n 1048576 -l 131072"),
                                              (["--bidir", "-C", "reno"], "--bidir -n 1048576 -l 131072 -C reno")])
def test_directions(daemon, options, expected):
    report = run(daemon, "-n", "1M", *options)
    (test,) = ended(daemon)
    assert test["options"] == expected
    key = "_bidir_reverse" if "--bidir" in options else ""
    received = report["end"][f"sum_received{key}"]["bytes"]  # with --bidir perhaps nothing, as -n is soon sent
    assert test["server"]["sent_bytes"] >= received and test["client"]["received_bytes"] == received
    assert bool(test["client"]["sent_bytes"]) == ("--bidir" in options)


def test_datagrams_are_of_the_listener_with_the_control(start_daemon, engine):
    address = twin_address()
    daemon = start_daemon(listener("tcp", service="iperf3", address=address)
                          + listener("udp", service="iperf3", engine=engine, transport="udp", address=address))
    report = run(daemon, "-u", "-n", "100K", "-l", "1000")
    (test,) = ended(daemon)
    assert test["listener"] == "tcp" and test["options"].startswith("-u -n 102400 -l 1000 ")
    assert test["client"]["packets"] == report["end"]["sum"]["packets"]
    assert test["server"]["packets"] <= test["client"]["packets"]
    assert test["server"]["lost"] == report["end"]["sum"]["lost_packets"]


def test_a_test_that_is_broken_off_has_no_figures(daemon):
    """Its streams may still run on another worker."""
    with Client(daemon.addresses("tcp")[0], parallel=4) as client:
        client.run()
        for s in client.streams:
            s.sendall(bytes(100000))
        client.control.close()
        (test,) = ended(daemon)
    assert not test["complete"] and test["client"] is test["server"] is None
    assert test["options"] == "-P 4 -l 131072"


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
    (test,) = ended(daemon)
    assert test["complete"] and test["client"] == {
        "sent_bytes": 7, "received_bytes": 0, "transactions": 0, "packets": 0, "lost": 0, "retransmits": 0,
        "jitter_ns": 0, "duration_ns": 0, "cpu_percent": 0.0}


def test_the_last_hundred_are_kept(daemon):
    for i in range(KEPT + 5):
        with Client(daemon.addresses("tcp")[0], len=1000 + i) as client:
            client.open()
    wait_until(lambda: len(recorded(daemon)) == KEPT and recorded(daemon, limit=1)[0]["options"] == f"-l {1004 + KEPT}",
               "all are recorded")
    assert {test["options"] for test in recorded(daemon)} == {f"-l {1005 + i}" for i in range(KEPT)}
    assert [test["options"] for test in recorded(daemon, limit=2)] == [test["options"] for test in recorded(daemon)[:2]]


def test_netperf_and_the_command(start_daemon, engine):
    daemon = start_daemon(test_netperf.ranged(engine) + listener("ip", service="iperf3") + listener("echo"))
    assert daemon.nbctl("tests").stdout == "No tests of iperf3 or netperf yet.\n"
    client = test_netperf.Client(daemon)
    client.stream(1_000_000)
    client.transactions(100, 10, 20)
    tests = ended(daemon, 2, listener="np")
    assert [test["options"] for test in tests] == ["-t TCP_RR -l 60 -- -r 10,20", "-t TCP_STREAM -l -1000000"]
    assert all(test["complete"] and test["client"] is None for test in tests)
    assert tests[0]["server"]["transactions"] == 100 and tests[1]["server"]["received_bytes"] == 1_000_000
    client.ask(test_netperf.RECEIVE, 10)
    client.control.close()
    assert not ended(daemon, 3)[0]["complete"]
    run(daemon, "-n", "1M", name="ip")
    assert len(ended(daemon, 4)) == 4
    shown = daemon.nbctl("tests").stdout
    assert "broken off: -t TCP_STREAM -l 10" in shown and "-n 1048576" in shown and "transactions" in shown
    assert [test["listener"] for test in json.loads(daemon.nbctl("tests", "--json").stdout)["tests"]] == ["np"] * 3 + ["ip"]
    assert "TCP" not in daemon.nbctl("tests", "ip").stdout
    assert daemon.nbctl("tests", "echo").stdout == "No tests of iperf3 or netperf yet.\n"
    assert "no listener" in daemon.nbctl("tests", "nobody", check=False).stdout
    assert "--limit: expected a number" in daemon.nbctl("tests", "--limit", "0", check=False).stdout
    for limit in (0, 1001):
        with pytest.raises(varlink_client.VarlinkError):
            recorded(daemon, limit=limit)


def test_the_list_is_read_while_tests_end(daemon):
    """Records are whole although workers write at the same time."""
    stop = threading.Event()
    seen = []

    def read():
        while not stop.is_set():
            seen.extend(recorded(daemon, limit=1000))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for i in range(30):
            with Client(daemon.addresses("tcp")[0], len=1000 + i % 7) as client, \
                    socket.create_connection(daemon.addresses("tcp")[0], timeout=TIMEOUT):
                client.run().streams[0].sendall(bytes(1000))
                assert client.end({1: 1000})["streams"][0]["bytes"] == 1000
        ended(daemon, 30)
    finally:
        stop.set()
        reader.join()
    assert seen and all(test["server"]["received_bytes"] == 1000 for test in seen)
