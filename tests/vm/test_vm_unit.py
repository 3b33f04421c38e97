"""The installed service with RDMA, or frames of a network card, let in: in a VM each, under systemd."""
import shutil
import subprocess
import sys

import pytest

from virtual import ENVIRONMENT, HERE, TOP, why_not

MINUTES = 5


@pytest.mark.parametrize("let_in", ["rdma", "frames"])
def test_the_sandboxed_unit(tmp_path, let_in):
    reason = why_not() or (None if shutil.which("systemd-analyze") else "needs systemd")
    if reason:
        pytest.skip(reason)
    run = [HERE / "vm.sh", "-S", "-t", "600", tmp_path, "env", *ENVIRONMENT, sys.executable, "-B",
           HERE / "inside_unit.py", let_in]
    done = subprocess.run(run, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), f"{done.returncode}\n{done.stdout}"
