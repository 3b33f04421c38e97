"""Run by `make bench-vm`: the published claims that need a device of known latency, or RDMA.

In a VM whose clock counts instructions: its one CPU does the client's work, the server's and the devices',
so that requests/s are what all of it costs where it does not sleep.  The rows stay in /vm/claims.jsonl, by
which tests/bench/claims.py judges the same claims."""
import sys
from pathlib import Path

from inside_rdma import ADDRESSES, BUILD, TOP, devices, must  # noqa: F401

sys.path.insert(0, str(TOP / "tests/bench"))
import claims  # noqa: E402
from claims_rows import Rows  # noqa: E402
from claims_scenes import LATENCIES_US, datagram_scene, latency_scene, sides_scene  # noqa: E402
from claims_table import VM  # noqa: E402

ROWS = Path("/vm/claims.jsonl")


def measure(scene):
    claims.measure(BUILD, scene, ROWS, {}, float("inf"))


def test_claims():
    ROWS.unlink(missing_ok=True)
    measure(datagram_scene(ADDRESSES["rxe"]))
    measure(sides_scene(ADDRESSES["rxe"]))
    for latency_us in LATENCIES_US:
        must("modprobe", "null_blk", "gb=1", "irqmode=2", f"completion_nsec={latency_us * 1000}")
        measure(latency_scene(latency_us))
        must("modprobe", "-r", "null_blk")
    judged = [row for row in claims.judge(Rows(BUILD / "nbctl", ROWS)) if row[2].startswith(VM)]
    for claim, _, _, verdict, seen in judged:
        print(f"\n{verdict}: {claim}\n    {seen}", flush=True)
    assert not [seen for *_, seen in judged if "was not measured" in seen]
