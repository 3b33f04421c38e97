#!/usr/bin/python3
"""check_budgets.py: lines by folder, keys of the configuration and words of the documents, against tools/budgets.txt.

Each line there is `LIMIT WHAT`.  A change that needs more raises it in a commit of its own, with the reason; one that
removes lowers it.  `changes` are the two newest sections of CHANGELOG.md.  A limit that is more than a tenth too high fails as well.
"""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]


def lines(folder, suffixes):
    return sum(len(p.read_bytes().splitlines()) for p in (TOP / folder).rglob("*") if p.is_file() and p.suffix in suffixes)


def words(paths):
    return sum(len(p.read_text().split()) for p in paths)


def figures():
    code, tests = {".c", ".h"}, {".c", ".h", ".py", ".sh", ".mk"}
    return {
        **{f"lines of {folder}": lines(folder, code) for folder in ("daemon", "ctl", "bench", "lib")
           if (TOP / folder).is_dir()},
        "lines of tests": lines("tests", tests),
        "keys": len(re.findall(r"^\.It Cm \S+ Pq (?:live|listener|restart|export)$", (TOP / "man/nbserved.ini.5").read_text(),
                               re.MULTILINE)),
        "words of user pages": words([TOP / "README.md", *(TOP / "doc").glob("*.md")]),
        "words of internals": words((TOP / "doc/internals").glob("*.md")),
        "words of changes": len("".join(re.split(r"^## ", (TOP / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:3]).split()),
        "words of man": words((TOP / "man").iterdir()),
    }


def main():
    limits = {what: int(limit) for limit, what in
              (line.split(" ", 1) for line in (TOP / "tools/budgets.txt").read_text().splitlines())}
    bad = []
    for what, now in figures().items():
        limit = limits.pop(what, 0)
        if now > limit:
            bad.append(f"{what}: {now}, the budget is {limit}")
        elif now < 0.9 * limit:
            bad.append(f"{what}: {now}, the budget of {limit} is too high by more than a tenth: lower it")
    bad += [f"{what}: a budget of nothing" for what in limits]
    sys.exit("\n".join(bad) or 0)


if __name__ == "__main__":
    main()
