"""Shared by the parts of the benchmark: rounds, tables, ratios and targets."""

import pathlib
import statistics


class Bench:
    """One run: where the programs are, what is printed."""

    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.targets = []

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

    def target(self, name, value, limit):
        """Notes a limit that the project wants to stay below."""
        self.targets.append([name, f"{value:.4g}", f"<= {limit:.4g}", "met" if value <= limit else "MISSED"])

    def print_targets(self):
        self.table(["target", "measured", "wanted", ""], self.targets)


def alternate(servers, rounds, visit):
    """{name: [visit's result of each round]}"""
    results = {server.name: [] for server in servers}
    for i in range(rounds):
        for server in servers if i % 2 == 0 else reversed(servers):
            results[server.name].append(visit(server))
    return results


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
