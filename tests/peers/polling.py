#!/usr/bin/python3
"""What polling gives a storage client, and what it costs: latency beside CPU, as a table and one picture.

    polling.py [--build DIR] [--rounds N] [--seconds S] [--peer NAME=PID:PORT:NQN]... [--svg FILE]

Listeners of nbd and nvme on one file in the page cache, each with a way to wait for requests, are read in
turn by one client that spins (nvme_client -b): random 4 KiB, 1 and 4 deep, and 10,000 times a second.  The
first listener of a service is there twice: how far the two differ is the noise.  CPU is the server's, in
percent of one.  The kernel's thread of sqpoll needs a third CPU.  A peer is another NVMe/TCP target that runs
already and polls (see nvme.py).
"""

import argparse
import contextlib
import html
import pathlib

import nvme
from report import quartiles
from servers import ALL_CPUS, ROOT, run, started

WAYS = {
    "sleeps": {},
    "sleeps again": {},
    "busy-poll 10 us": {"busy-poll": "10us"},
    "busy-poll 50 us": {"busy-poll": "50us"},
    "busy-poll 200 us": {"busy-poll": "200us"},
    "busy-poll auto": {"busy-poll": "auto"},
    "sqpoll": {"sqpoll": "yes"},
}
if len(ALL_CPUS) < 3:  # the kernel's thread, the worker and the client spin
    del WAYS["sqpoll"]
CLIENTS = {"nbd": "-n -b", "nvme": "-f -b"}
JOBS = {"1 deep": "", "4 deep": "-d 4", "10,000 a second": "-r 10000"}


def measure(servers, job, options):
    """{server: (operations/s, p50 us, p99 us, % of a CPU)}, medians of the rounds."""
    results = {server.name: [] for server in servers}
    for i in range(options.rounds):
        for server in servers if i % 2 == 0 else reversed(servers):
            ops, p50, p99, cpu = nvme.visit(server, job, options)
            results[server.name].append((ops, p50 / 1e3, p99 / 1e3, cpu * ops / 1e7))
    return {name: tuple(quartiles(column)["median"] for column in zip(*rows)) for name, rows in results.items()}


def table(results):
    for title, rows in results.items():
        print(f"{title}\n  {'':22} {'IOPS':>8} {'p50 us':>8} {'p99 us':>8} {'CPU %':>6}")
        for name, (ops, p50, p99, cpu) in rows.items():
            print(f"  {name:22} {ops:8.0f} {p50:8.1f} {p99:8.1f} {cpu:6.0f}")


WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 330, 300, 46, 34, 40
COLOURS = {"nbd": "#1f6feb", "nvme": "#d1570a"}  # a peer is grey
MARKS = "ABCDEFGHIJ"


def panel(title, rows, x, names):
    """The points of a load: CPU to the right, latency upwards."""
    high = max(p50 for _, p50, _, _ in rows.values()) * 1.1
    right = max(100, *(cpu for *_, cpu in rows.values())) * 1.05
    inner, tall = WIDTH - LEFT - 20, HEIGHT - TOP - BOTTOM
    out = [f'<g transform="translate({x},0)"><text x="{LEFT}" y="20" font-weight="bold">{html.escape(title)}</text>']
    for i in range(5):
        y = TOP + tall - tall * i / 4
        out.append(f'<line x1="{LEFT}" x2="{LEFT + inner}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ccc"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{high * i / 4:.0f}</text>')
        at = LEFT + inner * i / 4
        out.append(f'<text x="{at:.1f}" y="{TOP + tall + 16}" text-anchor="middle">{right * i / 4:.0f}</text>')
    out.append(f'<text x="{LEFT + inner / 2}" y="{HEIGHT - 6}" text-anchor="middle">CPU of the server, % of one</text>')
    for name, (_, p50, _, cpu) in rows.items():
        at, y = LEFT + inner * cpu / right, TOP + tall - tall * p50 / high
        colour = COLOURS.get(name.split(":")[0], "#555")
        out.append(f'<circle cx="{at:.1f}" cy="{y:.1f}" r="8" fill="{colour}"><title>{html.escape(name)}: {p50:.1f} us, '
                   f'{cpu:.0f} %</title></circle><text x="{at:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="#fff">'
                   f'{names[name.split(": ")[-1]]}</text>')
    return out + ["</g>"]


def picture(results):
    """SVG: a panel for each load; a letter for each way to wait, a colour for each service."""
    ways = list(dict.fromkeys(name.split(": ")[-1] for rows in results.values() for name in rows))
    names = dict(zip(ways, MARKS))
    width, height = WIDTH * len(results), HEIGHT + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="12">', f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, (title, rows) in enumerate(results.items()):
        out += panel(f"{title}: p50 in us", rows, i * WIDTH, names)
    legend = "   ".join(f"{letter} {way}" for way, letter in names.items())
    out.append(f'<text x="{LEFT}" y="{HEIGHT + 20}">{html.escape(legend)}   <tspan fill="{COLOURS["nbd"]}">NBD</tspan>  '
               f'<tspan fill="{COLOURS["nvme"]}">NVMe</tspan>  <tspan fill="#555">others</tspan></text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--peer", type=nvme.peer, action="append", default=[], metavar="NAME=PID:PORT:NQN")
    parser.add_argument("--svg", type=pathlib.Path, help="the picture (default: BUILD/polling.svg)")
    options = parser.parse_args()
    options.build, options.engine, options.store = options.build.resolve(), "io_uring", "io_uring"
    options.file = options.build / "bench-polling.img"
    rows = {f"{service}: {way}": (service, client, keys)
            for service, client in CLIENTS.items() for way, keys in WAYS.items()}
    try:
        run(["dd", "if=/dev/urandom", f"of={options.file}", "bs=1M", "count=256", "status=none"], cpus=ALL_CPUS)
        maker, visited = nvme.ours(options, rows)
        with started(maker) as (daemon,):
            servers = [nvme.Visited(name, daemon.pid, *of) for name, *of in visited] + options.peer
            results = {title: measure(servers, job, options) for title, job in JOBS.items()}
    finally:
        with contextlib.suppress(FileNotFoundError):
            options.file.unlink()
    table(results)
    (options.svg or options.build / "polling.svg").write_text(picture(results))


if __name__ == "__main__":
    main()
