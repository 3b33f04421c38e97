"""The rule that decides the published claims: the ratios of rounds, by their order alone."""

import math

from claims_rows import BETTER, SAME, WORSE, Ratio, bounds


def test_two_disturbed_rounds_of_nine_change_nothing():
    quiet = [0.80, 0.81, 0.82, 0.83, 0.84, 0.85, 0.86, 0.87, 0.88]
    assert bounds(quiet) == (0.81, 0.87)
    assert bounds([0.1, *quiet[1:8], 9.0]) == (0.81, 0.87)


def test_too_few_rounds_decide_nothing():
    assert bounds([0.5] * 5) == (0, math.inf)
    assert bounds([0.5, 0.6, 0.5, 0.7, 0.5, 0.6]) == (0.5, 0.7)  # by chance once in 32


def test_what_is_better_depends_on_the_figure():
    for figure, found in (("cpu_ns_per_request", BETTER), ("requests_per_s", WORSE)):
        assert Ratio(figure, 0.8, 0.7, 0.9).found == found
        same = Ratio(figure, 0.9, 0.7, 1.05)
        assert same.found == SAME and str(same) == "0.90~" and abs(same.hidden - 0.3) < 1e-9
