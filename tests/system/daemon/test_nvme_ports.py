"""Listeners with the same NQN are ports of one NVMe subsystem: a host reaches the same disks by each."""

import ctypes
import os
import signal
import struct
import threading

import pytest
from conftest import ENGINES, check_config, listener, wait_until
from nvme_client import AER, DISCOVERY, DNR, KEEP_ALIVE, SET_FEATURES, Host, Queue, Status

MIB = 1024 * 1024
NQN = "nqn.2026-11.example.lab:disks"
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
EVENT = 0x010300  # an error, persistent internal error, log page 1
CHANGED = 0x70F002  # a notice, discovery log page change, log page 70h
RETAIN = 1 << 15  # of Get Log Page: the event is not cleared


def config(path, addresses=None, names=("a", "b"), **keys):
    """Listeners that differ in the engine, at these addresses or at ports that the kernel chooses."""
    text = f"[export disk]\npath = {path}\ncreate = yes\nsize = {8 * MIB}\n"
    for i, name in enumerate(names):
        if addresses:
            keys["address"] = addresses[name]
        text += listener(name, service="nvme", engine=ENGINES[i % len(ENGINES)], nqn=NQN, exports="disk", workers=2,
                         **keys)
    return text


def discover(daemon, name):
    """(generation, [(transport, family, id, port, NQN, address)]), read as nvme-cli does: in pieces of 4 KiB.
    The last record, the Discovery subsystem itself, is checked and left out."""
    with Queue(daemon.connect(name)) as queue:
        queue.connect(DISCOVERY)
        queue.enable()
        generation, count, _ = struct.unpack_from("<QQH", queue.log(0x70, 1024))
        log = b"".join(queue.log(0x70, 4096, offset) for offset in range(0, 1024 * (1 + count), 4096))
        found = []
        for at in range(1024, 1024 * (1 + count), 1024):
            transport, family, _, _, number = struct.unpack_from("<BBBBH", log, at)
            texts = [log[at + begin:at + end].rstrip(b" \0").decode() for begin, end in
                     ((32, 64), (256, 512), (512, 768))]
            found.append((transport, family, number, *texts))
        here = queue.socket.getpeername()
        assert found.pop() == (3, 1, count, str(here[1]), DISCOVERY, here[0])
        return generation, found


def watch(daemon, name):
    """A Discovery controller that lasts, and tells of changes."""
    queue = Queue(daemon.connect(name))
    queue.connect(DISCOVERY, kato=15000)
    queue.enable()
    assert struct.unpack_from("<I", queue.identify(1), 92) == (1 << 31,), "OAES"
    queue.run(SET_FEATURES, cdw=[0xB, 1 << 31])
    return queue


def test_each_port_leads_to_the_same_disks(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk"))
    with Host(daemon, "a", NQN) as a, Host(daemon, "b", NQN) as b:
        assert a.cntlid != b.cntlid
        pages = [host.admin.identify(1) for host in (a, b)]
        assert pages[0][4:24] == pages[1][4:24], "the serial number"
        assert [page[768:1024].rstrip(b"\0").decode() for page in pages] == [NQN, NQN]
        assert [page[76] for page in pages] == [3, 3], "CMIC: several ports, several controllers"
        assert a.admin.identify(3, 1) == b.admin.identify(3, 1), "UUID, NGUID"
        assert a.admin.identify(0, 1) == b.admin.identify(0, 1)
        for block in range(8):
            (a, b)[block % 2].write(block, bytes([block + 1]) * 4096)
        written = b"".join(bytes([block + 1]) * 4096 for block in range(8))
        assert a.read(0, 8) == b.read(0, 8) == written
        b.flush()
        with Queue(daemon.connect("b")) as stray, pytest.raises(Status) as refused:
            stray.connect(NQN, 2, a.cntlid)  # a controller is where it was made
        assert refused.value.args[0] == 0x182
    assert (tmp_path / "disk").read_bytes()[:8 * 4096] == written


def test_a_single_port_says_so(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk", names=("a",)))
    with Host(daemon, "a", NQN) as host:
        assert host.admin.identify(1)[76] == 2


def test_the_log_of_each_port_lists_all(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk") + listener("other", service="nvme", exports="disk"))
    found = [discover(daemon, name) for name in ("a", "b")]
    assert found[0] == found[1]
    assert found[0][1] == [(3, 1, number, str(daemon.port(name)), NQN, "127.0.0.1")
                           for number, name in ((1, "a"), (2, "b"))]
    (other,) = discover(daemon, "other")[1]
    assert other[3] == str(daemon.port("other")) and other[4] != NQN


def only_name(daemon, name):
    """The NQN that the listener's discovery lists."""
    (entry,) = discover(daemon, name)[1]
    return entry[4]


def root_is_mount():
    """Not so in a chroot to a plain folder, whose mounts cannot be made private."""
    with open("/proc/self/mountinfo") as mounts:
        return any(line.split()[4] == "/" for line in mounts)


def hide_machine_id():
    """preexec for a daemon: as in a chroot, or an image that was never booted."""
    if not os.path.exists("/etc/machine-id"):
        return
    libc = ctypes.CDLL(None)
    assert libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
    assert libc.mount(b"/dev/null", b"/etc/machine-id", None, MS_BIND, None) == 0


def test_a_machine_without_an_id_gives_each_start_another_name(start_daemon):
    """Two such machines are not taken for two ways to one disk; a reload keeps the name."""
    if os.path.exists("/etc/machine-id") and not (os.geteuid() == 0 and root_is_mount()):
        pytest.skip("needs root, and a / that is a mount, to hide /etc/machine-id")
    text = "[export disk]\nstore = memory\nsize = 8M\n" + listener("a", service="nvme", exports="disk")
    daemons = [start_daemon(text, preexec=hide_machine_id) for _ in range(2)]
    names = [only_name(daemon, "a") for daemon in daemons]
    assert all(name.startswith("nqn.2014-08.org.nvmexpress:uuid:") for name in names) and names[0] != names[1]
    daemons[0].write_config(text + listener("b", service="nvme", exports="disk"))
    daemons[0].call("Reload")
    assert only_name(daemons[0], "a") == names[0] != only_name(daemons[0], "b")


def test_a_wildcard_is_listed_as_the_address_that_was_asked(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk", {"a": "127.0.0.1:0", "b": "0.0.0.0:0, [::]:0"}))
    ports = [port for name in ("a", "b") for _, port in daemon.addresses(name)]
    assert [entry[3:] for entry in discover(daemon, "a")[1]] == [
        (str(ports[0]), NQN, "127.0.0.1"), (str(ports[1]), NQN, "127.0.0.1")]


def test_a_log_lists_all_ports(start_daemon, tmp_path):
    """Also those beyond the 31 that 32 KiB have room for; whole, and in pieces that begin within an entry."""
    many = ["127.0.0.1:0"] * 14
    daemon = start_daemon(config(tmp_path / "disk", dict.fromkeys("abc", many), "abc"))
    found = discover(daemon, "c")[1]
    assert [entry[3] for entry in found] == [str(port) for name in "abc" for _, port in daemon.addresses(name)]
    with Queue(daemon.connect("a")) as queue:
        queue.connect(DISCOVERY)
        queue.enable()
        whole = queue.log(0x70, 64 * 1024)
        assert len(whole.rstrip(b"\0")) > 43 * 1024 and struct.unpack_from("<Q", whole, 8) == (43,)
        assert b"".join(queue.log(0x70, 3000, at) for at in range(0, 42000, 3000)) == whole[:42000]


def test_hosts_that_watch_the_log_are_told_when_it_changes(start_daemon, tmp_path, loopback_ports):
    """Once until they read it, and of nothing else: another subsystem, or a listener that is replaced."""
    host, port = loopback_ports
    at = {name: f"{host}:{port + i}" for i, name in enumerate("abc")}
    daemon = start_daemon(config(tmp_path / "disk", at))

    def reload(text):
        daemon.write_config(text)
        daemon.call("Reload")
        daemon.notified()

    def is_quiet(*queues):
        for queue in queues * 2:  # the second round trip is behind whatever the first has woken
            queue.run(KEEP_ALIVE)
        return not any(event in queue.done for queue, event in events.items())

    first, ports = discover(daemon, "a"), [str(port + i) for i in range(3)]
    a, b = watch(daemon, "a"), watch(daemon, "b")
    events = {queue: queue.submit(AER) for queue in (a, b)}
    other = "[export more]\nstore = memory\nsize = 1M\n" + listener("other", service="nvme", exports="more")
    reload(config(tmp_path / "disk", at) + other)
    assert is_quiet(a, b) and discover(daemon, "a") == first
    replaced = other + config(tmp_path / "disk", at).replace("[listener b]\n", "[listener b]\nbuffers = 512\n")
    reload(replaced)
    assert b.wait(events.pop(b))[1] == EVENT, "its host has to come back"
    assert is_quiet(a) and discover(daemon, "a") == discover(daemon, "b") == first
    b.socket.close()
    b = watch(daemon, "b")
    events[b] = b.submit(AER)
    reload(replaced + listener("c", service="nvme", nqn=NQN, exports="disk", address=at["c"]))
    assert [queue.wait(event)[1] for queue, event in events.items()] == [CHANGED] * 2
    generation, found = discover(daemon, "a")
    assert generation == first[0] + 1 and [entry[3] for entry in found] == ports
    # It is masked until the log is read: a reads it, b reads it and retains the event.
    events = {queue: queue.submit(AER) for queue in (a, b)}
    assert a.log(0x70, 1024) == b.log(0x70 | RETAIN, 1024)
    daemon.call("Drain", listener="c")
    assert a.wait(events.pop(a))[1] == CHANGED and is_quiet(b)
    assert discover(daemon, "b") == (first[0] + 2, first[1])
    b.log(0x70, 1024)
    assert is_quiet(b), "it has read what has changed"
    daemon.call("Resume", listener="c")
    assert b.wait(events.pop(b))[1] == CHANGED and discover(daemon, "b") == (first[0] + 3, found)
    for queue in (a, b):
        queue.socket.close()


def test_a_daemon_that_stops_leaves_its_ports_in_the_log(start_daemon, tmp_path):
    """stacd of nvme-stas removes a disk whose port is no longer listed, even if the daemon only restarts."""
    daemon = start_daemon(config(tmp_path / "disk"))
    with watch(daemon, "a") as queue:
        log, event = queue.log(0x70 | RETAIN, 4096), queue.submit(AER)
        daemon.process.send_signal(signal.SIGTERM)
        assert queue.wait(event)[1] == EVENT, "it drains"
        event = queue.submit(AER)
        assert queue.log(0x70 | RETAIN, 4096) == log and event not in queue.done
    assert daemon.process.wait(60) == 0


def test_events_asked_for_are_limited(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk"))
    with watch(daemon, "a") as queue:
        limit = queue.identify(1)[259] + 1
        events = [queue.submit(AER) for _ in range(limit + 1)]
        with pytest.raises(Status) as refused:
            queue.wait(events[-1])
        assert refused.value.args[0] == 0x105 | DNR
        assert daemon.stats("a")["connections"]["open"] == 1


def two(first, second):
    """Listeners with these exports and other keys."""
    text = "[export x]\nstore = memory\nsize = 1M\n[export y]\nstore = memory\nsize = 1M\n"
    for i, keys in enumerate((first, second)):
        text += f"[listener {'ab'[i]}]\naddress = 127.0.0.1:{4420 + i}\nservice = nvme\nnqn = {NQN}\n{keys}"
    return text


@pytest.mark.parametrize("first,second,expected", [
    ("exports = x\n", "exports = y\n", "16: [listener b] exports: expected 'x' as in [listener a] (11), ! 'y'"),
    ("exports = x, y\n", "exports = y, x\n", "16: [listener b] exports: expected 'x' as in [listener a] (11), ! 'y'"),
    ("exports = x, y\n", "exports = x\n", "16: [listener b] exports: expected 'y' as in [listener a] (11), ! nothing"),
    ("exports = x\n", "exports = x, y\n", "16: [listener b] exports: expected nothing as in [listener a] (11), ! 'y'"),
    ("exports = x\nblock-size = 512\n", "exports = x\nblock-size = 4096\n",
     "18: [listener b] block-size: expected '512' as in [listener a] (12), ! '4096'"),
    ("exports = x\n", "exports = x\nblock-size = 512\n",
     "17: [listener b] block-size: expected 'auto' as in [listener a] (7), ! '512'"),
])
def test_ports_that_differ_in_their_disks_are_refused(tmp_path, first, second, expected):
    expected = expected.replace("!", "or another `nqn`, got") + ": listeners with the same nqn serve the same"
    status, errors = check_config(tmp_path, two(first, second))
    assert (status, errors.replace(f"{tmp_path}/check.ini:", "")) == (1, f"nbserved: error: {expected}\n")


def test_ports_may_differ_in_all_else(tmp_path):
    assert check_config(tmp_path, two("exports = x, y\nbuffers = 64\nengine = epoll\n",
                                      "exports = x\nexports = y\nworkers = 3\n"))[0] == 0


def test_a_port_goes_and_comes_back_while_another_serves(start_daemon, tmp_path, loopback_ports):
    host, port = loopback_ports  # no other process takes the port while it is free
    both = config(tmp_path / "disk", {name: f"{host}:{port + i}" for i, name in enumerate("ab")})
    daemon = start_daemon(both)
    a, b = Host(daemon, "a", NQN), Host(daemon, "b", NQN)
    ends = threading.Event()
    rounds = [0]

    def use_b():
        while not ends.is_set():
            data = struct.pack("<I", rounds[0]) * 1024
            b.write(rounds[0] % 64, data)
            assert b.read(rounds[0] % 64) == data
            rounds[0] += 1

    def reload(text):
        before = rounds[0]
        daemon.write_config(text)
        daemon.call("Reload")
        daemon.notified()
        wait_until(lambda: rounds[0] > before + 5 or not thread.is_alive(), "the other port serves")
        assert thread.is_alive()

    thread = threading.Thread(target=use_b)
    thread.start()
    try:
        log = discover(daemon, "b")
        for _ in range(2):
            event = a.admin.submit(AER)
            a.write(100, b"by a" * 1024)
            reload(both[:both.index("[listener a]")] + both[both.index("[listener b]"):])
            assert a.admin.wait(event)[1] == EVENT  # upon which Linux takes the other path
            a.close()
            gone = discover(daemon, "b")
            assert gone[0] != log[0] and [entry[3] for entry in gone[1]] == [str(daemon.port("b"))]
            reload(both)
            log = discover(daemon, "b")
            assert sorted(entry[3] for entry in log[1]) == sorted(str(daemon.port(name)) for name in "ab")
            a = Host(daemon, "a", NQN)
            assert a.read(100) == b"by a" * 1024
    finally:
        ends.set()
        thread.join()
    a.close()
    b.close()
    for name in "ab":
        daemon.wait_closed(name)


def test_a_host_waits_for_writes_of_a_port_that_it_has_lost(faulty, tmp_path):
    """A Connect at any port, as what comes by it may be newer than what is still on its way to the disk."""
    faulty.write_config(config(tmp_path / "disk", store="threads"))
    faulty.call("Reload")
    faulty.notified()
    faulty.say("pwrite wait")
    old = Host(faulty, "a", NQN)
    old.rw(1, 0, b"old!" * 1024, capsule=True)
    wait_until(lambda: faulty.call("GetStats")["exports"][0]["in_flight"] == 1, "it is in flight")
    old.close()
    wait_until(lambda: {c["state"] for c in faulty.call("ListConnections", listener="a")["connections"]}
               == {"closing"}, "it ends")
    found = []

    def come_back():
        with Host(faulty, "b", NQN) as new:
            new.write(0, b"new!" * 1024)
            found.append(new.read(0))

    thread = threading.Thread(target=come_back)
    thread.start()
    wait_until(lambda: faulty.stats("b")["connections"]["open"] == 1, "it has come")
    assert not found
    faulty.say("")
    thread.join()
    assert found == [b"new!" * 1024]
