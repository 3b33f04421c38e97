"""A run of the tests that is killed leaves no process behind."""
import os
import subprocess
import sys

from conftest import ROOT, TIMEOUT, is_ready

# As a generator's own processes: in a session of their own, whose first process has ended.
TEST = """
import os, subprocess, sys
def test_that_is_killed():
    subprocess.run(["setsid", "-f", "sleep", "1000"], pass_fds=[{fd}])
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_run_has_started_ends_with_it(tmp_path):
    reader, writer = os.pipe()
    (tmp_path / "test_killed.py").write_text(TEST.format(fd=writer))
    done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-p", "conftest", tmp_path],
                          env={**os.environ, "PYTHONPATH": f"{ROOT}/tests/system"}, pass_fds=[writer],
                          stdout=subprocess.DEVNULL)
    assert done.returncode == -9
    os.close(writer)
    assert is_ready(reader, TIMEOUT) and os.read(reader, 1) == b"", "sleep still runs"
    os.close(reader)
