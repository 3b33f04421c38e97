"""The rows that `nbbench compare` has saved, and which differences are beyond chance.

A round visits each listener once, one right after the other, so what else the host does meets both: the
ratio of two listeners is taken in each round, and judged by nbbench's own code (verdict.c, made into a
program), as `nbbench compare` does."""

import dataclasses
import json
import math
import os
import pathlib
import subprocess

BETTER, WORSE, SAME = "better", "worse", "same"
FIGURES = {"requests_per_s": 1, "cpu_ns_per_request": -1, "cpu_ns_per_operation": -1,
           "context_switches_per_request": -1, "round_trip_p50_ns": -1}  # 1: more is better
CHANCE = 0.05  # that the true ratio is outside of what is told
BUILD = pathlib.Path(os.environ.get("NBSERVED_BUILD", "build"))  # claims.py sets it
judged = []  # comparisons so far


class Missing(Exception):
    """A figure that was not measured."""


def judge(ratios, comparisons=1):
    """(estimate, low, high): but for CHANCE the true ratio is between low and high, and those of all `comparisons`
    are; 0 and infinity: too few rounds to tell."""
    words = [BUILD / "bench/verdict", str(comparisons), *(f"{ratio:.9f}" for ratio in ratios)]
    value, low, high = map(float, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    judged.append(comparisons)
    return (value, 0, math.inf) if math.isnan(low) else (value, low, high)


@dataclasses.dataclass
class Ratio:
    """One listener's part of another's, over the rounds."""

    figure: str
    value: float  # the estimate
    low: float
    high: float
    rounds: tuple = ()
    comparisons: int = 1  # whose intervals hold together

    @property
    def found(self):
        if self.low <= 1 <= self.high:
            return SAME
        return BETTER if (self.low > 1) == (FIGURES[self.figure] > 0) else WORSE

    @property
    def hidden(self):
        """The difference that there may be where none was found."""
        return max(self.high - 1, 1 - self.low)

    @classmethod
    def of(cls, figure, ratios, comparisons=1):
        return cls(figure, *judge(ratios, comparisons), ratios, comparisons)

    def to(self, other):
        """This ratio's part of another one's, round by round."""
        return Ratio.of(self.figure, [a / b for a, b in zip(self.rounds, other.rounds)], self.comparisons)

    def __str__(self):
        if math.isinf(self.high):
            return f"{self.value:.2f}~ (too few rounds)"
        return f"{self.value:.2f}{'~' if self.found == SAME else ''} ({self.low:.2f} to {self.high:.2f})"


def figure_of(visit, figure):
    generator = visit.get("generator", {})
    if figure == "requests_per_s":
        return generator.get("requests_per_s")
    if figure == "round_trip_p50_ns":
        return dict(generator.get("latency_ns", [])).get(0.5)
    by = visit["listener_count"] if figure == "cpu_ns_per_operation" else generator.get("requests")
    return visit["switches" if figure == "context_switches_per_request" else "cpu_ns"] / by if by else None


def day_of(visit):
    return visit["conditions"]["date"][:10]


class Rows:
    def __init__(self, nbbench, *paths):
        self.rows, self.visits, self.extra = {}, {}, {}
        self.days = set()  # of the rows that the claim was decided by
        self.comparisons = 1  # of the claim that is decided: their intervals hold together
        for path in paths:
            if path.exists():
                self.read(nbbench, path)

    def read(self, nbbench, path):
        document = json.loads(subprocess.run([nbbench, "show", path, "--json"],
                                             capture_output=True, text=True, check=True).stdout)
        for group in document["groups"]:
            for row in group["rows"]:
                self.rows[row["label"], row["listener"]] = row
        for line in path.read_text().splitlines():
            visit = json.loads(line)
            by_operation = self.visits.setdefault((visit["label"], visit["listener"]), {})
            by_operation.setdefault(visit["operation"], []).append(visit)

    def all_visits(self):
        return [visit for by_operation in self.visits.values() for visits in by_operation.values() for visit in visits]

    def visits_to(self, label, listener):
        """In the order of the rounds.  An operation's rows all have the cost of the whole visit."""
        by_operation = self.visits.get((label, listener))
        if not by_operation:
            raise Missing(f"'{label}' was not measured on {listener}")
        visits = max(by_operation.values(), key=len)
        self.days.update(map(day_of, visits))
        return visits

    def get(self, label, listener, figure):
        """The median of the visits."""
        self.visits_to(label, listener)
        found = self.rows[label, listener]["values"].get(figure, {}).get("median")
        if found is None:
            raise Missing(f"'{label}' on {listener} has no {figure}")
        return found

    def of_visits(self, label, listener, figure):
        visits = self.visits_to(label, listener)
        found = [figure_of(v, figure) for v in visits]
        if not all(found):
            raise Missing(f"'{label}' on {listener} has no {figure}")
        return found

    def ratio(self, label, listener, other, figure):
        """listener's part of other's."""
        return Ratio.of(figure, [a / b for a, b in zip(self.of_visits(label, listener, figure),
                                                       self.of_visits(label, other, figure))], self.comparisons)

    def decide(self, decide):
        """What a claim's function says.  It is asked twice: the first time counts its comparisons."""
        before, self.comparisons, self.days = len(judged), 1, set()
        try:
            decide(self)
        finally:  # what cannot be decided, as a row is missing, compares nothing
            self.comparisons = max(1, len(judged) - before)
            del judged[before:]
        return decide(self)
