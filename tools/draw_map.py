#!/usr/bin/python3
"""draw_map.py [--update]: the pictures in ARCHITECTURE.md, drawn from the source.

The tree: the rooms of the Makefile (LIB_ROOMS, LAYERS, CTL_ROOMS, BENCH_ROOMS) with the text behind `##` of their INC_ line,
and the rooms that their files include.  Ways of a request and of other events: functions, each of which the source
shows to call the next.  The example of a service is echo's.  Without --update: is what the page has still true?
(`make lint`)
"""
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PAGE = TOP / "ARCHITECTURE.md"

# The functions that one request of an echo passes: (depth, function).  A function is called by the nearest one above
# it with less depth: by name, through a member of a table (`->wait(` and `.wait = NAME`), or as an
# operation's done(), to which the file sets it.
WAY = [
    ("every engine", [
        (0, "worker_turn"), (1, "worker_run_ready"), (2, "conn_run"), (3, "echo_run"),
        (4, "conn_op_begin_all"), (4, "bufq_splice"),
    ]),
    ("epoll, a reactor: waits until a socket is ready, then receives; sends at once", [
        (0, "worker_turn"), (1, "epoll_wait_turn"), (2, "epoll_event"), (3, "readiness_recv"),
        (4, "recv_one"), (5, "conn_input"), (0, "conn_run"), (1, "epoll_flush"), (2, "readiness_send"),
        (3, "conn_sent"),
    ]),
    ("io_uring, a proactor: waits for what has been received; the next wait submits the sends", [
        (0, "worker_turn"), (1, "uring_wait"), (2, "ring_enter_plain"), (2, "ring_reap"),
        (3, "uring_recv_done"), (4, "conn_input"), (0, "conn_run"), (1, "uring_flush"),
        (2, "uring_prep_send"), (2, "uring_quiet"),
    ]),
]

# What a newcomer looks for, in the same form.
PLACES = [
    ("accepting pauses when descriptors or memory have run out (io_uring begins in ring_accept_done())", [
        (0, "readiness_accept"), (1, "worker_accept_done"), (2, "worker_pause_accept"),
    ]),
    ("an NVMe/TCP initiator's write reaches a file, with `store = io_uring`", [
        (0, "tcp_receive_data"), (1, "tcp_write_received"), (2, "nvme_submit_to_store"), (3, "io_submit"),
        (4, "file_uring_submit"), (5, "file_uring_read_or_write"), (6, "file_uring_prep_rw"),
    ]),
    ("SIGHUP reloads (with `--run` it ends the daemon)", [
        (0, "on_sighup"), (1, "reload_run"), (2, "replace_config"), (3, "apply"), (4, "prepare"), (4, "commit"),
    ]),
    ("nbbench decides on a row: less, more, the same or undecided", [
        (0, "result_new"), (1, "comparison_judge"), (2, "judge_group"), (3, "judge_figure"), (4, "judge_rounds"),
        (5, "verdict_of"), (6, "judge_values"), (7, "set_interval"), (8, "decide"),
    ]),
]


def make_rooms():
    """(folder, purpose) of each room, from the lowest."""
    text = (TOP / "Makefile").read_text()
    names = subprocess.run(
        ["make", "-s", "--no-print-directory", "--eval=rooms: ; @echo $(LIB_ROOMS) : $(LAYERS) : $(CTL_ROOMS) : $(BENCH_ROOMS)", "rooms",
         "NB_DEPS=no"], cwd=TOP, check=True, capture_output=True, text=True).stdout
    lib, daemon, ctl, bench = (part.split() for part in names.split(":"))
    rooms = [(f"lib/{name}", f"INC_lib/{name}") for name in lib]
    rooms += [(f"daemon/{name}", f"INC_{name}") for name in daemon] + [("daemon", "INC_main")]
    rooms += [(f"ctl/{name}", f"INC_ctl/{name}") for name in ctl] + [("ctl", "INC_ctl_main")]
    rooms += [(f"bench/{name}", f"INC_bench/{name}") for name in bench] + [("bench", "INC_bench_main")]
    for folder, variable in rooms:
        purpose = re.search(rf"^{variable} *:=(?:[^\n#]|\\\n)*## (.*)$", text, re.M)
        if not purpose:
            sys.exit(f"Makefile: {variable} has no `## purpose` behind it")
        yield folder, purpose[1]


def rooms_below(folder, rooms):
    """The rooms whose headers a room's files include, itself left out."""
    own = folder.split("/")[0]  # programs may have headers of one name
    owner = {file.name: room for room, _ in rooms if room.split("/")[0] in ("lib", own)
             # A service's headers are its own; block/ is for two of them.
             if not room.startswith("daemon/service/") or room == "daemon/service/block"
             for file in (TOP / room).glob("*.h")}
    below = set()
    for file in (TOP / folder).glob("*.[ch]"):
        for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.M):
            beside = file.parent / name
            below.add(str(beside.parent.relative_to(TOP)) if beside.exists() else owner.get(name, folder))
    return below - {folder}


def draw_tree():
    rooms = list(make_rooms())
    below = {folder: rooms_below(folder, rooms) for folder, _ in rooms}

    def reached(folder):
        return set().union(below[folder], *(reached(other) for other in below[folder]))

    def short(folder):
        return folder.removeprefix("daemon/").removeprefix("ctl/").removeprefix("bench/")

    for folder, purpose in rooms:
        direct = [other for other, _ in rooms if other in below[folder]
                  and not any(other in reached(third) for third in below[folder])]
        name = folder + ("/*.c" if folder in ("daemon", "ctl", "bench") else "/")
        yield f"{name:28} {purpose}"
        if direct:
            yield f"{'':28}    on {', '.join(map(short, direct))}"


class Source:
    def __init__(self):
        self.files = {f: f.read_text() for folder in ("daemon", "bench") for f in sorted((TOP / folder).rglob("*.[ch]"))}

    def find(self, name):
        """(file, body) of a function's definition."""
        for file, text in self.files.items():
            found = re.search(rf"^\w[^\n;=]*\b{name}\([^;{{]*\)\n{{(.*?)^}}", text, re.M | re.S)
            if found:
                return file, found[1]
        sys.exit(f"tools/draw_map.py: {name}() is gone: write its successor into WAY or PLACES")

    def link(self, caller, name):
        """How the caller calls name: "" by its name, else the member that it calls."""
        _, body = self.find(caller)
        if re.search(rf"\b{name}\(", body):
            return ""
        for text in self.files.values():
            for member in re.findall(rf"\.(\w+) = (?:[^;,]*\? )?{name}\b", text):
                if f"->{member}(" in body:
                    return f"->{member}()"
        sys.exit(f"tools/draw_map.py: {caller}() no longer calls {name}(): update WAY or PLACES")


def draw_ways(ways):
    source = Source()
    for title, steps in ways:
        yield f"{title}:"
        above = {}
        for depth, name in steps:
            how = source.link(above[depth - 1], name) if depth else ""
            above[depth] = name
            file, _ = source.find(name)
            left = "  " * (depth + 1) + (f"{how} = " if how else "") + name
            yield f"{left:44}{str(file.relative_to(TOP)).removeprefix('daemon/')}"


def draw_echo():
    _, body = Source().find("echo_run")
    yield "static void echo_run(struct conn *c)"
    yield from f"{{{body}}}".splitlines()


def main():
    text = page = PAGE.read_text()
    for name, language, draw in (("tree", "", draw_tree), ("echo", "c", draw_echo), ("way", "", lambda: draw_ways(WAY)),
                                 ("places", "", lambda: draw_ways(PLACES))):
        begin, end = f"<!-- {name}: drawn by tools/draw_map.py -->\n", f"<!-- /{name} -->"
        before, rest = text.split(begin)
        picture = "\n".join(draw()).rstrip()
        text = f"{before}{begin}```{language}\n{picture}\n```\n{end}{rest.split(end, 1)[1]}"
    if "--update" in sys.argv:
        PAGE.write_text(text)
    elif text != page:
        sys.exit("ARCHITECTURE.md: the source has changed: run tools/draw_map.py --update")


main()
