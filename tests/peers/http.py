#!/usr/bin/env python3
"""The cost of an HTTP request: nginx with one worker against nbserved over each engine, the same 9 bytes.

usage: http.py [BUILD [ROUNDS [SECONDS]]]

Servers run on CPU 0, wrk on CPU 1.  Each round visits all of them, every other one in reverse order.
CPU time is what /proc says of the server's threads.  nginx says Server, Date and Connection in each
reply; nbserved says none of them.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from statistics import median

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
SECONDS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
ENGINES = ["epoll", "io_uring", "io_uring-poll"]
PORT = 18107
NGINX = """
daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error; worker_cpu_affinity 1;
events {{ worker_connections 1024; use epoll; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 3600s;
  client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};
  uwsgi_temp_path {dir}; scgi_temp_path {dir};
  server {{ listen 127.0.0.1:{port} reuseport; default_type text/plain;
            location = / {{ return 200 "nbserved\\n"; }} }}
}}
"""
LISTENER = """
[listener {engine}]
address = 127.0.0.1:{port}
engine = {engine}
service = http
cpus = 0
"""


def thread_seconds(pid, name=None):
    """CPU time of a process's threads, in seconds, or of the one of that name."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if name is None or (task / "comm").read_text().startswith(name):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def wait_for(port):
    for _ in range(500):
        if subprocess.run(["curl", "-sf", f"http://127.0.0.1:{port}/"],
                          stdout=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(0.02)
    sys.exit(f"http.py: nothing answers on port {port}")


def visit(port, connections, seconds_used):
    """Requests per second, and server CPU time per request in microseconds."""
    before = seconds_used()
    text = subprocess.run(
        ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{SECONDS}",
         f"http://127.0.0.1:{port}/"],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    used = seconds_used() - before
    if "Non-2xx" in text or "Socket errors" in text:
        sys.exit(f"http.py: {text}")
    requests = int(re.search(r"(\d+) requests in", text)[1])
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), used / requests * 1e6


def main():
    with tempfile.TemporaryDirectory(prefix="nbserved-http-") as directory:
        os.chmod(directory, 0o755)
        config = f"[server]\ncontrol = {directory}/control.sock\n"
        for i, engine in enumerate(ENGINES):
            config += LISTENER.format(engine=engine, port=PORT + 1 + i)
        (pathlib.Path(directory) / "nbserved.ini").write_text(config)
        (pathlib.Path(directory) / "nginx.conf").write_text(NGINX.format(dir=directory, port=PORT))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes = [
            subprocess.Popen(["nginx", "-p", directory, "-c", f"{directory}/nginx.conf"], **quiet),
            subprocess.Popen([BUILD / "nbserved", "-c", f"{directory}/nbserved.ini"], **quiet),
        ]
        try:
            for i in range(1 + len(ENGINES)):
                wait_for(PORT + i)
            (nginx,) = children(processes[0].pid)
            daemon = processes[1].pid
            servers = [("nginx", PORT, lambda: thread_seconds(nginx))]
            for i, engine in enumerate(ENGINES):
                servers.append((engine, PORT + 1 + i, lambda: thread_seconds(daemon)))
            for connections in (1, 50):
                results = {name: [] for name, _, _ in servers}
                for turn in range(ROUNDS):
                    for name, port, used in servers[:: 1 if turn % 2 == 0 else -1]:
                        results[name].append(visit(port, connections, used))
                print(f"GET /, {connections} connections, {ROUNDS} rounds of {SECONDS} s, medians:")
                base = results["nginx"]
                for name, values in results.items():
                    ratio = median(v[1] / b[1] for v, b in zip(values, base))
                    print(f"  {name:14} {median(v[0] for v in values):9.0f} requests/s "
                          f"{median(v[1] for v in values):6.2f} us CPU/request "
                          f"{ratio:5.2f} of nginx")
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


if __name__ == "__main__":
    main()
