"""The installed service with RDMA let in, in a VM under systemd."""
import shutil
import subprocess
import sys

import pytest

from virtual import ENVIRONMENT, HERE, TOP, why_not

MINUTES = 3


def test_the_sandboxed_unit(tmp_path):
    reason = why_not() or (None if shutil.which("systemd-analyze") else "needs systemd")
    if reason:
        pytest.skip(reason)
    run = [HERE / "vm.sh", "-S", "-t", "600", tmp_path, "env", *ENVIRONMENT, sys.executable, "-B",
           HERE / "inside_unit.py"]
    done = subprocess.run(run, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), f"{done.returncode}\n{done.stdout}"
