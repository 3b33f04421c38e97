"""Shared by the parts of the benchmark: programs, lengths, tables, results and targets."""

import pathlib
import statistics


class Bench:
    """One run: where the programs are, how long to measure, what came out."""

    def __init__(self, build, quick=False, foreign=()):
        self.build = pathlib.Path(build)
        self.quick = quick
        self.foreign = foreign  # [name, command] of other echo servers
        self.results = {}
        self.targets = []

    def program(self, name):
        return self.build / "bench" / name

    def nbserved(self, statistics_on=True):
        return self.build / ("nbserved" if statistics_on else "nostats/nbserved")

    def rounds(self, count):
        return max(4, count // 5) if self.quick else count

    def say(self, text=""):
        print(text, flush=True)

    def table(self, header, rows):
        """Prints rows of cells; the first column is left-aligned."""
        lines = [[str(cell) for cell in row] for row in [header, *rows]]
        widths = [max(map(len, column)) for column in zip(*lines)]
        for first, *cells in lines:
            right = (c.rjust(w) for c, w in zip(cells, widths[1:]))
            self.say("  " + "  ".join([first.ljust(widths[0]), *right]).rstrip())
        self.say()

    def target(self, name, value, limit, at_least=False):
        """Notes a target of the project; value None: not measurable here."""
        met = None if value is None else (value >= limit if at_least else value <= limit)
        self.targets.append(
            {"name": name, "value": value, "limit": limit, "at_least": at_least, "met": met}
        )

    def print_targets(self):
        rows = []
        for t in self.targets:
            value = "-" if t["value"] is None else f"{t['value']:.4g}"
            wanted = f"{'>=' if t['at_least'] else '<='} {t['limit']:.4g}"
            verdict = {True: "met", False: "MISSED", None: "not measurable here"}[t["met"]]
            rows.append([t["name"], value, wanted, verdict])
        self.table(["target", "measured", "wanted", ""], rows)


def quartiles(values):
    if len(values) == 1:
        values = values * 2
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return {"q1": q1, "median": median, "q3": q3}


def ratio(numerators, denominators):
    """Median and quartiles of the rounds' ratios."""
    return quartiles([a / b for a, b in zip(numerators, denominators)])


def show_ratio(r):
    return f"{r['median']:.3f} [{r['q1']:.3f} {r['q3']:.3f}]"
