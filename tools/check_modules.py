#!/usr/bin/python3
"""check_modules.py [--update]: a header is a module (`make lint`).

What STEM.h or STEM_PART.h declares begins with STEM_ (of a list: STEMs_) and is defined in STEM.c or STEM_PART.c of the
same folder; or the folder is one module with one prefix (FOLDERS).  A NAME_list.h is entries of a table and declares
nothing.  tools/modules.txt has the names and files that still
break this, sorted.  A line of it that is no longer needed fails as well, so the list only shrinks: --update takes such
lines off, and adds none.
"""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LIST = TOP / "tools" / "modules.txt"
TOPS = ("daemon", "ctl", "bench", "lib")
FOLDERS = {
    "service/nvme": "nvme", "service/nvme/wire": "nvme", "service/nbd": "nbd", "service/iperf": "iperf3",
    "service/http": "http", "service/netperf": "netperf", "service/perftest": "perftest", "engine/rdma": "rdma",
    "engine/rdma/verbs": "rdma", "engine/udp": "udp", "engine/udp/xdp": "xdp",
    "config": "config", "tls": "tls", "ring": "ring", "varlink": "varlink", "bridge": "bridge", "report": "report", "top": "top",
}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DEFINITION = re.compile(r"^(?!static|typedef|#|\s)[A-Za-z_][\w \*]*?[ \*](\w+)\([^;{}]*\)\n?\{", re.MULTILINE)
BODY = re.compile(r"\{[^{}]*\}")


def text_of(path):
    return COMMENT.sub(" ", path.read_text())


def declared(path):
    """Names of functions that a header declares or defines."""
    text = re.sub(r"^#.*(\\\n.*)*", "", text_of(path), flags=re.MULTILINE)
    while (shorter := BODY.sub("", text)) != text:
        text = shorter
    return set(re.findall(r"\b(\w+)\(", text))


def stems(header):
    """Prefixes that what it declares may have."""
    parts = header.stem.removesuffix("_internal").split("_")
    found = {"_".join(parts[:n]) for n in range(1, len(parts) + 1)}
    folder = FOLDERS.get("/".join(header.relative_to(TOP).parts[1:-1]))
    return parts[0], folder, found | {s + "s" for s in found} | {s.removesuffix("s") for s in found} | {folder} - {None}


def breaches():
    files = [p for top in TOPS for p in sorted((TOP / top).rglob("*.[ch]"))]
    headers, wrong = {}, set()
    for path in files:
        for name in declared(path) if path.suffix == ".h" and not path.stem.endswith("_list") else ():
            headers.setdefault(name, []).append(path)
    for path in files:
        for name in DEFINITION.findall(text_of(path)) if path.suffix == ".c" else ():
            tree = path.relative_to(TOP).parts[0]
            near = sorted((h for h in headers.get(name, ()) if h.relative_to(TOP).parts[0] == tree),
                          key=lambda h: h.parent != path.parent)
            if not near:
                continue
            first, folder, allowed = stems(near[0])
            if not any(name == stem or name.startswith(stem + "_") for stem in allowed):
                wrong.add(f"{near[0].relative_to(TOP)}: {name}")
            if not folder and path.stem not in (first, first + "s") and not path.stem.startswith(first + "_"):
                wrong.add(f"{path.relative_to(TOP)}: not a file of {near[0].name}")
    return wrong


def main():
    wrong, allowed = breaches(), set(LIST.read_text().splitlines())
    if "--update" in sys.argv:
        LIST.write_text("".join(f"{line}\n" for line in sorted(allowed & wrong)))
        allowed &= wrong
    for line in sorted(wrong - allowed):
        print(f"{line}: not of this module; a header's names begin with its stem")
    for line in sorted(allowed - wrong):
        print(f"{line}: is right now, take it off tools/modules.txt (check_modules.py --update)")
    return wrong != allowed


if __name__ == "__main__":
    sys.exit(main())
