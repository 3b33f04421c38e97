"""Run by test_rdma.py in the VM: verbs that fail, one after the other, in a daemon that was linked for that
(faults/faults.c).  Nothing crashes, nothing is left behind, and later clients are served."""
import contextlib
import os
import re
import signal
import subprocess

import pytest

from inside_far import port_of
from inside_rdma import (ADDRESSES, BUILD, CLIENT, LIMIT, device, devices, listener,  # noqa: F401
                         resources, run, running, section, serves, start_daemon, wait_until)

PROGRAM = BUILD / "vm/nbserved_faults"


class Faults:
    """Verbs that will fail."""

    def __init__(self, folder):
        self.folder = folder

    def arm(self, verb, times=1, skip=0):
        whole = self.folder / f".{verb}"
        whole.write_text(f"{skip} {times} ")
        whole.rename(self.folder / verb)

    @contextlib.contextmanager
    def holding(self, verb, kind="hold"):
        """The next call sleeps, or works (`spin`), until the block ends.  What is yielded waits for that call."""
        held = self.folder / f"{verb}.held"
        (self.folder / f"{verb}.{kind}").touch()
        try:
            yield lambda: wait_until(held.exists, f"{verb} is called")
        finally:
            held.unlink(missing_ok=True)

    def armed(self):
        return sorted(path.name for path in self.folder.iterdir())

    def disarm(self):
        for name in self.armed():
            (self.folder / name).unlink(missing_ok=True)


@pytest.fixture
def faults(tmp_path):
    folder = tmp_path / "faults"
    folder.mkdir()
    return Faults(folder)


def start(start_daemon, faults, config):
    return start_daemon(config, program=PROGRAM, env={"NBSERVED_FAULTS": str(faults.folder)})


def all_are_gone(daemon, name="r"):
    wait_until(lambda: daemon.stats(name)["connections"]["open"] == 0, "all are gone")


# So many times that a connection fails: a queue pair is tried with fewer and fewer inline bytes.
CONNECTION_VERBS = {"rdma_create_qp": 12, "rdma_accept": 1, "rdma_migrate_id": 1, "ibv_post_send": 1,
                    "ibv_post_recv": 1, "ibv_req_notify_cq": 2}


def test_connections_whose_verbs_fail(start_daemon, faults, device):
    daemon = start(start_daemon, faults, section(device, workers=2))
    before, at = resources()[f"{device}0"], daemon.addresses("r")[0]
    verbs = CONNECTION_VERBS | ({"ibv_modify_qp": 1} if device == "rxe" else {})
    for verb, times in verbs.items():
        faults.arm(verb, times)
        while faults.armed():  # a client need not see its connection's end
            with running(CLIENT, "echo", *at, 4, 100, 80, 8, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL) as process:
                wait_until(lambda: not faults.armed() or process.poll() is not None, verb)
        all_are_gone(daemon)
        assert serves(daemon), verb
    all_are_gone(daemon)
    wait_until(lambda: resources()[f"{device}0"] == before, f"resources: {before} {resources()}")


@pytest.mark.parametrize("service", ["echo", "fio"])
def test_connections_that_find_no_memory(start_daemon, faults, device, service):
    """Each allocation of a connection fails in turn, that of its service, too."""
    daemon = start(start_daemon, faults, section(device, service=service))
    before = resources()[f"{device}0"]
    refused, at = 0, daemon.addresses("r")[0]
    for skip in range(8):
        faults.arm("calloc", 1, skip)
        with running(CLIENT, "hold", *at, 1, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            refused += process.stdout.readline() != b"connected\n"
        faults.disarm()
        all_are_gone(daemon)
    assert refused >= (4 if service == "fio" else 3)
    wait_until(lambda: resources()[f"{device}0"] == before, f"resources: {before} {resources()}")


def test_a_client_that_is_handed_to_a_worker_that_has_ended(start_daemon, faults, device):
    """Worker 0 waits in a verb while the second client, which is for worker 1, connects and the daemon stops."""
    def is_asked(count):
        return resources()[f"{device}0"]["cm_id"] == before + 2 * count  # its own, and the daemon's

    daemon = start(start_daemon, faults, "[server]\ndrain-timeout = 0\n" + section(device, workers=2))
    words, tasks = [CLIENT, "hold", *daemon.addresses("r")[0], 1], f"/proc/{daemon.pid}/task"
    before, threads = resources()[f"{device}0"]["cm_id"], len(os.listdir(tasks))
    with contextlib.ExitStack() as clients:
        with faults.holding("rdma_create_qp") as called:
            clients.enter_context(running(*words, stdout=subprocess.DEVNULL))
            called()
            second = clients.enter_context(running(*words, stdout=subprocess.PIPE))
            wait_until(lambda: is_asked(2), "the second has asked")
            daemon.process.send_signal(signal.SIGTERM)
            wait_until(lambda: len(os.listdir(tasks)) == threads - 1, "worker 1 has ended")
        assert second.stdout.read() == b"refused: stopping\n", daemon.log()
        assert daemon.process.wait(LIMIT) == 0


START_VERBS = ["rdma_create_event_channel", "rdma_create_id", "rdma_bind_addr", "ibv_query_device", "ibv_alloc_pd",
               "ibv_reg_mr", "ibv_create_comp_channel", "ibv_create_cq"]


def test_listeners_whose_verbs_fail(start_daemon, faults, device):
    """Each verb fails for one of the listeners, which start side by side; the one that is left serves."""
    names = [f"l{i}" for i in range(len(START_VERBS) + 1)]
    for verb in START_VERBS:
        faults.arm(verb)
    daemon = start(start_daemon, faults, "".join(
        section(device, name=name, buffers=64, optional="yes") for name in names))
    assert not faults.armed()
    left = [name for name in names if daemon.status(name)["state"] != "unavailable"]
    assert all(daemon.status(name)["reason"] for name in names if name not in left)
    assert len(left) == 1 and serves(daemon, left[0]), left


def has_said(daemon, pattern):
    """Has it sent the service manager a status like this?"""
    return any(re.search(f"^EXTEND_TIMEOUT_USEC=20000000\nSTATUS=Starting: .*{pattern}", message)
               for message in daemon.notified())


PINS = "it registers its buffers"


def test_the_start_waits_for_a_worker_that_pins_memory_for_long(start_daemon, faults):
    with faults.holding("ibv_reg_mr", "spin"):
        daemon = start_daemon(section("rxe"), program=PROGRAM, env={"NBSERVED_FAULTS": str(faults.folder)}, ready=False)
        wait_until(lambda: has_said(daemon, f"has not started within 1[2-9] s: {PINS}"), "it waits on")
    daemon.wait_ready()
    assert daemon.log().count(PINS) == 1 and "waiting while it makes progress" in daemon.log()
    assert serves(daemon)


def test_the_start_does_not_wait_for_a_worker_that_hangs(start_daemon, faults):
    with faults.holding("ibv_reg_mr"):
        daemon = start_daemon(section("rxe"), program=PROGRAM, env={"NBSERVED_FAULTS": str(faults.folder)}, ready=False)
        daemon.may_fail = True
        assert daemon.process.wait(LIMIT) == 1
    assert re.search(rf"error: listener 'r' .*has not started within 1\d s: {PINS}", daemon.log()), daemon.log()


def test_a_reload_does_not_wait_for_a_worker_that_pins_memory_for_long(start_daemon, faults):
    daemon = start(start_daemon, faults, listener("tcp"))
    with faults.holding("ibv_reg_mr", "spin"):
        daemon.write_config(listener("tcp") + section("rxe", optional="yes"))
        daemon.call("Reload")
        assert re.search(rf"has not started within 1\d s: {PINS}", daemon.status("r")["reason"])
    daemon.call("Reload")
    assert serves(daemon)


def test_ordering_is_relaxed_where_the_driver_takes_it(start_daemon, faults, device):
    config = section(device) + section(device, name="strict", features="-relaxed_ordering")
    daemon = start(start_daemon, faults, config)
    faults.arm("relaxed")
    daemon.write_config(config + section(device, name="refused"))
    daemon.call("Reload")
    assert not faults.armed()
    for name, shown in (("r", ["relaxed_ordering"]), ("strict", ["-relaxed_ordering"]), ("refused", [])):
        features = daemon.status(name)["engine_features"]
        assert [feature for feature in features if "relaxed" in feature] == shown, (name, features)
        assert serves(daemon, name)


@pytest.mark.parametrize("manager", [[], ["-R"]])
def test_a_slow_look_up_of_a_client_delays_no_other_client(start_daemon, faults, manager):
    """The kernel looks for the Ethernet address of a client.  Its going and the daemon's end wait for that."""
    daemon = start(start_daemon, faults, section("rxe", service="perftest", region_size="8M", workers=1))
    words = ["timeout", LIMIT, "ib_send_bw", "-F", "-d", "rxe0", "-p", port_of(daemon), "-n", 5, ADDRESSES["rxe"], *manager]
    with contextlib.ExitStack() as clients:
        with faults.holding("ibv_modify_qp") as called:
            first = clients.enter_context(running(*words, stdout=subprocess.DEVNULL))
            called()
            assert run(*words).returncode == 0, daemon.log()
            assert first.poll() is None
        assert first.wait(LIMIT) == 0, daemon.log()
        all_are_gone(daemon)
        with faults.holding("ibv_modify_qp") as called:
            with running(*words, stdout=subprocess.DEVNULL):
                called()
            assert run(*words).returncode == 0, daemon.log()
        all_are_gone(daemon)
        with faults.holding("ibv_modify_qp") as called:
            clients.enter_context(running(*words, stdout=subprocess.DEVNULL))
            called()
            daemon.process.send_signal(signal.SIGTERM)
            wait_until(lambda: "draining" in daemon.log(), "it is asked to stop")
        assert daemon.process.wait(LIMIT) == 0


def test_a_table_of_addresses_that_cannot_be_read_is_said(start_daemon, faults):
    """To a client without -R."""
    faults.arm("_ibv_query_gid_table", 9)
    daemon = start(start_daemon, faults, section("rxe", service="perftest", region_size="8M"))
    done = run("timeout", LIMIT, "ib_send_bw", "-F", "-d", "rxe0", "-p", port_of(daemon), "-n", 5, ADDRESSES["rxe"])
    assert done.returncode not in (0, 124) and "no queue pair: Input/output error" in daemon.log(), daemon.log()
