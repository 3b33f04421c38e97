"""Joules per request, on files as the kernel's in place of /sys/class."""
import json
import os
import subprocess
import threading
import time

import pytest
from conftest import NBBENCH, NBCTL, TIMEOUT, listener, rows_of

CONFIG = listener("echo")
REQUESTS = 400
EXTRA_UJ = 5_000_000

# A generator: half of its requests, then the package uses five joules more, then the other half.
WRK = f"""#!/usr/bin/python3
import os, socket, sys, time
s, start = socket.create_connection(("127.0.0.1", int(sys.argv[1]))), time.monotonic()
energy = lambda: int(open("TREE/intel-rapl:0/energy_uj").read())
[(s.sendall(b"x"), s.recv(1)) for _ in range({REQUESTS // 2})]
before = energy()
open("TREE/extra", "w").close()
while energy() < before + {EXTRA_UJ}:
    time.sleep(0.001)
[(s.sendall(b"x"), s.recv(1)) for _ in range({REQUESTS // 2})]
took = time.monotonic() - start
print(f"{REQUESTS} requests in {{took}}s\\nRequests/sec: {{{REQUESTS} / took}}")
"""


def put(path, text):
    path.with_suffix(".new").write_text(f"{text}\n")
    path.with_suffix(".new").rename(path)


@pytest.fixture
def tree(tmp_path):
    """A package of a watt, and its part; the counter begins anew within a second."""
    powercap, range_uj, done = tmp_path / "class/powercap", 100_000_000, threading.Event()
    for zone, name in ("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"):
        (powercap / zone).mkdir(parents=True)
        put(powercap / zone / "name", name)
        put(powercap / zone / "max_energy_range_uj", range_uj)
        put(powercap / zone / "energy_uj", 0)
    start = time.monotonic() + 0.5

    def use():
        while not done.wait(0.002):
            uj = int((time.monotonic() - start) * 1e6) + EXTRA_UJ * (powercap / "extra").exists()
            put(powercap / "intel-rapl:0/energy_uj", uj % range_uj)

    thread = threading.Thread(target=use)
    thread.start()
    yield powercap
    done.set()
    thread.join()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount over /sys/class")
@pytest.mark.parametrize("far", [False, True], ids=["here", "there"])
def test_a_visit_has_its_joules_less_those_of_idle(daemon, tree, tmp_path, far):
    """Of the daemon's host, with -H too: there alone the files are seen."""
    wrk, ssh, saved = tmp_path / "wrk", tmp_path / "ssh", tmp_path / "rows"
    mounted = f"exec unshare -m sh -c 'mount --bind {tree.parent} /sys/class && exec \"$@\"' sh"
    wrk.write_text(WRK.replace("TREE", str(tree)))
    ssh.write_text(f'#!/bin/bash\nfor last; do :; done\nPATH={NBCTL.parent}:$PATH\n{mounted} sh -c "$last"\n')
    for path in wrk, ssh:
        path.chmod(0o755)
    command = [NBBENCH, *(["-H", "server1"] if far else []), "-s", daemon.control, "compare", "--json", "--repeat", "1", "--save", saved,
               "echo", "--", wrk, "{port}"]
    ran = subprocess.run(command if far else ["bash", "-c", f'{mounted} "$@"', "bash", *command], stdout=subprocess.PIPE,
                         env=dict(os.environ, NBSERVED_SSH=str(ssh)), timeout=TIMEOUT, check=True)
    (row,) = rows_of(json.loads(ran.stdout))
    idle, spent = (row["conditions"]["energy"][part] for part in ("idle", "spent"))
    assert list(idle["uj"]) == list(spent["uj"]) == ["package-0"] and idle["ns"] >= 1_000_000_000
    net_uj = spent["uj"]["package-0"] - idle["uj"]["package-0"] * spent["ns"] / idle["ns"]
    assert spent["uj"]["package-0"] > EXTRA_UJ and idle["uj"]["package-0"] > 0
    assert row["values"]["joules_per_request"]["median"] == pytest.approx(net_uj / 1e6 / REQUESTS)
    show = [NBBENCH, "show", saved]
    assert f"{net_uj / 1e3 / REQUESTS:.2f}" in subprocess.check_output([*show, "--wide"], text=True)
    page = subprocess.check_output([*show, "--html", "-"], text=True)
    assert "J/1000<br/>req" in page and "package-0" in page


def test_a_host_that_does_not_count_has_none(daemon):
    if os.path.exists("/sys/class/powercap/intel-rapl:0"):
        pytest.skip("this host counts energy")
    client = "exec 3<>/dev/tcp/127.0.0.1/$0; printf x >&3; read -rn1 <&3"
    out = daemon.nbctl("compare", "--json", "--repeat", "1", "--", "bash", "-c", client, "{port}").stdout
    (row,) = rows_of(json.loads(out))
    assert "energy" not in row["conditions"] and row["values"]["joules_per_request"]["median"] is None
