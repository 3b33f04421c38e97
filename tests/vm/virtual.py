"""Runs inside_*.py in a VM that is booted once, so that their tests are shown as tests of the file that asks:
each such file has a VM of its own, and they run side by side."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
BUILD = Path(os.environ.get("NBSERVED_BUILD", TOP / "build")).resolve()
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio",
         "depmod": "kmod", "xz": "xz-utils", "rdma": "iproute2", "rping": "rdmacm-utils"}
CANNOT = 77
REPEATED = "failed the first time"  # as conftest.py says it
# The environment of the VM's processes: .ci/run's PYTEST_ADDOPTS repeats a test in there, too.
ENVIRONMENT = [f"NBSERVED_BUILD={BUILD}", f"PYTHONPATH={TOP}/tests/system"]
ENVIRONMENT += [f"{key}={value}" for key, value in os.environ.items()
                if key.endswith("SAN_OPTIONS") or key == "PYTEST_ADDOPTS"]


def why_not():
    """The reason why this host cannot run the VM, or None."""
    if os.geteuid() != 0:
        return "needs root: the VM's root is this host's"
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing:
        return f"needs {', '.join(missing)} (make deps DEPS=vm)"
    if not (BUILD / "vm/rdma_client").exists():
        return "this build is without RDMA"
    kernel = subprocess.run([HERE / "kernel.sh"], capture_output=True, text=True)
    if kernel.returncode == CANNOT:
        return kernel.stderr.strip().splitlines()[-1]
    assert kernel.returncode == 0, kernel.stderr
    return None


def files(*names):
    return [HERE / f"inside_{name}.py" for name in names]


def names_in(inside):
    """FILE::TEST of each: two files may have tests of the same name."""
    return [f"{file.stem}::{name}" for file in inside for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)]


@pytest.fixture(scope="module")
def results(request):
    """read_results() of one boot that runs the files INSIDE of the module, and its "output"."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="nbserved-vm-") as shared:
        return run_inside(request.module.INSIDE, Path(shared))


def run_inside(inside, shared):
    run = [HERE / "vm.sh", "-t", "1800", shared, "env", *ENVIRONMENT, sys.executable, "-B", "-m",
           "pytest", "-p", "no:cacheprovider", "-p", "conftest", "-q", "-rs", "--durations=8",
           "--junitxml=/vm/results.xml", *inside]
    done = subprocess.run(run, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    console = (shared / "console").read_text(errors="replace") if (shared / "console").exists() else ""
    assert (shared / "results.xml").exists(), f"status {done.returncode}\n{done.stdout}\n{console}"
    found = read_results(shared / "results.xml")
    failed = any(wrong for cases in found.values() for _, _, wrong in cases)
    assert failed or done.returncode == 0, f"what passed when it was repeated is nbserved's fault\n{done.stdout}"
    if REPEATED in done.stdout:
        warnings.warn(done.stdout)
    return {**found, "output": done.stdout}


def read_results(path):
    """{FILE::TEST: [(case, [why it was skipped], [what went wrong])]} of pytest's file of results."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name, reports = case.get("name"), [part for part in case if part.tag != "system-out"]
        skipped = [part.get("message") for part in reports if part.tag == "skipped"]
        wrong = [f"{part.tag}: {part.get('message')}\n{part.text}" for part in reports if part.tag != "skipped"]
        test = f"{case.get('classname').split('.')[-1]}::{name.split('[')[0]}"
        found.setdefault(test, []).append((name, skipped, wrong))
    return found


def check(results, name):
    """Fails if a case of the test did, and skips if all of them were skipped."""
    assert results.get(name), f"{name} did not run\n{results['output']}"
    wrong = [f"{case}: {text}" for case, _, texts in results[name] for text in texts]
    assert not wrong, "\n".join(wrong)
    if all(skipped for _, skipped, _ in results[name]):
        pytest.skip("; ".join(reason for _, skipped, _ in results[name] for reason in skipped))
