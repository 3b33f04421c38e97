"""Clients that need a kernel of their own: the kernel's NBD client and NVMe initiator, perftest; TLS in the
kernel; `nbctl compare --layers`; and the installed service with RDMA let in."""
import shutil
import subprocess
import sys

import pytest

from virtual import ENVIRONMENT, HERE, TOP, check, files, names_in, results, why_not  # noqa: F401

MINUTES = 12

INSIDE = files("far", "exchange", "nbd", "nvme", "tls", "power", "layers")


@pytest.mark.parametrize("name", names_in(INSIDE))
def test_in_vm(results, name):
    check(results, name)


def test_the_sandboxed_unit(tmp_path):
    reason = why_not() or (None if shutil.which("systemd-analyze") else "needs systemd")
    if reason:
        pytest.skip(reason)
    run = [HERE / "vm.sh", "-S", "-t", "600", tmp_path, "env", *ENVIRONMENT, sys.executable, "-B",
           HERE / "inside_unit.py"]
    done = subprocess.run(run, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), f"{done.returncode}\n{done.stdout}"
