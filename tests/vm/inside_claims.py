"""Run by `make bench-vm`: the published claims that need a device of known latency, or RDMA.

In a VM whose clock counts instructions: its one CPU does the client's work, the server's and the devices',
so that requests/s are what all of it costs where it does not sleep.  The rows stay in /vm/claims.jsonl, by
which tests/peers/claims.py judges the same claims."""
import sys
from pathlib import Path

from inside_rdma import ADDRESSES, BUILD, TOP, devices, must  # noqa: F401

sys.path.insert(0, str(TOP / "tests/peers"))
import claims  # noqa: E402
from claims_rows import Rows  # noqa: E402
from claims_scenes import LATENCIES_US, LOSSES_PERCENT, latency_scene, loss_scene, sides_scene  # noqa: E402
from claims_table import VM  # noqa: E402

ROWS = Path("/vm/claims.jsonl")
LINKS = 1000  # a routing table


def measure(scene):
    claims.measure(BUILD, scene, ROWS, {}, float("inf"))


def lossy_link(kind, percent, number):
    """Two devices of a kind on the ends of a link that loses packets on their way to the first one, whose
    address it returns.  Both addresses are this host's: rules have what is sent to them cross the link."""
    ends = [f"loss{number}{side}" for side in "ab"]
    addresses = [f"10.8.{number}.{i}" for i in (1, 2)]
    must("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
    for i, end in enumerate(ends):
        ours, theirs = addresses[i], addresses[1 - i]
        must("sysctl", "-qw", f"net.ipv4.conf.{end}.accept_local=1", f"net.ipv4.conf.{end}.rp_filter=0")
        must("ip", "address", "add", f"{ours}/32", "dev", end)
        must("ip", "link", "set", end, "up")
        for table in ("main", LINKS):
            must("ip", "route", "add", theirs, "dev", end, "src", ours, "table", table)
        must("ip", "rule", "add", "pref", 10, "to", ours, "iif", "lo", "lookup", LINKS)
        must("rdma", "link", "add", f"loss_{kind}{number}{i}", "type", kind, "netdev", end)
    if percent:
        must("tc", "qdisc", "add", "dev", ends[1], "root", "netem", "loss", f"{percent}%")
    return addresses[0]


def lossy_links():
    must("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0")
    must("ip", "rule", "add", "pref", 100, "lookup", "local")
    must("ip", "rule", "delete", "pref", 0)
    kinds = [(kind, percent) for percent in LOSSES_PERCENT for kind in ADDRESSES]
    return {link: lossy_link(*link, number) for number, link in enumerate(kinds, 1)}


def test_claims():
    ROWS.unlink(missing_ok=True)
    measure(sides_scene(ADDRESSES["rxe"]))
    for latency_us in LATENCIES_US:
        must("modprobe", "null_blk", "gb=1", "irqmode=2", f"completion_nsec={latency_us * 1000}")
        measure(latency_scene(latency_us))
        must("modprobe", "-r", "null_blk")
    measure(loss_scene(lossy_links()))
    judged = [row for row in claims.judge(Rows(BUILD / "nbctl", ROWS)) if row[2].startswith(VM)]
    for claim, _, _, verdict, seen in judged:
        print(f"\n{verdict}: {claim}\n    {seen}", flush=True)
    assert claims.UNMEASURED not in [verdict for _, _, _, verdict, _ in judged]
