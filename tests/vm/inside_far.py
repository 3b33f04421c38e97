"""Run by test_vm_clients.py in the VM: clients of others that nbserved is the far end of, on rxe and siw."""
import signal
import subprocess

import pytest
import inside_rdma
from inside_rdma import ADDRESSES, LIMIT, client, must, resources, run, running, section, wait_until
from traffic import together

device, devices, start_daemon = inside_rdma.device, inside_rdma.devices, inside_rdma.start_daemon


def port_of(daemon, name="r"):
    return daemon.addresses(name)[0][1]


def test_rdma_xclient_sends_its_message(start_daemon, device):
    daemon = start_daemon(section(device, service="discard"))
    must("rdma_xclient", "-s", ADDRESSES[device], "-p", port_of(daemon))
    daemon.wait_closed("r", accepted=1)
    assert daemon.stats("r")["bytes_in"] == 16


def test_ucmatose_connects_and_waits_for_the_server_to_leave(start_daemon, device):
    daemon = start_daemon(section(device, service="discard", idle_timeout="1s"))
    out = must("ucmatose", "-s", ADDRESSES[device], "-p", port_of(daemon), "-C", 0, "-c", 10)
    assert "return status 0" in out, out
    daemon.wait_closed("r", accepted=10)


def test_cmtime_times_connections(start_daemon, device):
    daemon = start_daemon(section(device, service="discard"))
    out = must("cmtime", "-s", ADDRESSES[device], "-p", port_of(daemon), "-c", 20)
    assert "connect      :" in out and "failure" not in out, out
    daemon.wait_closed("r", accepted=20)


# ---- perftest ----


def perftest(daemon, device, command, name="r", manager=("-R",), **options):
    done = run("timeout", LIMIT, command.split()[0], "-F", *manager, "-d", f"{device}0", "-p",
               port_of(daemon, name), *command.split()[1:], ADDRESSES[device], **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{daemon.log()}"
    return done.stdout


def far_end(start_daemon, device, service, **keys):
    """A daemon on a port that is free in both spaces: the connection manager, which chooses it, knows its own alone."""
    for _ in range(8):
        daemon = start_daemon(section(device, service=service, region_size="8M", **keys))
        if "others need a port that" not in daemon.log():
            return daemon
        daemon.stop()
    return pytest.fail(f"eight ports were taken: {daemon.log()}")


@pytest.fixture
def clean(device):
    """No queue pair is left over on the device."""
    before = resources()[f"{device}0"]["qp"]
    yield
    wait_until(lambda: resources()[f"{device}0"]["qp"] == before, "all are given back")


def done_by(daemon, operation):
    wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "all have left")
    operations = daemon.stats("r")["operations"]
    return operations["test"]["count"], operations[operation]["count"]


# With the connection manager (-R) and without it.
BOTH_WAYS = [
    ("perftest", "ib_send_bw -n 300 -s 4096", "message", 300),
    ("perftest", "ib_send_bw -n 300 -s 1024 -q 3", "message", 900),
    # Over iWARP an even number of messages wants a credit for its last, of which no event tells.
    ("perftest", "ib_send_bw -n 101 -s 65536 -e", "message", 101),
    ("perftest", "ib_write_bw -n 100 -s 16384", "message", 0),
    ("perftest", "ib_read_bw -n 100 -s 4096", "message", 0),
    ("perftest-lat", "ib_send_lat -n 100", "pong", 100),
    ("perftest-lat", "ib_send_lat -n 5 -s 300000", "pong", 5),
    ("perftest-lat", "ib_send_bw -n 300 -s 1024 -b", "pong", 300),
    ("perftest-lat", "ib_read_lat -n 100", "pong", 0),
]


@pytest.mark.parametrize("service, command, operation, count", [
    *BOTH_WAYS,
    ("perftest", "ib_send_bw -n 10 -s 64", "message", 10),  # 9 without a credit over iWARP
    ("perftest", "ib_send_bw -n 100 -s 4096 -r 2", "message", 100),
])
def test_perftest(start_daemon, device, clean, service, command, operation, count):
    daemon = far_end(start_daemon, device, service)
    perftest(daemon, device, command)
    assert done_by(daemon, operation) == (1, count)
    if operation == "message":
        assert not [n for status, n in daemon.stats("r")["rdma"]["errors"].items() if n and status != "flushed"]


def test_perftest_of_every_size(start_daemon):
    """Over iWARP, where a client's credits start again with each size."""
    daemon = far_end(start_daemon, "siw", "perftest")
    perftest(daemon, "siw", "ib_send_bw -n 5 -a")
    assert done_by(daemon, "message") == (1, 5 * 23)


def test_perftest_by_time(start_daemon, device, clean):
    daemon = far_end(start_daemon, device, "perftest")
    perftest(daemon, device, "ib_send_bw -D 1 -s 2048")
    tests, messages = done_by(daemon, "message")
    assert tests == 1 and messages > 0


def test_perftest_many_at_once(start_daemon, device, clean):
    """Eight, of both kinds of test, over two workers."""
    daemon = far_end(start_daemon, device, "perftest", workers=2)
    commands = ["ib_send_bw -n 200 -s 2048", "ib_read_bw -n 100 -s 2048"]
    together(*[lambda command=command: perftest(daemon, device, command) for command in commands] * 4)
    assert done_by(daemon, "message") == (8, 800)


def test_perftest_clients_that_vanish(start_daemon, device, clean):
    daemon = far_end(start_daemon, device, "perftest")
    with running("ib_send_bw", "-F", "-R", "-d", f"{device}0", "-p", port_of(daemon), "-D", 60, ADDRESSES[device],
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        wait_until(lambda: daemon.stats("r")["operations"]["message"]["count"] > 0, "messages come")
    wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "it is gone")
    perftest(daemon, device, "ib_send_bw -n 100 -s 1024")


def test_perftest_ends_in_a_drain(start_daemon, device, clean):
    """Its control connection is silent while it runs: a drain waits for the client's own end."""
    daemon = far_end(start_daemon, device, "perftest")
    with running("ib_send_bw", "-F", "-R", "-d", f"{device}0", "-p", port_of(daemon), "-D", 3, ADDRESSES[device],
                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as test:
        wait_until(lambda: daemon.stats("r")["operations"]["message"]["count"] > 0, "messages come")
        daemon.process.send_signal(signal.SIGTERM)
        out, _ = test.communicate(timeout=LIMIT)
        assert test.returncode == 0, out + daemon.log()
        assert daemon.process.wait(LIMIT) == 0


def test_perftest_survives_invalid_messages(start_daemon, device):
    """A connection whose first message is no version is one for data."""
    daemon = far_end(start_daemon, device, "perftest")
    assert client(daemon, "send", 300, 20) == "ok 20\n"
    assert done_by(daemon, "message") == (0, 20)


VERSION = b"6.06".ljust(16, b"\0").hex()


def queue(number):
    """A message about a queue pair, without memory of its own."""
    return (bytes(8) + number.to_bytes(4, "big")).ljust(56, b"\0").hex()


@pytest.mark.parametrize("service", ["perftest", "perftest-lat"])
def test_perftest_ends_a_control_that_goes_wrong(start_daemon, device, clean, service):
    """Each of these is refused or answered, and disturbs no other client."""
    daemon = far_end(start_daemon, device, service)

    def told(*messages):
        return client(daemon, "talk", *messages).split("\n")[:-1]

    for wrong in [b"x.06".ljust(16, b"\0"), bytes(3), bytes(57), bytes(300)]:  # a length or a version that is none
        assert told(VERSION, wrong.hex()) == [f"answered {VERSION}", "ended"]
    for times in [2, 3]:  # messages come one at a time
        assert client(daemon, "greet", "", 0, VERSION, times).split("\n")[1].split()[0] in ("answered", "ended")
    said = told(VERSION, "00000400", *[queue(number) for number in range(71)], queue(4711))
    assert [line.split()[0] for line in said] == ["answered"] * 74  # more than are kept: the rest get memory, too
    assert {line.split()[1][32:] for line in said[2:]} == {said[2].split()[1][32:]}  # the same for all
    wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "they have left")
    perftest(daemon, device, "ib_send_lat -n 20" if service == "perftest-lat" else "ib_send_bw -n 50 -s 1024")


def test_a_client_with_z_is_refused_by_name(start_daemon, device, clean):
    """Its data has queue pairs of its own, about which it tells by the connection manager."""
    daemon = far_end(start_daemon, device, "perftest")
    done = run("timeout", LIMIT, "ib_send_bw", "-F", "-z", "-d", f"{device}0", "-p", port_of(daemon), ADDRESSES[device])
    assert done.returncode not in (0, 124) and "it has -z" in daemon.log(), done.stdout + daemon.log()
    perftest(daemon, device, "ib_send_bw -n 50 -s 1024")
