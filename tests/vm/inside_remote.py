"""Run by test_rdma.py in the VM: services that read and write their clients' memory."""
import contextlib
import json
import signal
import subprocess
import threading

import pytest
import inside_rdma
from inside_rdma import ADDRESSES, BUILD, LIMIT, must, resources, run, section, wait_until

device, devices, start_daemon = inside_rdma.device, inside_rdma.devices, inside_rdma.start_daemon

CLIENT = str(BUILD / "vm/remote_client")


def at(daemon, name="r"):
    host, port = daemon.addresses(name)[0]
    return host, str(port)


def client(daemon, mode, *words, name="r"):
    return must(CLIENT, mode, *at(daemon, name), *words)


# rping's threads race at its end, when all is done: one waits for events on what the other has closed.
RPING_RACE = "rdma_get_cm_event: Bad file descriptor\n"


def rping_is_well(status, said):
    return status == 0 or said.endswith("client DISCONNECT EVENT...\n" + RPING_RACE)


def rping(daemon, *words):
    host, port = at(daemon)
    done = run("rping", "-c", "-a", host, "-p", port, *words)
    assert rping_is_well(done.returncode, done.stdout), done.stdout
    return done.stdout


@contextlib.contextmanager
def running(*words):
    """A process that is killed at the end, or when it takes too long."""
    process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    timer = threading.Timer(LIMIT, process.kill)
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def rpings(daemon, count, *words):
    """Runs `count` clients at once; all must succeed."""
    host, port = at(daemon)
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(running("rping", "-c", "-a", host, "-p", port, *words))
                     for _ in range(count)]
        for process in processes:
            out, _ = process.communicate(timeout=LIMIT)
            assert rping_is_well(process.returncode, out), out + daemon.log()


def all_is_free(daemon, device, start):
    """Nothing is left of connections that have ended: resources, descriptors, chunks."""
    wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "connections are gone")
    wait_until(lambda: resources()[f"{device}0"] == start, f"resources are as at the start: {start}")
    pool = daemon.stats("r")["pool"]
    assert pool["free"] >= pool["chunks"] - 2, pool  # each worker has one that it writes into


def test_rping_in_all_its_modes(start_daemon, device):
    daemon = start_daemon(section(device, service="rping", workers=2))
    rping(daemon, "-C", 100, "-V")
    assert "ping data: rdma-ping-9: " in rping(daemon, "-C", 10, "-v", "-V", "-S", 100)
    rping(daemon, "-C", 10, "-V", "-d", "-I", ADDRESSES[device])
    pings = 120
    if device != "siw":  # where rdma_establish() is refused
        rping(daemon, "-C", 10, "-V", "-q")
        pings = 130
    daemon.wait_closed("r", accepted=pings // 10 - 9)
    stats = daemon.stats("r")
    assert stats["connections"]["closed"]["peer"] == stats["connections"]["accepted"]
    for kind in ("read", "write"):
        assert stats["operations"][kind]["count"] == pings
        assert stats["rdma"]["posted"][kind] == pings
    assert stats["rdma"]["completed"]["read"] == pings
    assert stats["bytes_in"] >= pings * (64 + 32)


def test_rping_of_every_size(start_daemon, device):
    daemon = start_daemon(section(device, service="rping"))
    start = resources()[f"{device}0"]
    for first, last in ((1, 300), (4090, 4100), (16380, 16390), (32765, 32770), (65530, 65535)):
        assert client(daemon, "rping", first, last) == f"ok {last - first + 1}\n"
    for size in (65535, 32768, 1000):
        rping(daemon, "-C", 20, "-V", "-S", size)
    all_is_free(daemon, device, start)


def test_rping_with_small_buffers(start_daemon, device):
    """Then one ping needs more requests than fit into the send queue."""
    daemon = start_daemon(section(device, service="rping", buffer_size="4K", buffers=256))
    rping(daemon, "-C", 20, "-V", "-S", 65535)
    assert client(daemon, "rping", 65000, 65010) == "ok 11\n"


def test_pool_too_small_for_all_pings_at_once(start_daemon, device):
    daemon = start_daemon(section(device, service="rping", buffers=64))
    rpings(daemon, 8, "-C", 20, "-V", "-S", 65535)
    daemon.wait_closed("r", accepted=8)
    assert daemon.stats("r")["connections"]["closed"]["peer"] == 8
    assert daemon.stats("r")["operations"]["write"]["count"] == 8 * 20


def test_wrong_advertisements_end_that_connection_only(start_daemon, device):
    daemon = start_daemon(section(device, service="rping"))
    rping(daemon, "-C", 1)
    daemon.wait_closed("r", accepted=1)
    start = resources()[f"{device}0"]
    host, port = at(daemon)
    with running("rping", "-c", "-a", host, "-p", port, "-V", "-S", 1000) as other:
        wait_until(lambda: daemon.stats("r")["operations"]["write"]["count"] > 10, "pings")
        for what in ("key", "size", "sink", "length"):
            before = daemon.stats("r")
            with running(CLIENT, "wrong", host, port, what):
                wait_until(lambda: daemon.stats("r")["connections"]["accepted"]
                           > before["connections"]["accepted"], "it has come")
                wait_until(lambda: daemon.stats("r")["connections"]["open"] == 1, f"{what} ends it")
            after = daemon.stats("r")
            if device == "rxe" or what == "length":  # siw does not say why it has ended
                assert after["connections"]["closed"]["protocol"] == before["connections"]["closed"]["protocol"] + 1
            if device == "rxe" and what != "length":
                assert after["rdma"]["errors"]["access"] == before["rdma"]["errors"]["access"] + 1
        count = daemon.stats("r")["operations"]["write"]["count"]
        wait_until(lambda: daemon.stats("r")["operations"]["write"]["count"] > count + 10, "more pings")
        assert other.poll() is None
    all_is_free(daemon, device, start)


def test_clients_killed_in_the_middle_of_a_transfer(start_daemon, device):
    daemon = start_daemon(section(device, service="rping"))
    rping(daemon, "-C", 1)
    daemon.wait_closed("r", accepted=1)
    start, descriptors = resources()[f"{device}0"], daemon.descriptors()
    host, port = at(daemon)
    for count in range(5):
        done = daemon.stats("r")["operations"]["write"]["count"]
        with running("rping", "-c", "-a", host, "-p", port, "-S", 65535) as process:
            wait_until(lambda: daemon.stats("r")["operations"]["write"]["count"] > done + 3, "pings")
            process.send_signal(signal.SIGKILL)
            process.wait()
        wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "it is gone")
    all_is_free(daemon, device, start)
    wait_until(lambda: daemon.descriptors() == descriptors, "no descriptor is left")


# RoCE and InfiniBand: 92 bytes less 36 of rdma_cm itself.  siw: what was found, of Linux 6.12.
PRIVATE_MAX = {"rxe": 56, "siw": 251}


def test_private_data_of_every_length(start_daemon, device):
    """The daemon gets no event for private data that a device cannot carry: the kernel refuses it at the client."""
    daemon = start_daemon(section(device, service="rping"))
    start = resources()[f"{device}0"]
    assert must(CLIENT, "private", *at(daemon)) == f"carries 0 to {PRIVATE_MAX[device]}\n"
    daemon.wait_closed("r", accepted=PRIVATE_MAX[device] + 1)
    assert daemon.stats("r")["connections"]["closed"]["peer"] == PRIVATE_MAX[device] + 1
    rping(daemon, "-C", 5, "-V")
    all_is_free(daemon, device, start)


# ---- fio -------------------------------------------------------------------------------------------


def fio_command(daemon, verb, *words, name="r"):
    host, port = at(daemon, name)
    return ["fio", "--name=f", "--thread", "--ioengine=rdma", f"--hostname={host}", f"--port={port}", f"--verb={verb}",
            "--rw=write", *words]


def fio(daemon, verb, *words, check=True):
    """Its result, as fio reports it; or, unless check, all that it said."""
    done = run(*fio_command(daemon, verb, *words, "--output-format=json"))
    if not check:
        return done.stdout
    assert done.returncode == 0, done.stdout + daemon.log()
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    assert job["error"] == 0, done.stdout
    return job["write"]


def test_region_holds_what_was_written(start_daemon, device):
    daemon = start_daemon(section(device, service="fio"))
    start = resources()[f"{device}0"]
    for size, buffers in ((1, 1), (4096, 8), (1000, 512), (65535, 60)):
        assert client(daemon, "region", size, buffers) == f"ok {buffers}\n"
    daemon.wait_closed("r", accepted=4)
    stats = daemon.stats("r")
    assert stats["operations"]["test"]["count"] == 4
    # Writes that tell take a receive each, more than are posted at a time, and bring no message.
    told = 7 + 511 + 59 if device == "rxe" else 0
    assert stats["rdma"]["completed"]["recv"] == 4 + told
    assert (stats["operations"]["message"]["count"], stats["bytes_in"]) == (0, 4 * 8208)
    all_is_free(daemon, device, start)


def has_memory(daemon, content):
    """Does a mapping of the daemon hold that?  The kernel joins a region with its neighbours."""
    with open(f"/proc/{daemon.process.pid}/maps") as maps, open(f"/proc/{daemon.process.pid}/mem", "rb") as memory:
        for line in maps:
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            if len(content) <= end - start <= 64 << 20 and line.split()[1].startswith("rw"):
                memory.seek(start)
                if content in memory.read(end - start):
                    return True
    return False


@pytest.mark.parametrize("verb", ["write", "read"])
def test_fio_of_some_sizes(start_daemon, device, verb):
    daemon = start_daemon(section(device, service="fio"))
    start = resources()[f"{device}0"]
    for size, depth in (("4k", 8), ("64k", 8), ("1k", 1), ("1M", 2)):
        done = fio(daemon, verb, f"--bs={size}", f"--iodepth={depth}", "--size=4M")
        assert done["io_bytes"] == 4 << 20
    daemon.wait_closed("r", accepted=4)
    assert daemon.stats("r")["connections"]["closed"]["peer"] == 4
    all_is_free(daemon, device, start)


def test_data_that_fio_writes_is_in_the_region(start_daemon, device):
    daemon = start_daemon(section(device, service="fio"))
    words = ["--bs=12k", "--iodepth=7", "--size=1g", "--buffer_pattern=0xdeadbeef"]
    with running(*fio_command(daemon, "write", *words)):
        wait_until(lambda: daemon.stats("r")["operations"]["test"]["count"] == 1, "a test")
        wait_until(lambda: has_memory(daemon, b"\xde\xad\xbe\xef" * (21 << 10)), "the pattern")


def test_fio_learns_how_large_a_block_may_be(start_daemon, device):
    daemon = start_daemon(section(device, service="fio", region_size="64K"))
    said = fio(daemon, "write", "--bs=128k", "--iodepth=1", "--size=1M", check=False)
    assert "Server's block size (65536) must be greater" in said
    said = fio(daemon, "send", "--bs=32k", "--iodepth=1", "--size=1M", check=False)
    assert "Server's block size (16384) must be greater" in said
    assert fio(daemon, "write", "--bs=48k", "--iodepth=8", "--size=1M")["io_bytes"] > 0  # they share one


def test_write_beyond_the_region_ends_that_connection_only(start_daemon, device):
    daemon = start_daemon(section(device, service="fio"))
    start = resources()[f"{device}0"]
    with running(*fio_command(daemon, "write", "--bs=4k", "--iodepth=8", "--size=1g")) as other:
        wait_until(lambda: daemon.stats("r")["operations"]["test"]["count"] == 1, "a test")
        said = client(daemon, "beyond", 4096)
        assert said == "remote access error\n" or device == "siw", said
        wait_until(lambda: daemon.stats("r")["connections"]["accepted"] == 2, "it has come")
        wait_until(lambda: daemon.stats("r")["connections"]["open"] == 1, "it is gone")
        assert client(daemon, "region", 4096, 4) == "ok 4\n"
        assert other.poll() is None
    all_is_free(daemon, device, start)


def test_fio_send(start_daemon, device):
    """As many messages as have a receive before fio begins: on iWARP fio does not wait for more."""
    daemon = start_daemon(section(device, service="fio"))
    count = 250
    assert fio(daemon, "send", "--bs=4k", "--iodepth=8", f"--size={4 * count}k")["io_bytes"] == count << 12
    daemon.wait_closed("r", accepted=1)
    assert daemon.stats("r")["operations"]["message"]["count"] == count
    assert daemon.stats("r")["bytes_in"] == (count << 12) + 8208


def test_fio_send_that_is_faster_than_the_receives(start_daemon):
    daemon = start_daemon(section("rxe", service="fio"))
    assert fio(daemon, "send", "--bs=1k", "--iodepth=64", "--size=2M")["io_bytes"] == 2 << 20
    daemon.wait_closed("r", accepted=1)
    assert daemon.stats("r")["operations"]["message"]["count"] == 2048


def test_fio_send_that_iwarp_ends(start_daemon):
    """Nothing makes fio wait for receives, of which a small pool has few, and it does not look for the end: it waits,
    for ever.  The server says why it ended, has no connection left, and continues."""
    daemon = start_daemon(section("siw", service="fio", buffers=32))
    start = resources()["siw0"]
    with running(*fio_command(daemon, "send", "--bs=1k", "--iodepth=64", "--size=64M")) as process:
        wait_until(lambda: daemon.stats("r")["operations"]["message"]["count"] > 0, "blocks")
        closed = {}
        wait_until(lambda: closed.update(daemon.stats("r")["connections"]["closed"]) or sum(closed.values()) == 1,
                   "its end")
        assert closed["overrun"] == 1, closed
        assert "its messages had used up all receives" in daemon.log()
        process.kill()
        other = fio(daemon, "write", "--bs=4k", "--iodepth=4", "--size=1M")
        assert other["io_bytes"] == 1 << 20
    all_is_free(daemon, "siw", start)
