"""The rows that `nbctl compare` has saved, and what of them is beyond the noise."""

import json
import subprocess

BETTER, WORSE, SAME = "better", "worse", "same"
FIGURES = {"requests_per_s": 1, "cpu_ns_per_request": -1, "cpu_ns_per_operation": -1,
           "round_trip_p50_ns": -1, "p50_ns": -1, "cpu_share": -1}  # 1: more is better


class Missing(Exception):
    """A figure that was not measured."""


class Rows:
    def __init__(self, nbctl, path):
        self.rows = {}
        self.extra = {}
        if not path.exists():
            return
        document = json.loads(subprocess.run([nbctl, "compare", "--load", path, "--json"],
                                             capture_output=True, text=True, check=True).stdout)
        for row in document["rows"]:
            self.rows[row["label"], row["listener"]] = row

    def row(self, label, listener):
        if (label, listener) not in self.rows:
            raise Missing(f"'{label}' was not measured on {listener}")
        return self.rows[label, listener]

    def get(self, label, listener, figure):
        """The median of the visits."""
        row = self.row(label, listener)
        if figure == "round_trip_p50_ns":
            found = dict(row.get("generator", {}).get("latency_ns", [])).get(0.5)
        else:
            found = row["derived"].get(figure)
        if found is None:
            raise Missing(f"'{label}' on {listener} has no {figure}")
        return found

    def noise(self, label, figure):
        """The largest spread that one listener of the load has against itself."""
        spreads = [0]
        for (its_label, _), row in self.rows.items():
            low_high = row["derived"].get("spread", {}).get(figure)
            if its_label == label and low_high and row["derived"].get(figure):
                spreads.append((low_high[1] - low_high[0]) / row["derived"][figure])
        return max(spreads)

    def ratio(self, label, listener, other, figure):
        """listener's part of other's."""
        base = self.get(label, other, figure)
        if not base:
            raise Missing(f"'{label}' on {other}: {figure} is 0")
        return self.get(label, listener, figure) / base

    def judge(self, label, listener, other, figure):
        """Is listener better than other?  Beyond the noise, or SAME."""
        ratio = self.ratio(label, listener, other, figure)
        if abs(ratio - 1) <= self.noise(label, figure):
            return SAME
        return BETTER if (ratio > 1) == (FIGURES[figure] > 0) else WORSE

    def show(self, label, listener, other, figure):
        """`x 0.83 *`: the part, and `~` when that is within the noise."""
        same = self.judge(label, listener, other, figure) == SAME
        return f"{self.ratio(label, listener, other, figure):.2f}{'~' if same else ''}"
