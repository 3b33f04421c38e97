"""The gate of `make bench-check` can fail: it does when less is kept than an operation costs."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CASE = "echo epoll"


def gate(tmp_path, lines):
    """Runs the gate on one case, with these lines for what is kept: (status, output)."""
    kept = tmp_path / "costs.txt"
    kept.write_text("\n".join(lines) + "\n")
    argv = [sys.executable, "-B", HERE / "check.py", "--build", os.environ["NBSERVED_BUILD"], "--kept", kept,
            "--only", CASE]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def times(factor):
    """What is kept, with the case's numbers times `factor`."""
    lines = (HERE / "costs.txt").read_text().splitlines()
    for i, line in enumerate(lines):
        if line.startswith(f"{CASE}  "):
            instructions, calls = (float(n) * factor for n in line.removeprefix(CASE).split())
            lines[i] = f"{CASE}  {instructions:.1f}  {calls:.3f}"
    return lines


def test_costs_above_the_kept_figures_fail(tmp_path):
    status, output = gate(tmp_path, times(0.9))
    assert status == 1 and f"{CASE}: " in output and "calls, kept 2.700" in output, output


def test_lower_costs_pass(tmp_path):
    status, output = gate(tmp_path, times(1.2))
    assert status == 0 and "nothing costs more" in output, output


def test_a_case_without_numbers_fails(tmp_path):
    status, output = gate(tmp_path, ["gcc 12"])
    assert status == 1 and "no calls are kept" in output, output
