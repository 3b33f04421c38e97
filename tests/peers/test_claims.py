"""The rule that decides the published claims: the ratios of rounds, as `nbbench compare` judges them."""

import math

import claims
import claims_rows
import claims_scenes
import claims_table
import pytest
from claims_rows import BETTER, SAME, WORSE, Ratio, Rows, judge


def test_the_interval_holds_the_estimate():
    """Wilcoxon's of nine rounds: of the 45 means of two the 6th from each end, on the logarithms."""
    value, low, high = judge([0.80, 0.81, 0.82, 0.83, 0.84, 0.85, 0.86, 0.87, 0.88])
    assert math.isclose(value, 0.84, rel_tol=1e-3)
    assert math.isclose(low, math.sqrt(0.81 * 0.82), rel_tol=1e-4)
    assert math.isclose(high, math.sqrt(0.86 * 0.87), rel_tol=1e-3)


def test_more_comparisons_need_more():
    ratios = [0.80 + 0.01 * i for i in range(9)]
    assert judge(ratios, 6)[1] < judge(ratios)[1] and judge(ratios, 6)[2] > judge(ratios)[2]


def test_too_few_rounds_decide_nothing():
    assert judge([0.5] * 5)[1:] == (0, math.inf)
    low, high = judge([0.5, 0.6, 0.5, 0.7, 0.5, 0.6])[1:]  # by chance once in 32
    assert math.isclose(low, 0.5) and math.isclose(high, 0.7)


def test_the_better_direction_depends_on_the_figure():
    for figure, found in (("cpu_ns_per_request", BETTER), ("requests_per_s", WORSE)):
        assert Ratio(figure, 0.8, 0.7, 0.9).found == found
        same = Ratio(figure, 0.9, 0.7, 1.05)
        assert same.found == SAME and str(same) == "0.90~ (0.70 to 1.05)" and abs(same.hidden - 0.3) < 1e-9


def test_the_intervals_of_a_claim_hold_together():
    """The more comparisons a claim makes, the wider is the interval of each."""
    rows = Rows("nbctl")
    for listener in ("a", "b"):
        rows.visits["load", listener] = {"echo": [
            {"cpu_ns": (800 + i if listener == "a" else 1000), "generator": {"requests": 1},
             "conditions": {"date": "2026-11-28"}} for i in range(9)]}

    def decide(rows):
        return [rows.ratio("load", "a", "b", "cpu_ns_per_request") for _ in range(3)]

    before = len(claims_rows.judged)
    assert {ratio.comparisons for ratio in rows.decide(decide)} == {3}
    assert claims_rows.judged[before:] == [3, 3, 3]
    assert rows.decide(lambda rows: decide(rows)[:1])[0].comparisons == 3  # made, whether used or not
    count = len(claims_rows.judged)
    with pytest.raises(claims_rows.Missing):
        rows.decide(lambda rows: decide(rows) + [rows.ratio("load", "a", "none", "cpu_ns_per_request")])
    assert len(claims_rows.judged) == count


def test_the_time_that_is_told_is_that_of_the_loads_measured():
    assert claims.load_time(45, 60) == 45 and claims.load_time(10, 4) == 150  # --only
    assert claims.load_time(0.1, 60) == 1
    assert claims.plan(4, 150).startswith("4 loads, each until it is known or for 150 s: 10 minutes, ")
    assert ": 1 minutes, " in claims.plan(60, 1)


def test_figures_that_were_not_measured_stay_in_the_page_with_their_conditions(tmp_path):
    page, head = tmp_path / "page.md", "\n| claim | source | measured by | | seen |\n|---|---|---|---|---|\n"
    page.write_text("before\n" + claims.MARKS[0] + "2026-11-24: c\n\n2026-11-25: b\n\n2026-11-26: a\n" + head
                    + "| same | s | VM | **holds** | 2.70 (2026-11-25) |\n"
                    + "| same | s | here | **holds** | 1.10 (2026-11-26) |\n"
                    + "| last | s | m | **holds** | 1.30 (2026-11-26) |\n"
                    + claims.MARKS[1] + "after\n")
    claims.update_page(page, [("same", "s", "VM", claims.UNMEASURED, "`make bench-vm` measures it"),
                              ("same", "s", "here", "does not hold", "0.90 x 2 (2026-11-28)"),
                              ("last", "s", "m", claims.UNMEASURED, "no rows"),
                              ("new", "s", "m", claims.UNMEASURED, "no rows")], "2026-11-28: now")
    assert page.read_text() == (
        "before\n" + claims.MARKS[0] + "2026-11-25: b\n\n2026-11-26: a\n\n2026-11-28: now.\n" + head
        + "| same | s | VM | **holds** | 2.70 (2026-11-25) |\n"
        + "| same | s | here | **does not hold** | 0.90 × 2 (2026-11-28) |\n"
        + "| last | s | m | **holds** | 1.30 (2026-11-26) |\n"
        + "| new | s | m | **not measured** | no rows |\n" + claims.MARKS[1] + "after\n")


def test_an_interval_that_holds_1_refutes_nothing():
    """Of 9 rounds within 4 %: neither a gain nor a loss is shown, however narrow the interval is."""
    close = [Ratio("cpu_ns_per_request", 1.0, 0.97, 1.04)] * 2
    better, worse = (Ratio("cpu_ns_per_request", x, x - 0.02, x + 0.02) for x in (0.9, 1.1))
    for wanted in (BETTER, WORSE):
        assert claims_table.decide_by(close, wanted)[0] == claims_table.OPEN
        assert claims_table.decide_by([*close, better], wanted)[0] == (
            claims_table.OPEN if wanted == BETTER else claims_table.FAILS)
    assert claims_table.decide_by(close, SAME)[0] == claims_table.HOLDS
    assert claims_table.decide_no_better([*close, worse])[0] == claims_table.HOLDS
    assert claims_table.decide_no_better([*close, better])[0] == claims_table.FAILS


def test_near_dpdk_is_at_most_twice_its_instructions_under_each_load():
    def decide(loaded):
        rows = Rows("nbctl")
        rows.extra["bypass"] = {name: {"1 in flight": [30000, 1500], "64 in flight": [20000, thread]} for name, thread in (
            ("nbserved, io_uring", loaded), ("DPDK", 1000), ("AF_XDP, zero-copy, bare", 4000))}
        return rows.decide(claims_table.near_dpdk)[0]

    assert [decide(thread) for thread in (2000, 2001)] == [claims_table.HOLDS, claims_table.FAILS]
    with pytest.raises(claims_rows.Missing):
        claims_table.near_dpdk(Rows("nbctl"))


def test_every_scene_has_the_listeners_of_its_loads():
    address = "10.0.0.1"
    scenes = [*claims_scenes.scenes(), claims_scenes.latency_scene(100), claims_scenes.sides_scene(address),
              claims_scenes.loss_scene({("rxe", 1): address})]
    for scene in scenes:
        served = {line[len("[listener "):-1] for line in scene.config.splitlines() if line.startswith("[listener ")}
        assert all(set(load.listeners) <= served for load in scene.loads), scene.name


def test_the_cost_of_a_call_stands_beside_rows_of_its_day_alone():
    newest = {"conditions": {"date": "2026-11-29T02:50:46Z", "host": {"mitigations": {"meltdown": "Mitigation: PTI"}}}}
    extra = {"call_ns": 1250.9, "call_day": "2026-11-29"}
    assert claims.call_cost(extra, newest) == ", a system call takes at most 1251 ns (Meltdown: Mitigation: PTI)"
    assert claims.call_cost({**extra, "call_day": "2026-11-26"}, newest) == ""
    assert claims.call_cost({}, newest) == "" and claims.call_cost(extra, None) == ""
