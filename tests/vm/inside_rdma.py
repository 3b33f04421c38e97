"""Run by test_rdma.py in the VM: nbserved and real clients on rxe (RoCE) and siw (iWARP).

The clients are rdma-core's and rdma_client.c, which prints the reason of each refusal."""
import contextlib
import ctypes
import re
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/system"))
import conftest  # noqa: E402
from conftest import BUILD, listener, wait_until  # noqa: E402

start_daemon = conftest.start_daemon

CLIENT = str(BUILD / "vm/rdma_client")
ADDRESSES = {"rxe": "10.9.0.1", "siw": "10.9.1.1"}
LIMIT = 90  # seconds; generous, for a busy host that emulates a CPU


def run(*words, **options):  # after LIMIT `timeout` ends its client, and shows what that has said
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=2 * LIMIT, **options)


def must(*words):
    done = run(*words)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}"
    return done.stdout


def add_device(name):
    must("rdma", "link", "add", f"{name}0", "type", name, "netdev", f"{name}_a")


@pytest.fixture(scope="module", autouse=True)
def devices():
    """One device of each kind, on an interface of its own; the kernel has nothing to complain of."""
    must("modprobe", "-a", "rdma_rxe", "ib_uverbs", "rdma_ucm")
    for name, address in ADDRESSES.items():
        if Path(f"/sys/class/net/{name}_a").exists():  # made for another file's tests
            continue
        if name == "siw" and run("modprobe", "siw").returncode != 0:  # see kernel.sh: its tests fail
            continue
        must("ip", "link", "add", f"{name}_a", "type", "veth", "peer", "name", f"{name}_b")
        must("ip", "address", "add", f"{address}/24", "dev", f"{name}_a")
        for side in "ab":
            must("ip", "link", "set", f"{name}_{side}", "up")
        add_device(name)
    yield
    bad = [line for line in must("dmesg").splitlines() if re.search(r"WARNING|BUG|Call Trace", line)]
    assert not bad, must("dmesg")


@pytest.fixture(params=list(ADDRESSES))
def device(request):
    return request.param


def resources():
    """{device: {what: how many}}"""
    found = {}
    for line in must("rdma", "resource", "show").splitlines():
        name, *words = line.split(":", 1)[1].split()
        found[name.rstrip(":")] = dict(zip(words[::2], map(int, words[1::2])))
    return found


def section(device, name="r", service="echo", **keys):
    return listener(name, service, "rdma", transport="rdma", address=f"{ADDRESSES[device]}:0", **keys)


def client(daemon, mode, *words, name="r", check=True):
    host, port = daemon.addresses(name)[0]
    done = run(CLIENT, mode, host, port, *words)
    if check:
        assert done.returncode == 0, f"{mode} {words}: {done.returncode}\n{done.stdout}{daemon.log()}"
    return done.stdout


@contextlib.contextmanager
def running(*words, **options):
    """A process that does not outlive the test: a device that has users cannot be deleted."""
    process = subprocess.Popen([str(word) for word in words], **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def holding(daemon, count, name="r", limit=LIMIT):
    """A client with `count` connections that it never uses."""
    host, port = daemon.addresses(name)[0]
    process = subprocess.Popen([CLIENT, "hold", host, str(port), str(count)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(limit, process.kill)
    timer.start()
    try:
        assert process.stdout.readline() == "connected\n", daemon.log()
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def test_echo_of_every_size_comes_back_as_one_message(start_daemon, device):
    daemon = start_daemon(section(device))
    before = daemon.stats("r")
    assert client(daemon, "echo", 1, 0, 300, 8) == "ok 300\n"
    for size in (1, 64, 4096, 16384):
        assert client(daemon, "echo", 1, size, 32, 4) == "ok 32\n"
    daemon.wait_closed("r", accepted=5)
    after = daemon.stats("r")
    assert before["bytes_in"] == 0
    assert after["bytes_in"] > 300 * 7000
    assert after["bytes_out"] == after["bytes_in"]
    assert after["connections"]["closed"]["peer"] == 5
    assert after["rdma"]["posted"]["send"] == 300 + 4 * 32
    assert 0 < after["rdma"]["completed"]["send"] <= after["rdma"]["posted"]["send"]
    assert after["rdma"]["completed"]["recv"] == 300 + 4 * 32
    assert after["rdma"]["registered_bytes"] == 1024 * 16384
    assert all(n == 0 for status, n in after["rdma"]["errors"].items() if status != "flushed")


def test_small_messages_are_inline_and_seldom_signalled(start_daemon, device):
    daemon = start_daemon(section(device))
    client(daemon, "echo", 1, 16, 400, 1)
    daemon.wait_closed("r", accepted=1)
    rdma = daemon.stats("r")["rdma"]
    sends = rdma["posted"]["send"]
    assert sends == 400
    if rdma["inline"]:
        assert rdma["inline"] == 400
        assert rdma["signalled"] * 8 <= sends
    assert rdma["doorbells"] <= sends * 1.05 + 16  # receives are posted many at a time


def test_many_clients_are_spread_over_the_workers(start_daemon, device):
    daemon = start_daemon(section(device, workers=2))
    with holding(daemon, 20):
        connections = daemon.call("ListConnections", listener="r")["connections"]
        assert len(connections) == 20
        assert {c["worker"] for c in connections} == {0, 1}
        assert all(c["peer"].startswith(ADDRESSES[device]) for c in connections)
        assert client(daemon, "echo", 8, 1000, 20, 4) == "ok 160\n"
    daemon.wait_closed("r", accepted=28)


def test_two_hundred_connections(start_daemon):
    daemon = start_daemon(section("rxe", buffers=4096, buffer_size="4K"))
    with holding(daemon, 200):
        assert daemon.stats("r")["connections"]["open"] == 200
        assert client(daemon, "echo", 1, 100, 10, 1) == "ok 10\n"
    daemon.wait_closed("r", accepted=201)


def test_the_pools_are_in_huge_pages(start_daemon):
    """Their memory is pinned anyway, and a device needs one entry for 2 MiB to find it, not 512."""
    choice = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    before = re.search(r"\[(\w+)\]", choice.read_text())[1]
    choice.write_text("madvise")
    try:
        daemon = start_daemon(section("rxe", workers=2))
        rollup = Path(f"/proc/{daemon.pid}/smaps_rollup").read_text()
    finally:
        choice.write_text(before)
    assert int(re.search(r"AnonHugePages: +(\d+) kB", rollup)[1]) == 2 * 16384, rollup


def test_devices_are_in_status_connections_and_metrics(start_daemon, device):
    kind = {"rxe": "RoCE", "siw": "iWARP"}[device]
    expected = {"name": f"{device}0", "port": 1, "link_layer": "Ethernet", "transport": kind}
    daemon = start_daemon(section(device, workers=2))
    assert daemon.status("r")["devices"] == [expected]
    with holding(daemon, 2):
        connections = daemon.call("ListConnections", listener="r")["connections"]
        assert [c["device"] for c in connections] == [expected] * 2
        shown = daemon.nbctl("connections").stdout
        assert shown.count(f"{device}0/1 {kind}") == 2, shown
        assert daemon.status("r")["devices"] == [expected]
        assert daemon.stats("r")["rdma"]["registered_bytes"] == 2 * 1024 * 16384
    assert f"{device}0/1 {kind}" in daemon.nbctl("status").stdout
    metrics = daemon.nbctl("stats", "--openmetrics").stdout
    assert re.search(r'nbserved_rdma_work_requests_posted_total{.*opcode="recv"} [1-9]', metrics), metrics
    assert re.search(r"nbserved_rdma_sleeps_total{.*} [1-9]", metrics)


def test_rdma_core_client(start_daemon, device):
    daemon = start_daemon(listener("any", "echo", "auto", transport="rdma", address="0.0.0.0:7471"))
    assert daemon.status("any")["engine"] == "rdma"
    must("rdma_client", "-s", ADDRESSES[device], "-p", 7471)
    daemon.wait_closed("any", accepted=1)
    assert daemon.stats("any")["bytes_out"] == 16


def test_ipv6(start_daemon):
    must("ip", "address", "add", "fd09::1/64", "dev", "siw_a", "nodad")
    daemon = start_daemon(listener("r", "echo", "rdma", transport="rdma", address="[fd09::1]:0"))
    assert client(daemon, "echo", 1, 100, 10, 2) == "ok 10\n"


def test_discard_counts_all(start_daemon, device):
    daemon = start_daemon(section(device, service="discard"))
    count = 100 if device == "rxe" else 16  # iWARP knows no `receiver not ready`
    assert client(daemon, "send", 8192, count) == f"ok {count}\n"
    daemon.wait_closed("r", accepted=1)
    stats = daemon.stats("r")
    assert (stats["bytes_in"], stats["bytes_out"]) == (count * 8192, 0)
    assert stats["operations"]["discard"]["count"] > 0


def test_message_beyond_the_buffer_ends_that_connection_only(start_daemon, device):
    daemon = start_daemon(section(device))
    with holding(daemon, 1) as other:
        done = client(daemon, "echo", 1, 20000, 1, 1, check=False)
        assert "ok" not in done
        wait_until(lambda: daemon.stats("r")["connections"]["open"] == 1, "the offender is gone")
        assert client(daemon, "echo", 1, 100, 10, 1) == "ok 10\n"
        errors = daemon.stats("r")["rdma"]["errors"]
        assert errors["length"] + errors["other"] == 1, errors  # siw, rxe
        assert other.poll() is None
    wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "all are gone")


def test_refusals_say_why(start_daemon, device):
    daemon = start_daemon(section(device, max_connections=1) + section(device, name="denied", allow="192.0.2.0/24"))
    with holding(daemon, 1):
        assert client(daemon, "hold", 1, check=False).startswith("refused: too many connections")
    assert client(daemon, "hold", 1, name="denied", check=False).startswith("refused: not allowed")
    assert daemon.stats("r")["connections"]["refused"]["limit"] == 1
    assert daemon.stats("denied")["connections"]["refused"]["denied"] == 1
    daemon.wait_closed("r", accepted=1)
    assert client(daemon, "echo", 1, 10, 10, 1) == "ok 10\n"


def test_a_full_completion_queue_is_a_limit(start_daemon):
    """Each client of perftest has 520 receives, of the 32767 entries."""
    daemon = start_daemon(section("rxe", service="perftest", buffers=2048, buffer_size="4K"))
    with contextlib.ExitStack() as clients:
        for _ in range(2):
            clients.enter_context(holding(daemon, 25))
        assert client(daemon, "hold", 30, check=False).startswith("refused: the completion queue is full")
        connections = daemon.stats("r")["connections"]
        assert connections["refused"]["limit"] == 1 and connections["closed"]["error"] == 0
    wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "all are gone")
    with holding(daemon, 1):
        pass


TALK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as s:
    try:
        s.sendall(b"hello")
        print(s.recv(5).decode() or "refused")
    except ConnectionError:
        print("refused")
"""


def test_local_lets_only_this_host_in(start_daemon):
    """Over TCP, which has a second host in a namespace; a kernel that lets anybody bind anything does not matter."""
    addresses = [("10.9.7.1", "10.9.7.2", 24), ("fd09:7::1", "fd09:7::2", 64)]
    must("ip", "netns", "add", "other")
    try:
        must("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", "other")
        for near, far, bits in addresses:
            must("ip", "address", "add", f"{near}/{bits}", "dev", "near", "nodad")
            must("ip", "-n", "other", "address", "add", f"{far}/{bits}", "dev", "far", "nodad")
        must("ip", "link", "set", "near", "up")
        must("ip", "-n", "other", "link", "set", "far", "up")
        must("sysctl", "net.ipv4.ip_nonlocal_bind=1", "net.ipv6.ip_nonlocal_bind=1")
        daemon = start_daemon(listener("r", allow="local", address=["10.9.7.1:0", "[fd09:7::1]:0"]))
        for host, port in daemon.addresses("r"):
            assert must(sys.executable, "-c", TALK, host, port) == "hello\n"
            assert must("ip", "netns", "exec", "other", sys.executable, "-c", TALK, host, port) == "refused\n"
        assert daemon.stats("r")["connections"]["refused"]["denied"] == 2
    finally:
        must("sysctl", "net.ipv4.ip_nonlocal_bind=0", "net.ipv6.ip_nonlocal_bind=0")
        must("ip", "netns", "delete", "other")  # and the interfaces with it


def test_more_messages_than_receives(start_daemon, device):
    """RoCE makes the client wait; iWARP ends its connection, and no other."""
    daemon = start_daemon(section(device, buffers=16, buffer_size="4K"))
    with holding(daemon, 1) as other:
        out = client(daemon, "echo", 1, 4000, 300, 40, check=False)
        assert device == "siw" or out == "ok 300\n"
        wait_until(lambda: daemon.stats("r")["connections"]["open"] == 1, "the client is gone")
        assert client(daemon, "echo", 1, 100, 10, 1) == "ok 10\n"
        assert other.poll() is None


def test_silent_connections_are_closed_after_idle_timeout(start_daemon, device):
    daemon = start_daemon(section(device, idle_timeout="300ms"))
    with holding(daemon, 2) as process:
        daemon.wait_closed("r", accepted=2)
        assert process.stdout.readline() == "disconnected\n"
    assert daemon.stats("r")["connections"]["closed"]["idle"] == 2


def test_killed_clients_leave_nothing(start_daemon, device):
    daemon = start_daemon(section(device))
    client(daemon, "echo", 1, 64, 10, 1)
    daemon.wait_closed("r", accepted=1)
    start, descriptors = resources()[f"{device}0"], daemon.descriptors()
    host, port = daemon.addresses("r")[0]
    for count in range(3):
        with running(CLIENT, "echo", host, port, 4, 4096, 1000000, 8):
            wait_until(lambda: daemon.stats("r")["connections"]["open"] == 4, "connected")
            bytes_in = daemon.stats("r")["bytes_in"]
            wait_until(lambda: daemon.stats("r")["bytes_in"] > bytes_in, "traffic")
        wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "gone")
    wait_until(lambda: resources()[f"{device}0"] == start, f"resources: {start} {resources()}")
    assert daemon.descriptors() == descriptors
    pool = daemon.stats("r")["pool"]
    assert pool["free"] == pool["chunks"]


def test_drain_ends_silent_connections_and_the_daemon(start_daemon, device):
    before = resources()[f"{device}0"]
    daemon = start_daemon(section(device, workers=2))
    with holding(daemon, 4) as process:
        assert daemon.terminate() == 0
        assert process.stdout.readline() == "disconnected\n"
    wait_until(lambda: resources()[f"{device}0"] == before, f"resources: {before} {resources()}")


def test_idle_listener_uses_no_cpu(start_daemon, device):
    daemon = start_daemon(section(device))
    with holding(daemon, 4):
        daemon.wait_closed("r", count=4, accepted=4)
        turns = daemon.stats("r")["cost"]["turns"]
        run("sleep", "1")
        assert daemon.stats("r")["cost"]["turns"] - turns <= 2


def test_an_address_of_no_device_is_said(start_daemon):
    daemon = start_daemon(listener("r", "echo", "rdma", transport="rdma", optional="yes", address="192.0.2.1:7"))
    assert daemon.status("r")["state"] == "unavailable" and "192.0.2.1:7" in daemon.status("r")["reason"]


# ---- Devices come and go ---------------------------------------------------------------------------

@contextlib.contextmanager
def flooding(daemon, name="r", count=4, size=4096):
    """A client under load; it may be killed."""
    host, port = daemon.addresses(name)[0]
    with running(CLIENT, "echo", host, port, count, size, 1000000, 8, stdout=subprocess.DEVNULL,
                 stderr=subprocess.DEVNULL) as flood:
        wait_until(lambda: daemon.stats(name)["connections"]["open"] == count, "connected")
        bytes_in = daemon.stats(name)["bytes_in"]
        wait_until(lambda: daemon.stats(name)["bytes_in"] > bytes_in + 50000, "traffic")
        yield flood


def serves(daemon, name="r"):
    return "ok 10" in client(daemon, "echo", 1, 100, 10, 1, name=name, check=False)


@pytest.mark.parametrize("address", ["device", "wildcard"])
def test_device_is_unplugged_under_load_and_back(start_daemon, device, address):
    host = ADDRESSES[device] if address == "device" else "0.0.0.0"
    daemon = start_daemon(listener("r", "echo", "rdma", transport="rdma", workers=2, address=f"{host}:7477"))
    at = (ADDRESSES[device], 7477)
    daemon.addresses = lambda name: [at]
    for _ in range(2):
        with flooding(daemon):
            delete = subprocess.Popen(["rdma", "link", "delete", f"{device}0"])  # waits for all users
            wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "all are gone")
        assert delete.wait(LIMIT) == 0
        assert f"{device}0" not in [d["name"] for d in daemon.status("r")["devices"]]
        add_device(device)
        wait_until(lambda: serves(daemon), "it is served again")
        assert f"{device}0" in [d["name"] for d in daemon.status("r")["devices"]]


@pytest.fixture
def rdma_cm_first():
    """The kernel takes a device from those that were loaded last first: ib_uverbs, which waits, before rdma_cm, which
    tells us."""
    with no_devices():
        must("modprobe", "-r", "siw", "rdma_rxe", "rdma_ucm", "rdma_cm", "ib_uverbs")
        for module in ("rdma_cm", "rdma_rxe", "siw", "ib_uverbs", "rdma_ucm"):
            must("modprobe", module)


@pytest.mark.parametrize("name", ["rxe", "siw"])
def test_device_is_unplugged_when_rdma_cm_was_loaded_first(start_daemon, rdma_cm_first, name):
    daemon = start_daemon(section(name, workers=2))
    with flooding(daemon):
        delete = subprocess.Popen(["rdma", "link", "delete", f"{name}0"])  # waits for all users
        wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "all are gone")
    assert delete.wait(LIMIT) == 0
    add_device(name)
    wait_until(lambda: serves(daemon), "it is served again")


def test_idle_device_is_unplugged_and_back(start_daemon, device):
    daemon = start_daemon(section(device))
    must("rdma", "link", "delete", f"{device}0")
    add_device(device)
    wait_until(lambda: serves(daemon), "it is served again")


def test_device_plugged_in_after_the_start(start_daemon, device):
    other = {"rxe": "siw", "siw": "rxe"}[device]
    must("rdma", "link", "delete", f"{device}0")
    try:
        daemon = start_daemon(listener("r", "echo", "rdma", transport="rdma", address="0.0.0.0:7478", workers=2))
    finally:
        add_device(device)
    for name in (other, device, other):
        daemon.addresses = lambda _, host=ADDRESSES[name]: [(host, 7478)]
        wait_until(lambda: serves(daemon), f"{name} is served")


def test_killed_server_leaves_nothing(start_daemon, device):
    before = resources()[f"{device}0"]
    daemon = start_daemon(section(device, workers=2))
    with flooding(daemon):
        daemon.process.kill()
        daemon.process.wait()
    wait_until(lambda: resources()[f"{device}0"] == before, f"resources: {before} {resources()}")
    again = start_daemon(section(device))
    assert serves(again)


def test_drain_under_load(start_daemon, device):
    before = resources()[f"{device}0"]
    daemon = start_daemon("[server]\ndrain-timeout = 1s\n" + section(device, workers=2))
    with flooding(daemon):
        assert daemon.terminate() == 0
    wait_until(lambda: resources()[f"{device}0"] == before, f"resources: {before} {resources()}")


def test_a_worker_that_spins_does_not_sleep(start_daemon, device):
    daemon = start_daemon(section(device, name="spins", busy_poll="1s") + section(device, name="sleeps"))
    assert "busy_poll" in daemon.status("spins")["engine_features"]
    rdma = {}
    for name in ("spins", "sleeps"):
        before = daemon.stats(name)["rdma"]
        client(daemon, "echo", 1, 64, 200, 1, name=name)
        rdma[name] = {key: daemon.stats(name)["rdma"][key] - before[key] for key in ("sleeps", "polls", "events")}
    assert rdma["spins"]["sleeps"] * 4 < rdma["sleeps"]["sleeps"], rdma
    assert rdma["spins"]["events"] * 4 < rdma["sleeps"]["events"], rdma


def test_port_in_use_is_said(start_daemon, device):
    daemon = start_daemon(section(device))
    port = daemon.port("r")
    second = start_daemon(listener("two", "echo", "rdma", transport="rdma", optional="yes",
                                   address=f"{ADDRESSES[device]}:{port}"))
    status = second.status("two")
    assert status["state"] == "unavailable"
    assert "Address already in use" in status["reason"]


def test_reload(start_daemon, device):
    """A reload leaves unchanged listeners alone; replacing one takes two reloads."""
    def reload(config, status=0):
        daemon.write_config(config)
        done = daemon.nbctl("reload", check=False)
        daemon.notified()  # a socket that nobody reads would fill
        assert done.returncode == status, done.stdout + daemon.log()
        return done.stdout

    tcp = listener("t")
    daemon = start_daemon(tcp)
    reload(tcp + section(device))
    fixed = section(device).replace(":0", f":{daemon.port('r')}")
    reload(tcp)
    wait_until(lambda: not daemon.call("GetStatus")["leaving"], daemon.log())
    free = resources()[f"{device}0"]  # librdmacm keeps the device open
    reload(tcp + fixed)
    with holding(daemon, 2):
        opened = daemon.stats("r")["connections"]["open"]
        reload(tcp + fixed + "max-connections = 100\n" + listener("u"))
        assert daemon.stats("r")["connections"]["open"] == opened == 2
        text = reload(tcp + fixed + "workers = 2\n", 1)
        assert "the RDMA addresses of listener 'r' cannot be handed over" in text
        assert daemon.stats("r")["connections"]["open"] == 2
    client(daemon, "echo", 1, 64, 32, 4)
    reload(tcp)
    wait_until(lambda: not daemon.call("GetStatus")["leaving"], daemon.log())
    reload(tcp + fixed + "workers = 2\n")
    client(daemon, "echo", 1, 64, 32, 4)
    reload(tcp)
    wait_until(lambda: resources()[f"{device}0"] == free, f"resources: {free} {resources()}")


def test_a_port_that_a_device_cannot_listen_on_is_said(start_daemon, tmp_path):
    """iWARP takes the ports of TCP, and the kernel listens on all devices or on none: no client would be served."""
    first = listener("first", "echo", "epoll", address="0.0.0.0:7491")
    second = listener("second", "echo", "rdma", transport="rdma", address="0.0.0.0:7491")
    daemon = start_daemon(first + "optional = yes\n" + second + "optional = yes\n")
    status = {name: daemon.status(name) for name in ("first", "second")}
    served, refused = sorted(status.values(), key=lambda one: one["state"] != "serving")
    assert (served["state"], refused["state"]) == ("serving", "unavailable")
    assert "0.0.0.0:7491: Address already in use; " in refused["reason"], refused
    daemon.stop()
    config = tmp_path / "ini"
    config.write_text(f"[server]\ncontrol = {tmp_path}/socket\n" + first + second)
    ended = run(BUILD / "nbserved", "-c", config)
    assert ended.returncode != 0 and "0.0.0.0:7491: Address already in use; " in ended.stdout, ended


def doctor(**options):
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as config:
        config.write(listener("t"))
        config.flush()
        return run(BUILD / "nbserved", "--doctor", "-c", config.name, **options).stdout


def test_doctor_lists_devices_ports_and_gids():
    out = doctor()
    assert re.search(r"ok +rdma +available", out), out
    assert re.search(r"ok +rdma: devices +2", out), out
    assert re.search(r"ok +rdma: rxe0 +\d+ queue pairs of \d+ requests", out), out
    assert re.search(r"ok +rdma: rxe0/1 +active, Ethernet, RoCE, mtu 1024", out), out
    assert re.search(r"ok +rdma: rxe0/1 gid +\d+: ::ffff:10.9.0.1 \(RoCE v2\)", out), out
    assert re.search(r"ok +rdma: siw0/1 +active, Ethernet, iWARP", out), out
    assert re.search(r"ok +rdma: siw0 memory +16 MiB can be registered, 16384 KiB of them in huge pages", out), out


@contextlib.contextmanager
def no_devices():
    for name in ADDRESSES:
        must("rdma", "link", "delete", f"{name}0")
    try:
        yield
    finally:
        for name in ADDRESSES:
            add_device(name)


@contextlib.contextmanager
def no_permission():
    paths = list(Path("/dev/infiniband").iterdir())
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0)
    try:
        yield
    finally:
        for path, mode in zip(paths, modes):
            path.chmod(mode)


def without(capability):
    """Makes the process root without a capability, and with little memory to lock."""
    def drop():
        assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 << 20, 8 << 20))
    return drop


CAP_DAC_OVERRIDE, CAP_IPC_LOCK = 1, 14
MAY_PASS, WRONG = 3, 1  # the status of a start: a device or memory may come later, a right does not
LACKS = {
    "device": (no_devices, None, "this host has no RDMA device", "rdma link add", MAY_PASS),
    "permission": (no_permission, without(CAP_DAC_OVERRIDE), "Permission denied", "DeviceAllow=", WRONG),
    "memlock": (contextlib.nullcontext, without(CAP_IPC_LOCK), "cannot register the buffers",
                "LimitMEMLOCK=infinity", MAY_PASS),
}


@pytest.mark.parametrize("lack", list(LACKS))
@pytest.mark.parametrize("address", ["10.9.0.1", "0.0.0.0"])
def test_lacks_of_the_host_are_reported_with_their_cure(start_daemon, tmp_path, lack, address):
    scene, preexec, reason, fix, exit_status = LACKS[lack]
    config = listener("two", "echo", "rdma", transport="rdma", address=f"{address}:7472", workers=2)
    with scene():
        daemon = start_daemon(config + "optional = yes\n", preexec=preexec)
        status = daemon.status("two")
        assert status["state"] == "unavailable"
        assert reason in status["reason"] and fix in status["reason"], status["reason"]
        (tmp_path / "ini").write_text(f"[server]\ncontrol = {tmp_path}/socket\n" + config)
        ended = run(BUILD / "nbserved", "-c", tmp_path / "ini", preexec_fn=preexec)
        assert ended.returncode == exit_status, ended
        assert reason in ended.stdout and fix in ended.stdout, ended
        report = doctor(preexec_fn=preexec)
        assert re.search(r"^no +rdma", report, re.M) and fix in report, report
        assert lack != "device" or "rdma link add rxe0 type rxe netdev" in report
    start_daemon(config)
