"""`make install` from outside: another prefix, verified, and uninstalled again; `make dist`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, TIMEOUT

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}


def make(*arguments, tree=ROOT, **how):
    """Runs make without building `all`: the programs exist, whatever flags they were built with."""
    done = subprocess.run(["make", "-C", tree, "-o", "all", f"BUILD={BUILD}", *arguments],
                          env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT, **how)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


@pytest.fixture(params=["/usr", "/usr/local"])
def installed(request, tmp_path):
    where = [f"DESTDIR={tmp_path}", f"PREFIX={request.param}"]
    make(*where, "install")
    return tmp_path, request.param, where


def test_everything_is_below_the_prefix_and_says_so(installed):
    root, prefix, _ = installed
    below = files(root)
    assert {path for path in below if not f"/{path}".startswith(prefix + "/")} == {"etc/nbserved/nbserved.ini"}
    for path in ("sbin/nbserved", "bin/nbctl", "bin/nbbench", "share/man/man8/nbserved.8", "lib/sysusers.d/nbserved.conf",
                 "share/bash-completion/completions/nbctl", "lib/systemd/system/nbserved.service"):  # fmt: skip
        assert (root / prefix.lstrip("/") / path).is_file()
    other = {"/usr": "/usr/local/", "/usr/local": "/usr/"}[prefix]
    for path in below - {f"{prefix[1:]}/{name}" for name in ("sbin/nbserved", "bin/nbctl", "bin/nbbench")}:
        text = (root / path).read_text()
        for name in ("sbin/nbserved", "bin/nbctl", "share/nbserved"):
            assert other + name not in text, path


def test_units_are_good_where_they_are(installed):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    root, prefix, _ = installed
    units = Path(f"{prefix}/lib/systemd/system")
    names = [units / f"nbserved{kind}" for kind in (".service", ".socket", "-metrics.service")]
    done = subprocess.run(["systemd-analyze", "verify", f"--root={root}", "--recursive-errors=no", "--man=no", *names],
                          capture_output=True, text=True, timeout=TIMEOUT)  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_uninstall_leaves_what_was_edited_only(installed):
    root, _, where = installed
    config = root / "etc/nbserved/nbserved.ini"
    config.write_text(config.read_text() + "; edited\n")
    assert "kept" in make(*where, "uninstall")
    assert files(root) == {"etc/nbserved/nbserved.ini"}
    make(*where, "install")
    shutil.copy(next(root.glob("usr/**/share/nbserved/nbserved.ini")), config)
    make(*where, "uninstall")
    assert files(root) == set()


def test_the_same_files_make_the_same_tarball_anywhere(tmp_path):
    """In the tree, and, of what that made, elsewhere, at another time, by whom umask lets nobody read."""
    name = f"nbserved-{(ROOT / 'VERSION').read_text().strip()}"
    made = []
    for tree, where in ((ROOT, "first"), (tmp_path / "first" / name, "second")):
        make(f"BUILD={tmp_path / where}", "dist", tree=tree, umask=0o077)
        made.append(tmp_path / where / f"{name}.tar.gz")
        subprocess.run(["tar", "xmf", made[-1], "--no-same-permissions", "-C", tmp_path / where], umask=0o077, check=True)
    assert made[0].read_bytes() == made[1].read_bytes()
    assert (tmp_path / "second" / name / "tools/deps.sh").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "second" / name / "daemon/main.c").read_text() == (ROOT / "daemon/main.c").read_text()
