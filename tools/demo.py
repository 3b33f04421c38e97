#!/usr/bin/env python3
"""make demo: four of the words of nbbench, one after the other, and what they decide.
usage: demo.py [BUILD]

Each word has a generator visit its listeners in turn, in short runs and random order, until their costs are known or
its share of TIME is over: what a word leaves over, those after it share.  Nothing is left in the tree but
BUILD/demo.jsonl, which has the rows, and BUILD/report.html.
"""

import os
import pathlib
import platform
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORDS = ("echo", "disk", "tls", "bulk")
TIME = 140  # seconds in all, unless the fewest rounds that can decide take longer
NEXT = """
What to try next:

  {build}/nbbench echo                   # one of these words, with a page of its own; `nbbench list` has all
  {build}/nbbench run echo,engine=all --sweep c=1,10,100 -- redis-benchmark -p {{port}} -t set -c {{c}} -n 20000 -q
  {build}/nbserved --run echo,engine=all # serves until Ctrl-C, and says how to load and to watch it
  {build}/nbserved --doctor              # what this host allows, how to fix each "no"

  make check                           # the tests; then doc/install.md
"""


def say(text="", end="\n"):
    print(text, end=end, flush=True)


class Demo:
    def __init__(self, build):
        self.build = os.path.relpath(build)
        self.nbserved, self.nbbench = str(build / "nbserved"), str(build / "nbbench")
        self.rows = build / "demo.jsonl"
        self.rows.unlink(missing_ok=True)

    def output(self, *argv):
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout

    def measure(self, word, seconds):
        """True: there are rows of it."""
        begin = time.monotonic()
        options = ["--time", f"{seconds:.0f}", "--quiet", "--html", "/dev/null", "--save", str(self.rows)]
        done = subprocess.run([self.nbbench, word, *options], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        say(f"FAILED\n{done.stdout}" if done.returncode else f"{time.monotonic() - begin:.1f} s")
        return done.returncode == 0

    def measure_all(self):
        """How many words failed; those without a generator did not."""
        known = dict(line.split(maxsplit=1) for line in self.output(self.nbbench, "list").splitlines())
        failures, end = 0, time.monotonic() + TIME
        for left, word in zip(range(len(WORDS), 0, -1), WORDS):
            what, _, generators = known[word].rpartition(": ")
            if what.endswith("not here"):
                say(f"  {word:6} not here: it needs {generators}")
                continue
            say(f"  {word:6} {what:51} {generators.split(',')[0]:16}", end=" ")
            failures += not self.measure(word, max(1, (end - time.monotonic()) / left))
        return failures

    def show(self):
        """The table, the page and what follows from all rows."""
        load = [self.nbbench, "show", str(self.rows)]
        say()
        subprocess.run([*load, "--html", str(self.rows.with_name("report.html"))], check=True)
        say(f"All of it in pictures: {self.build}/report.html")

    def run(self):
        version = self.output(self.nbserved, "--version").strip()
        say(f"{version} on Linux {platform.release()}, {len(os.sched_getaffinity(0))} CPUs.")
        say("Each word of nbbench visits its listeners in turn, in short runs, until their costs are known:")
        failures = self.measure_all()
        if self.rows.exists():
            self.show()
        else:
            say("demo: no row was measured (make deps DEPS='build demo' installs generators)")
            failures += 1
        say(NEXT.format(build=self.build))
        return failures


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    begin = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        failures = Demo(build).run()
    except KeyboardInterrupt:
        say("\ndemo: interrupted")
        return 1
    say(f"demo: FAILED ({failures})" if failures else f"demo: done in {time.monotonic() - begin:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
