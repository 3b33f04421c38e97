"""Engine af_xdp: datagrams as frames of a veth's queue, in networks of the test's own; what is no such frame is served by
the socket; and where it cannot be, the listener is unavailable and says why."""

import contextlib
import ctypes
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import time

import pytest
from conftest import NBSERVED, TIMEOUT, check_config, limit_locked_memory, listener, requires, wait_until
from test_busy_poll import CLONE_NEWNET, LIBC, ethtool, far_network

MINUTES = 0.7

ETHTOOL_STXCSUM = 0x17
HOST, FAR, HOST6, FAR6, PORT = "10.9.0.1", "10.9.0.2", "fd09::1", "fd09::2", 7000
NEAR_MAC, FAR_MAC = bytes([2, 0, 0, 0, 9, 1]), bytes([2, 0, 0, 0, 9, 2])
LONGEST = 4096 - 256 - 42  # bytes of the longest datagram in a frame
SIZES = [0, 1, 2, 63, 64, 511, 512, 513, 1400, 1472]
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_BPF": 39}
CAP_SYS_ADMIN, PR_CAPBSET_DROP = 21, 24


def able():
    """Why this host cannot, or None."""
    done = subprocess.run([NBSERVED, "--doctor", "--json"], stdout=subprocess.PIPE, timeout=TIMEOUT)
    (found,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "af_xdp"]
    return None if found["ok"] else found["reason"]


@pytest.fixture(scope="module", autouse=True)
def host_that_can():
    if os.geteuid() or not os.path.exists("/proc/self/ns/net"):
        pytest.skip("needs root, for networks of its own")
    if why := able():
        pytest.skip(f"not here: {why}")


@contextlib.contextmanager
def inside(pid):
    """This thread is in the network of that process."""
    with open("/proc/self/ns/net", "rb") as own, open(f"/proc/{pid}/ns/net", "rb") as other:
        assert LIBC.setns(other.fileno(), CLONE_NEWNET) == 0
        try:
            yield
        finally:
            assert LIBC.setns(own.fileno(), CLONE_NEWNET) == 0


def run(pid, words):
    done = subprocess.run(["nsenter", "-t", str(pid), "-n", *words.split()], stdout=-1, stderr=-2, text=True,
                          timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def near(far, mtu=1500, queues=1, also=()):
    """Runs in the process that becomes the daemon: its own network has the near end."""
    assert LIBC.unshare(CLONE_NEWNET) == 0
    words = [f"link add near numrxqueues {queues} numtxqueues {queues} address {NEAR_MAC.hex(':')} mtu {mtu} type veth "
             f"peer name far numrxqueues {queues} numtxqueues {queues} address {FAR_MAC.hex(':')} mtu {mtu}",
             f"link set far netns {far}", "link set lo up", f"address add {HOST}/24 broadcast + dev near",
             f"address add {HOST6}/64 dev near nodad", "link set near up"]
    for line in words:
        subprocess.run(["ip", *line.split()], check=True)
    with inside(far):
        for line in ["link set lo up", f"address add {FAR}/24 dev far", f"address add {FAR6}/64 dev far nodad",
                     "link set far up"]:
            subprocess.run(["ip", *line.split()], check=True)
        ethtool("far", ETHTOOL_STXCSUM, 0)  # veth leaves them to a card that is not there
    for line in also:
        subprocess.run(["ip", *line.split()], check=True)


def section(service="echo", name="xdp", **keys):
    keys = {"xdp_queues": "near:0", "address": [f"{HOST}:{PORT}", f"[{HOST6}]:{PORT}"], **keys}
    return listener(name, service, "af_xdp", transport="udp", **keys)


@pytest.fixture
def start(start_daemon):
    """start(config, ...): the daemon, and the process in whose network its clients are."""
    with contextlib.ExitStack() as ends:

        def begin(config=None, preexec=lambda: None, options=(), **network):
            far = ends.enter_context(far_network())

            def before():
                near(far, **network)
                preexec()

            return start_daemon(config or section(), preexec=before, options=options), far

        yield begin


def client(far, host=HOST, port=PORT):
    with inside(far):
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(TIMEOUT)
    s.connect((host, port))
    return s


def raw(far):
    with inside(far):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        s.bind(("far", 0))
    s.settimeout(TIMEOUT)
    return s


def echo(s, data):
    assert s.send(data) == len(data)
    assert s.recv(1 << 16) == data


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ping(far):
    """The kernel answers an echo of ICMP."""
    ask, answer = (struct.pack("!BBHHH", kind, 0, checksum(struct.pack("!BBHHH", kind, 0, 0, 7, 7)), 7, 7)
                   for kind in (8, 0))
    with inside(far):
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with s:
        s.settimeout(TIMEOUT)
        s.sendto(ask, (HOST, 0))
        while s.recv(100)[20:] != answer:
            pass


def counts(daemon, name="xdp"):
    return daemon.stats(name)["udp"]


def by_frames(daemon, name="xdp"):
    found = counts(daemon, name)
    assert found["in"] == found["frames_in"] > 0 and found["out"] == found["frames_out"], found
    return True


def is_attached(pid):
    return "xdp" in run(pid, "ip link show near")


# ---- By frames ----


@pytest.mark.parametrize("mode", ["auto", "copy", "generic"])
@pytest.mark.parametrize("host", [HOST, HOST6])
def test_echo_of_every_size_comes_and_leaves_as_a_frame(start, mode, host):
    daemon, far = start(section(xdp_mode=mode))
    with client(far, host) as s:
        for size in SIZES[: -1 if ":" in host else None]:
            echo(s, random.Random(size).randbytes(size))
    assert by_frames(daemon)
    stats = daemon.stats("xdp")
    assert ("xdp_generic" if mode == "generic" else "xdp_copy") in stats["engine_features"]
    assert stats["udp"]["refused"] == 0 and stats["pool"]["free"] >= stats["pool"]["chunks"] - 2


def test_what_is_too_long_for_a_frame_comes_by_the_socket(start):
    """With a driver that takes such frames; veth's own XDP does not, the kernel's does."""
    daemon, far = start(section(xdp_mode="generic"), mtu=9000)
    for host, longest in (HOST, LONGEST), (HOST6, LONGEST - 20):
        with client(far, host) as s:
            for size in [3000, longest, longest + 1, 8000, 60000, 1]:
                echo(s, random.Random(size).randbytes(size))
    found = counts(daemon)
    assert found["in"] == found["out"] == 12 and found["frames_in"] == found["frames_out"] == 6


def test_fragments_come_by_the_socket(start):
    """Of one client, whose other datagrams are frames: it stays one."""
    daemon, far = start()
    for host in HOST, HOST6:
        with client(far, host) as s:
            for size in [64, 3000, 64, 3714, 1473 + 20, 0]:
                echo(s, random.Random(size).randbytes(size))
    found = counts(daemon)
    assert found["in"] == found["out"] == 12 and found["frames_in"] == found["frames_out"] == 6
    assert daemon.stats("xdp")["connections"]["accepted"] == 2


def test_another_queue_comes_by_the_socket(start):
    daemon, far = start(queues=2)
    run(far, "tc qdisc add dev far root handle 1: mq")  # a queue each: chosen by the flow
    sockets = [client(far) for _ in range(32)]
    for s in sockets:
        echo(s, b"whoever takes it")
    found = counts(daemon)
    assert found["in"] == found["out"] == 32
    assert 0 < found["frames_in"] < 32 and found["frames_in"] == found["frames_out"]


def test_all_else_is_the_kernels(start):
    daemon, far = start(section() + listener("tcp", address=f"{HOST}:{PORT}"))
    with inside(far), socket.create_connection((HOST, PORT), timeout=TIMEOUT) as s:
        s.sendall(b"stream")
        assert s.recv(64) == b"stream"
    ping(far)
    with client(far, port=PORT + 1) as s:  # nobody is there, and the kernel says so
        s.send(b"x")
        with pytest.raises(ConnectionRefusedError):
            s.recv(1)
    assert counts(daemon)["in"] == 0


# ---- Whom it does not answer ----


def frame(source, data, port=5000, to=NEAR_MAC, cut=0, udp_length=None, break_udp=0, break_ip=0):
    a, b = socket.inet_aton(source), socket.inet_aton(HOST)
    udp = struct.pack("!HHHH", port, PORT, udp_length or 8 + len(data), 0) + data
    udp_sum = checksum(a + b + struct.pack("!HH", 17, len(udp)) + udp) ^ break_udp
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, a, b)
    ip = ip[:10] + struct.pack("!H", checksum(ip) ^ break_ip) + ip[12:]
    whole = to + FAR_MAC + b"\x08\x00" + ip + udp[:6] + struct.pack("!H", udp_sum) + udp[8:]
    return whole[: len(whole) - cut]


def answers(s, until):
    """Datagrams that came from us, up to that one."""
    found = []
    while until not in found:
        data = s.recv(1 << 16)
        if data[12:14] == b"\x08\x00" and data[23] == 17 and data[34:36] == struct.pack("!H", PORT):
            found.append(data[42 : 42 + struct.unpack("!H", data[38:40])[0] - 8])
    return found


def test_forged_and_damaged_frames_are_not_answered(start):
    """As the kernel would not.  The last one is right, and its answer comes behind those that must not."""
    daemon, far = start()
    wrong = [frame(source, source.encode()) for source in
             ["127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "224.1.2.3", "240.0.0.1", "255.255.255.255", HOST,
              "10.9.0.255"]]
    wrong += [frame(FAR, b"udp sum", break_udp=1), frame(FAR, b"ip sum", break_ip=1), frame(FAR, b"long", udp_length=99),
              frame(FAR, b"short", udp_length=4), frame(FAR, b"cut", cut=1), frame(FAR, b"reflector", port=7),
              frame(FAR, b"wrong mac", to=bytes([2, 0, 0, 0, 9, 9]))]
    with raw(far) as s:
        for each in wrong:
            s.send(each)
        s.send(frame("10.9.0.77", b"right"))  # nobody has told us of this MAC by ARP
        assert answers(s, b"right") == [b"right"]
    found = counts(daemon)
    assert found["refused"] == len(wrong) and found["in"] == found["out"] == found["frames_in"] == 1


def test_a_stranger_gets_no_more_than_it_has_sent(start):
    daemon, far = start(section("chargen"))
    with raw(far) as s:
        s.send(frame(FAR, b"x" * 10))
        wait_until(lambda: counts(daemon)["frames_out"] == 1, "its answer")
    assert daemon.stats("xdp")["bytes_out"] == 10


def test_the_kernel_polls_the_queue_in_one_wait(start):
    """With `busy-poll` the worker does not spin while frames come: a wait of the worker polls."""
    daemon, far = start(section(busy_poll="1ms"))
    if "epoll_busy_poll" not in daemon.stats("xdp")["engine_features"]:
        pytest.skip("needs Linux 6.9")
    waits = {}
    for features in "all", "-epoll_busy_poll":
        daemon.write_config(section(busy_poll="1ms", features=features))
        daemon.nbctl("reload")
        with client(far) as s:
            wait_until(lambda: echo(s, b"x") or counts(daemon)["frames_in"] > 1, "frames are taken")
            before = daemon.stats("xdp")["cost"]["syscalls"]["epoll_wait"]
            for _ in range(20):
                time.sleep(0.002)
                echo(s, b"x")
            waits[features] = daemon.stats("xdp")["cost"]["syscalls"]["epoll_wait"] - before
    assert waits["-epoll_busy_poll"] > 2 * waits["all"], waits


# ---- Bursts ----


def burst(daemon, far, count, size, sockets=1):
    """Datagrams that come while the daemon is stopped, and how many of them are answered."""
    clients = [client(far) for _ in range(sockets)]
    for s in clients:
        s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    daemon.freeze()
    for i in range(count):
        clients[i % sockets].send(struct.pack("!I", i) + bytes(size - 4))
    os.kill(daemon.pid, signal.SIGCONT)

    def all_told():
        found = counts(daemon)
        return found["in"] + found["overflowed"] >= count and found["out"] == found["in"] and found

    found = wait_until(all_told, "each is answered or counted as lost")
    seen = set()
    for s in clients:
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                seen.add(s.recv(size))
    assert len(seen) == found["out"]
    for s in clients:
        s.settimeout(TIMEOUT)
        echo(s, b"polite")
        s.close()
    return found


def test_an_empty_pool_loses_what_it_has_no_room_for(start):
    daemon, far = start(section(buffers=16))
    found = burst(daemon, far, 500, 1400, sockets=5)
    assert found["overflowed"] == 500 - found["in"] > 0
    wait_until(lambda: daemon.stats("xdp")["pool"]["free"] == 16, "all buffers are free")


def test_many_frames_in_a_turn_are_all_answered(start):
    """More than the kernel sends in a call."""
    daemon, far = start(section(buffers=8192, buffer_size="4K"))
    found = burst(daemon, far, 2000, 64)
    assert found["in"] == found["frames_in"] == 2000 and found["overflowed"] == 0
    assert daemon.stats("xdp")["cost"]["syscalls"]["send"] < 2000


def test_a_full_ring_makes_it_wait(start):
    """A slow queue behind a bridge: the kernel sends no more until that has sent.  Neither a frame that was taken is lost,
    nor does the worker spin."""
    host = "10.10.0.1"
    also = [f"link add bridge address {NEAR_MAC.hex(':')} type bridge", "link set near master bridge",
            f"address add {host}/24 dev bridge", "link set bridge up"]
    config = section(buffers=8192, buffer_size="4K", address=f"{host}:{PORT}", xdp_queues="bridge:0", xdp_mode="generic")
    daemon, far = start(config, also=also)
    run(far, "ip address add 10.10.0.2/24 dev far")
    with client(far, host) as s:
        echo(s, b"not slow")
        assert by_frames(daemon)
        run(daemon.pid, "tc qdisc add dev near root tbf rate 400kbit burst 2k limit 10m")

        def blocked():
            for _ in range(200):
                s.send(bytes(64))
            return daemon.stats("xdp")["tx_blocked"] > 0

        wait_until(blocked, "the ring is full")
        for _ in range(1500):
            s.send(bytes(64))
        calls = daemon.stats("xdp")["cost"]["syscalls"]
        waits, out = calls["epoll_wait"], counts(daemon)["out"]
        wait_until(lambda: counts(daemon)["out"] > out + 1000, "there is room again")
        assert daemon.stats("xdp")["cost"]["syscalls"]["epoll_wait"] - waits < 20000
        run(daemon.pid, "tc qdisc del dev near root")
        found = wait_until(lambda: counts(daemon)["out"] == counts(daemon)["in"] and counts(daemon), "all are answered")
        assert found["frames_out"] == found["out"]
    with client(far, host) as s:
        echo(s, b"polite")


# ---- Its life ----


def described(network=()):
    """The interface, without what changes by itself."""
    done = subprocess.run([*network, "ip", "-d", "link", "show", "near"], stdout=-1, text=True, check=True)
    return re.sub(r"<.*?>|state \w+", "", done.stdout)


def test_kill_leaves_the_interface_as_it_was(start, tmp_path):
    """The program ends with the last descriptor of its link, and what is the kernel's goes on."""
    note = tmp_path / "before"
    daemon, far = start(preexec=lambda: note.write_text(described()))
    with client(far) as s:
        echo(s, b"alive")
    network = ["nsenter", f"--net=/proc/{daemon.pid}/ns/net"]
    assert described(network) != note.read_text()
    with open(f"/proc/{daemon.pid}/ns/net", "rb") as kept:
        ping(far)
        daemon.process.kill()
        ping(far)
        daemon.process.wait()
        ping(far)
        daemon.stop = lambda: None  # it did not end as it should
        network = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{kept.fileno()}"]
        wait_until(lambda: described(network) == note.read_text(), "the interface is as it was")


def test_a_replaced_listener_takes_the_queue_again(start):
    """And whoever asks meanwhile is answered, by frames or by the socket."""
    daemon, far = start()
    with client(far) as s:
        echo(s, b"before")
        for idle in ["20s", "30s", "40s"]:
            daemon.write_config(section(buffers=512 + int(idle[:2])))
            daemon.nbctl("reload")
            echo(s, b"during")

            def again():
                echo(s, b"again")
                return counts(daemon)["frames_in"] > 0

            wait_until(again, "frames are taken again")


def test_a_drained_listener_gives_the_queue_back(start):
    daemon, far = start()
    with client(far) as s:
        echo(s, b"before")
        daemon.nbctl("drain", "xdp")
        wait_until(lambda: not is_attached(daemon.pid), "the interface is free")
        daemon.nbctl("resume", "xdp")
        wait_until(lambda: is_attached(daemon.pid), "the interface is taken")
        echo(s, b"after")


def test_an_interface_that_goes_and_comes_is_taken_again(start):
    daemon, far = start()
    with client(far) as s:
        echo(s, b"before")
    run(daemon.pid, "ip link del near")
    wait_until(lambda: daemon.status("xdp")["state"] == "serving", "it goes on")
    run(daemon.pid, f"ip link add near address {NEAR_MAC.hex(':')} type veth peer name far netns {far}")
    run(daemon.pid, f"ip address add {HOST}/24 dev near")
    run(daemon.pid, f"ip address add {HOST6}/64 dev near nodad")
    run(daemon.pid, "ip link set near up")
    run(far, f"ip address add {FAR}/24 dev far")
    run(far, "ip link set far up")
    with inside(far):
        ethtool("far", ETHTOOL_STXCSUM, 0)
    wait_until(lambda: is_attached(daemon.pid), "the interface is taken")
    before = counts(daemon)["frames_in"]
    with client(far) as s:
        echo(s, b"after")
    assert counts(daemon)["frames_in"] == before + 1


# ---- Where it cannot be ----


def drop(*capabilities):
    """For preexec: root without these; CAP_SYS_ADMIN stands for some of them."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    LIBC.capget(header, sets)
    for number in [CAP_SYS_ADMIN, *(CAPABILITIES[name] for name in capabilities)]:
        for at in range(3 * (number // 32), 3 * (number // 32) + 3):
            sets[at] &= ~(1 << number % 32)
        LIBC.prctl(PR_CAPBSET_DROP, number)
    assert LIBC.capset(header, sets) == 0


def is_unavailable(daemon, *words):
    status = daemon.status("xdp")
    assert status["state"] == "unavailable", status
    for word in words:
        assert word in status["reason"], status
    assert "; " in status["reason"], "and how to fix it"


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_without_a_capability_it_is_unavailable(start, capability):
    daemon, _ = start(section(optional="yes"), preexec=lambda: drop(capability))
    is_unavailable(daemon, "af_xdp near:0", capability, "nbserved-xdp.conf")
    report = json.loads(daemon.nbctl("doctor", "--json", check=False).stdout)
    (found,) = report["listeners"]
    assert not found["available"] and capability in found["reason"] and "nbserved-xdp.conf" in found["fix"]


def test_the_three_capabilities_are_enough(start):
    """Beside the memory that may be locked."""
    daemon, far = start(preexec=drop)
    with client(far) as s:
        echo(s, b"x")
    assert by_frames(daemon)


def forbid_memory():
    limit_locked_memory(64 << 10)


@pytest.mark.parametrize(("keys", "network", "words"), [
    ({"xdp_queues": "none:0"}, {}, ["there is no such interface"]),
    ({"xdp_queues": "near:7"}, {}, ["no such queue", "ethtool -l"]),
    ({"xdp_queues": "lo:0"}, {}, ["not Ethernet"]),
    ({"address": "127.0.0.1:7"}, {}, ["not one of the interface"]),
    ({"address": f"0.0.0.0:{PORT}"}, {}, ["not one of the interface"]),
    ({"address": f"{HOST}:{PORT}-{PORT + 1}"}, {}, ["one IPv4 and one IPv6"]),
    ({"xdp_mode": "zero-copy"}, {}, ["without a copy", "xdp-mode = auto"]),
    ({}, {"mtu": 9000}, ["MTU"]),
    ({}, {"preexec": forbid_memory}, ["locked", "LimitMEMLOCK"]),
    ({"xdp_queues": "bridge:0", "address": "10.10.0.1:7"},
     {"also": ["link add bridge type bridge", "address add 10.10.0.1/24 dev bridge", "link set bridge up"]},
     ["driver has no XDP", "xdp-mode = generic"]),
], ids=["interface", "queue", "loopback", "address", "wildcard", "ports", "zero-copy", "mtu", "memory", "driver"])
def test_where_it_cannot_be_it_says_why(start, keys, network, words):
    daemon, _ = start(section(optional="yes", **keys), **network)
    is_unavailable(daemon, *words)


@pytest.mark.parametrize("mode", ["generic", "copy"])
def test_beside_another_daemon_it_is_unavailable(start, start_daemon, mode):
    daemon, far = start()
    with open(f"/proc/{daemon.pid}/ns/net", "rb") as network:
        other = start_daemon(section(optional="yes", xdp_mode=mode, address=f"{HOST}:{PORT + 1}"),
                             preexec=lambda: LIBC.setns(network.fileno(), CLONE_NEWNET))
    is_unavailable(other, "another socket of AF_XDP has this queue")
    with client(far) as s:
        echo(s, b"not disturbed")


def second(interface, queue, **keys):
    return section(name="second", xdp_queues=f"{interface}:{queue}", address=f"{HOST}:{PORT + 1}", **keys)


def test_two_listeners_have_an_interface_each(start):
    """On one interface they are refused by name, and whoever serves there serves on."""
    other, far2 = "10.10.0.1", "10.10.0.2"
    daemon, far = start(section() + second("near2", 0).replace(HOST, other), also=[
        "link add near2 type veth peer name far2", f"address add {other}/24 dev near2", "link set near2 up"])
    run(daemon.pid, f"ip link set far2 netns {far}")
    run(far, f"ip address add {far2}/24 dev far2")
    run(far, "ip link set far2 up")
    with inside(far):
        ethtool("far2", ETHTOOL_STXCSUM, 0)
    with client(far) as s, client(far, other, PORT + 1) as t:
        for each in s, t:
            echo(each, b"by its own interface")
        assert by_frames(daemon) and by_frames(daemon, "second")
        for queue in 0, 1:
            daemon.write_config(section() + second("near", queue))
            done = daemon.nbctl("reload", check=False)
            assert done.returncode and "[listener second] xdp-queues: expected another interface than 'near', which " \
                "[listener xdp] has" in done.stdout, done
        for each in s, t:
            echo(each, b"not disturbed")


@pytest.mark.parametrize(("keys", "word"), [
    ({"xdp_queues": "no"}, "is required"), ({"xdp_queues": "near"}, "INTERFACE:QUEUE"),
    ({"workers": 2}, "workers = 1"), ({"engine": "auto"}, "requires engine = af_xdp"),
    ({"engine": "epoll"}, "af_xdp"),
])  # fmt: skip
def test_what_it_does_not_serve_is_refused(tmp_path, keys, word):
    config = section(**{k: v for k, v in keys.items() if k != "engine"})
    config = config.replace("engine = af_xdp", f"engine = {keys.get('engine', 'af_xdp')}")
    status, errors = check_config(tmp_path, config)
    assert status == 1 and word in errors, errors


# ---- Real clients ----


@pytest.mark.parametrize("reverse", ["", "-R"])
def test_iperf3(start, reverse):
    program = requires("iperf3")
    twins = section("iperf3", address=f"{HOST}:{PORT}") + listener("tcp", "iperf3", address=f"{HOST}:{PORT}")
    daemon, far = start(twins)
    out = json.loads(run(far, f"{program} -c {HOST} -p {PORT} -u -b 20M -l 1400 -t 1 -J {reverse}"))
    assert out["end"]["sum"]["packets"] > 100
    found = counts(daemon)
    assert found["frames_in"] > 0 and found["frames_out"] > (100 if reverse else 0)
