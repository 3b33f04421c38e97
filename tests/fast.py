#!/usr/bin/python3
"""fast.py [BASE]: the system tests of what differs from BASE (default: HEAD, so uncommitted work).

Prints the test files, one per line, for `make check-fast`.  A test file that is named in no row is
run when it is itself changed, and by `make check`.
"""
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
SYSTEM = TOP / "tests" / "system"

# The tests that a changed file asks for: names of test_NAME.py in tests/system.  Each row that matches counts.
ROWS = [
    (r"(daemon|lib)/(base|core|ring|engine)/", "services halves clients"),
    (r"daemon/(ring|engine)/|daemon/core/worker", "fair deadlines"),
    (r"daemon/(store|export)/", "exports locks"),
    (r"daemon/service/nbd|daemon/store/", "nbd nbd_errors"),
    (r"daemon/service/(\w+?)[_.]", r"\1"),
    (r"daemon/service/", "services"),
    (r"daemon/config/|conf/", "config options reload"),
    (r"daemon/tls/", "tls tls_psk nbd_tls"),
    (r"daemon/server/", "unix fdstore options"),
    (r"daemon/(server|host)/|daemon/(main|options)", "reload notify"),
    (r"daemon/(control|varlink)/", "control stats"),
    (r"daemon/|tests/oracle/", "oracle"),
    (r"daemon/(run|options)\.", "run"),
    (r"bench/run/bench", "bench"),
    (r"(?:ctl|bench)/(top|report|metrics)/", r"\1"),
    (r"(bench|lib)/(generator|result|print|run|rows|report)/", "nbctl_compare report run sweep"),
    (r"(ctl|lib)/(show|client|state|main)", "nbctl nbctl_stats"),
    (r"(bench|lib)/(bridge|client|host)/|bench/run/(daemon|generator)_host|doc/lab", "remote lab interrupt"),
    (r"ctl/nbctl|tools/(install|release)", "install completion"),
    (r"packaging/", "container install"),
    (r"tests/system/(?:\w+/)?test_(\w+)\.py", r"\1"),
]


def changed(base):
    def git(*words):
        return subprocess.run(["git", *words], cwd=TOP, check=True, capture_output=True,
                              text=True).stdout.split("\n")

    return git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")


def main():
    names = set()
    for path in changed(sys.argv[1] if len(sys.argv) > 1 else "HEAD"):
        for pattern, tests in ROWS:
            found = re.match(pattern, path)
            if found:
                names.update(found.expand(tests).split())
    for name in sorted(names):
        for file in SYSTEM.rglob(f"test_{name}.py"):
            print(file.relative_to(TOP))


main()
