"""Run by test_vm_clients.py in the VM: what nbserved sees of a network card with a driver and a PCIe link.  It is an Intel 82574,
which QEMU emulates with its throttle of interrupts."""
import ctypes
import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/system"))
from conftest import listener, start_daemon, wait_until  # noqa: E402,F401

ADDRESS = "10.0.2.15"
SIOCETHTOOL = 0x8946
# linux/ethtool.h: the command that reads, the words of its struct, and which of these is meant.
RX_USECS = (0x0E, 23, 1)
RX_RING = (0x10, 9, 5)


def change(name, fact, value):
    """As `ethtool -C` and `ethtool -G`, which are not needed for it."""
    read, words, at = fact
    data = (ctypes.c_uint32 * words)(read)
    request = struct.pack("16sP16x", name.encode(), ctypes.addressof(data))
    with socket.socket() as s:
        fcntl.ioctl(s, SIOCETHTOOL, request)
        data[0], data[at] = read + 1, value
        fcntl.ioctl(s, SIOCETHTOOL, request)


@pytest.fixture(scope="module")
def card():
    """The name of its interface, which is up."""
    subprocess.run(["modprobe", "e1000e"], check=True)
    drivers = Path("/sys/class/net").glob("*/device/driver")
    (name,) = [path.parts[4] for path in drivers if os.path.basename(os.readlink(path)) == "e1000e"]
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", name], check=True)
    wait_until(lambda: Path(f"/sys/class/net/{name}/carrier").read_text() == "1\n", "its link is up")
    yield name
    subprocess.run(["ip", "address", "del", f"{ADDRESS}/24", "dev", name], check=True)


@pytest.fixture
def daemon(start_daemon, card):  # noqa: F811
    return start_daemon(listener("echo", address=f"{ADDRESS}:0"))


def facts(daemon, card):
    (found,) = [nic for nic in daemon.call("GetInterfaces")["interfaces"] if nic["name"] == card]
    return found["nic"]


def said(daemon, card):
    """{check of the card: (ok or no, what the doctor says of it)}."""
    lines = daemon.nbctl("doctor", check=False).stdout
    return {what: (ok, text) for ok, what, text in re.findall(rf"^(ok|no) +{card} ?([A-Za-z]*) {{2,}}(.*)$", lines, re.M)}


def test_a_driver_tells_its_facts(daemon, card):
    nic = facts(daemon, card)
    assert nic["card"] and nic["driver"] == "e1000e" and nic["firmware"] and nic["speed_mbit"] == 1000
    assert nic["pcie"] == nic["pcie_max"] == "2.5 GT/s x1"
    assert nic["irqs"] >= 1 and nic["irq_cpus"] == "0" and nic["rx_queues"] == 1
    assert "rx-gro" in nic["offloads"] and "tx-tcp-segmentation" in nic["offloads"]
    change(card, RX_RING, 512)
    nic = facts(daemon, card)
    assert (nic["rx_ring"], nic["rx_ring_max"]) == (512, 4096)


def test_the_doctor_looks_at_the_card(daemon, card):
    checks = said(daemon, card)
    assert checks[""][1].startswith("e1000e, 1 Gbit/s, firmware ")
    assert checks["PCIe"] == ("ok", "2.5 GT/s x1 of 2.5 GT/s x1")
    assert checks["queues"] == ("ok", "1 of rx for 1 worker")
    assert checks["interrupts"][1].endswith(" on CPUs 0")
    assert checks["offloads"] == ("ok", "on") and checks["missed"] == ("ok", "none")


@pytest.mark.parametrize("us", [0, 125])
def test_the_doctor_tells_what_coalescing_adds(daemon, card, us):
    """As the driver has it: 125 us are 8000 interrupts a second."""
    change(card, RX_USECS, us)
    assert said(daemon, card)["coalescing"] == ("ok", f"rx-usecs {us}: adds up to {us} us to a round trip")


def test_the_doctor_knows_numbers_that_are_no_times(daemon, card):
    """This driver, as it starts, adapts by the number 3."""
    change(card, RX_USECS, 3)
    ok, text = said(daemon, card)["coalescing"]
    assert ok == "no" and text.startswith("rx-usecs 3, which tells e1000e to adapt it")
