#!/usr/bin/python3
"""check_retried.py: a test that needed a second try three times must be mended (`make lint`).

A line of tests/retried.txt is `DATE FILE::TEST WHAT WAS SEEN`.  Who mends the test removes its lines.
"""
import collections
import datetime
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LIST = TOP / "tests/retried.txt"
MOST = 2


def main():
    bad, counts = [], collections.Counter()
    for line in LIST.read_text().splitlines():
        if line.startswith("#"):
            continue
        date, test, seen = (line.split(" ", 2) + ["", ""])[:3]
        file, _, name = test.partition("::")
        counts[test] += 1
        try:
            datetime.date.fromisoformat(date)
        except ValueError:
            bad.append(f"no date: {line}")
        if not seen:
            bad.append(f"what was seen is missing: {line}")
        if not (TOP / file).is_file() or not re.search(rf"\b{re.escape(name)}\(", (TOP / file).read_text()):
            bad.append(f"no such test: {test}")
    bad += [f"{test} was repeated {count} times: mend it" for test, count in counts.items() if count > MOST]
    sys.exit("\n".join(f"tests/retried.txt: {what}" for what in bad) or 0)


if __name__ == "__main__":
    main()
