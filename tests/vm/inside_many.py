"""Run by `make check-vm-many` in the VM: more clients than CI has time for."""
import contextlib

from inside_rdma import client, device, devices, holding, resources, section, start_daemon, wait_until  # noqa: F401
from inside_remote import all_is_free, fio_command, running

COUNT = 1000


def test_a_thousand_connections(start_daemon):
    daemon = start_daemon(section("rxe", workers=4, buffers=16384, buffer_size="4K"))
    before = resources()["rxe0"]
    with holding(daemon, COUNT, limit=900):
        assert daemon.stats("r")["connections"]["open"] == COUNT
        assert client(daemon, "echo", 40, 100, 20, 1) == "ok 800\n"
    wait_until(lambda: daemon.stats("r")["connections"]["open"] == 0, "all are gone", timeout=300)
    wait_until(lambda: resources()["rxe0"] == before, f"resources: {before} {resources()}")


def test_many_fios_have_regions_of_their_own(start_daemon, device):
    daemon = start_daemon(section(device, service="fio", workers=2))
    start, registered = resources()[f"{device}0"], daemon.stats("r")["rdma"]["registered_bytes"]
    words = ["--bs=4k", "--iodepth=8", "--size=1g"]
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(running(*fio_command(daemon, "write", *words)))
        wait_until(lambda: daemon.stats("r")["operations"]["test"]["count"] == 8, "tests")
        assert daemon.stats("r")["rdma"]["registered_bytes"] == registered + 8 * 8 * 4096
    all_is_free(daemon, device, start)  # of clients that were killed, too
    assert daemon.stats("r")["rdma"]["registered_bytes"] == registered
