"""What test_rdma.py runs in the VM: clients of others that nbserved is the far end of, on rxe and siw."""
from inside_rdma import ADDRESSES, device, devices, must, section, start_daemon  # noqa: F401


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
