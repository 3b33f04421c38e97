#!/usr/bin/python3
"""The published claims, checked on this host: `make claims`; it says at first how long it takes.

    claims.py [--build DIR] [--only SCENE,...] [--minutes N] [--seconds N] [--judge] [--page FILE]

Measures each scene by `nbbench compare`, in rounds of random order until the intervals are narrow or the
load's share of --minutes is over, saves the rows
in BUILD/claims.jsonl, and says of each claim whether it holds.  Writes BUILD/claims.md and
BUILD/claims.html.  With --only the other scenes' rows are those of the last time, as are those that are
not reached in --seconds; --judge measures nothing.  --page (`make claims-doc`: doc/internals/claims.md) also
puts what was measured into that file's table, between its marks; what was not measured stays there as it
was.
"""

import argparse
import contextlib
import html
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import tempfile
import time

import claims_rows
from claims_rows import Missing, Rows, day_of
from claims_scenes import CONTROL, GRID, cpus_are_apart, echo_label, fill, scenes
from claims_table import CLAIMS, UNMEASURED
from servers import ALL_CPUS, ROOT, Daemon

MARKS = ("<!-- claims -->\n", "<!-- /claims -->\n")
VM_ROWS = "vm/speed/claims.jsonl"  # in BUILD; inside_claims.py writes them
BYPASS_COSTS = "vm/speed/bypass.json"  # inside_bypass.py writes them
VISIT_SECONDS = 60  # of one visit, at the most
MINUTES = 45  # of all loads


def drop_rows(path, labels):
    """An earlier run's rows would count as visits of this one."""
    if path.exists():
        kept = [line for line in path.read_text().splitlines(True)
                if json.loads(line).get("label") not in labels]
        path.write_text("".join(kept))


def measure(build, scene, rows, extra, end, load_seconds=60):
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="claims-", dir=build)))
        fill(directory, scene.files)
        daemon = stack.enter_context(Daemon(scene.name, build / "nbserved", scene.config.replace("{directory}", str(directory)),
                                            server="", cpus=ALL_CPUS, niceness=0))
        for load in scene.loads:
            start = time.monotonic()
            if start > end:
                print(f"{scene.name}: {load.label}: no time is left", flush=True)
                continue
            drop_rows(rows, {load.label})
            done = subprocess.run(
                [build / "nbbench", "-s", daemon.control, "compare", "--quiet", "--label",
                 load.label, *(["--repeat", str(load.rounds)] if load.rounds else ["--time", str(load_seconds)]),
                 "--save", rows, *load.listeners, "--", *load.command],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=load_seconds + 12 * VISIT_SECONDS * len(load.listeners))
            print(f"{scene.name}: {load.label} ({time.monotonic() - start:.0f} s)"
                  + (f": exit status {done.returncode}\n{done.stdout}" if done.returncode else ""),
                  flush=True)
        if scene.name == "zero-copy":
            counts = daemon.stats("zero-copy")["zero_copy"]
            extra["zero-copy"] = counts["sent"], counts["copied"]


def call_ns():
    """A system call that does nothing, with what Python adds to it: so at most."""
    best = 1e9
    for _ in range(5):
        start = time.perf_counter_ns()
        for _ in range(100000):
            os.getppid()
        best = min(best, (time.perf_counter_ns() - start) / 100000)
    return best


def load_time(minutes, loads):
    """Seconds for each of the loads, so that all of them take these minutes."""
    return max(1, round(60 * minutes / loads))


def plan(loads, seconds):
    """How long it takes: nbctl begins no round after a load's time, but makes the rounds that a verdict takes."""
    return (f"{loads} loads, each until it is known or for {seconds} s: {math.ceil(loads * seconds / 60)} minutes, "
            "less where loads are known before, more where the rounds that a verdict takes are longer")


def judge(rows):
    for claim, source, measurement, decide in CLAIMS:
        try:
            verdict, seen = rows.decide(decide)
            seen += f" ({max(rows.days)})" if rows.days else ""
        except (Missing, KeyError) as missing:
            verdict, seen = UNMEASURED, f"{missing}"
        yield claim, source, measurement, verdict, seen


def control(rows):
    """The same program against itself: what is found there is chance."""
    rows.comparisons = len(GRID)
    try:
        ratios = [rows.ratio(echo_label(*g), CONTROL, "epoll", "cpu_ns_per_request") for g in GRID]
    except Missing:
        return "no control was measured"
    return "control, epoll against itself: " + ", ".join(map(str, ratios))


def chance():
    """How many of the families of comparisons so far would be called different where nothing is."""
    families = sum(1 / comparisons for comparisons in claims_rows.judged)
    return (f"{len(claims_rows.judged)} comparisons in {families:.0f} families: chance alone would call "
            f"{families * claims_rows.CHANCE:.1f} of the families different where nothing is")


def conditions(rows):
    """Of the newest rows: those of other days have theirs from then, see update_page()."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = next((x.split(":")[1].strip() for x in f if x.startswith("model name")), "?")
    newest = max(rows.all_visits(), key=day_of, default=None)
    return (f"{day_of(newest) if newest else 'no rows'}: Linux {platform.release()}, {len(ALL_CPUS)} CPUs ({model}){call_cost(rows.extra, newest)}; "
            "generator and server on " + ("CPUs of their own" if cpus_are_apart() else "one CPU")
            + f", rounds of random order; {control(rows)}")


def call_cost(extra, newest):
    """What a system call took on the day of the newest rows, and the mitigation that it paid for: io_uring saves no
    more than its calls."""
    if not newest or extra.get("call_day") != day_of(newest):
        return ""
    meltdown = newest["conditions"]["host"].get("mitigations", {}).get("meltdown", "not affected")
    return f", a system call takes at most {extra['call_ns']:.0f} ns (Meltdown: {meltdown})"


def table(judged, when):
    lines = [f"{when}.\n\n",
             "| claim | source | measured by | | seen |\n|---|---|---|---|---|\n"]
    for claim, source, measurement, verdict, seen in judged:
        lines.append(f"| {claim} | {source} | {measurement} | **{verdict}** | {seen} |\n".replace(
            " x ", " × "))
    return lines


def update_page(path, judged, when):
    """Replaces the rows of a page's table that were measured.  A line of conditions stays while a row has its day."""
    before, rest = path.read_text().split(MARKS[0])
    old, after = rest.split(MARKS[1])
    old = old.splitlines(True)
    kept = {key_of(line): line for line in old if line.startswith("| ")}
    lines = [kept.get(key_of(line), line) if f"**{UNMEASURED}**" in line else line for line in table(judged, when)]
    days = {match for line in lines[1:] for match in re.findall(r"\((\d{4}-\d\d-\d\d)\) \|$", line)}
    earlier = [line + "\n" for line in old if line[:10] in days and line[:10] != when[:10]]
    path.write_text(before + MARKS[0] + "".join([*earlier, *lines]) + MARKS[1] + after)


def key_of(line):
    """Of a row of the table: claim, source and measurement."""
    return tuple(line.split(" | ")[:3])


def write_report(build, rows, judged, when):
    """nbctl's page, with the verdicts in front."""
    page = subprocess.run([build / "nbbench", "show", "--html", "-", rows], capture_output=True, text=True,
                          check=True).stdout
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell.replace('`', ''))}</td>" for cell in row)
                   + "</tr>\n" for row in judged)
    section = ("<section><h2>The published claims</h2>\n"
               f"<p class=\"dim\">{html.escape(when)}. ~: within the noise of the rounds.</p>\n"
               "<div class=\"scroll\"><table><thead><tr><th>claim</th><th>source</th>"
               "<th>measured by</th><th>verdict</th><th>seen</th></tr></thead>\n"
               f"<tbody>\n{body}</tbody></table></div></section>\n")
    (build / "claims.html").write_text(page.replace("<main>\n", "<main>\n" + section, 1))


def load_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", help="scenes, with commas; the others' rows stay")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="the time of all loads that are measured")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no load begins later")
    parser.add_argument("--judge", action="store_true", help="measure nothing")
    parser.add_argument("--page", type=pathlib.Path, help="a file whose table is updated")
    options = parser.parse_args()
    build = claims_rows.BUILD = options.build.resolve()
    only = options.only.split(",") if options.only else [s.name for s in scenes()]
    unknown = set(only) - {s.name for s in scenes()}
    if unknown:
        parser.error(f"no scene {', '.join(unknown)}; there are {', '.join(s.name for s in scenes())}")
    rows, extra = build / "claims.jsonl", load_json(build / "claims-extra.json")
    end = time.monotonic() + options.seconds
    loads = sum(len(s.loads) for s in scenes() if s.name in only)
    load_seconds = load_time(options.minutes, loads)
    if not options.judge:
        print(plan(loads, load_seconds), flush=True)
    for scene in [] if options.judge else [s for s in scenes() if s.name in only]:
        measure(build, scene, rows, extra, end, load_seconds)
        if scene.name == "echo":
            extra.update(call_ns=call_ns(), call_day=time.strftime("%Y-%m-%d", time.gmtime()))
    (build / "claims-extra.json").write_text(json.dumps(extra) + "\n")
    read = Rows(build / "nbbench", rows, build / VM_ROWS)
    read.extra = {**extra, "bypass": load_json(build / BYPASS_COSTS)}
    judged = list(judge(read))
    for claim, _, _, verdict, seen in judged:
        print(f"\n{verdict}: {claim}\n    {seen}")
    expected = chance()
    print(f"\n{expected}")
    when = f"{conditions(read)}; {expected}"
    (build / "claims.md").write_text("".join(table(judged, when)))
    write_report(build, rows, judged, when)
    if options.page:
        update_page(options.page, judged, when)
    print(f"\n{build / 'claims.md'}, {build / 'claims.html'}", *filter(None, [options.page]))


if __name__ == "__main__":
    main()
