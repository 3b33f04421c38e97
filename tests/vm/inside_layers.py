"""`nbbench compare --layers` on the VM's kernel: samples are found in the layers that each engine works in."""
import json
import os
import subprocess
from pathlib import Path

BUILD = Path(os.environ["NBSERVED_BUILD"])
LOAD = "redis-benchmark -p {port} -t set -c 4 -n 500 -q"


def test_layers_of_this_kernel():
    done = subprocess.run([BUILD / "nbbench", "run", "echo,engine=all", "--layers", "--repeat", "1", "--json", "--",
                           *LOAD.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (rows,) = (group["listeners"] for group in json.loads(done.stdout)["layers"])
    assert [row["listener"] for row in rows] == ["echo-epoll", "echo-io_uring-poll", "echo-io_uring"]
    for row in rows:
        times = {name: layer["ns"] for name, layer in row["layers"].items()}
        assert abs(sum(times.values()) - row["cost"]) < row["cost"] / 1000
        assert times["tcp_ip"] > 0, (row["samples"], times, row["other_functions"])
