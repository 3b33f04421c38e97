"""compare --sweep: rows for each value, their curves, and what is refused before anything runs."""

import json
import re

import pytest
from conftest import NBBENCH, listener, rows_of
from test_run import redis, run


def command(tmp_path, *words):
    """A generator that leaves a line for each visit."""
    return ["sh", "-c", f"echo >>{tmp_path}/visits; exec " + " ".join([*redis(), *words])]


def visits(tmp_path):
    path = tmp_path / "visits"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_sweep_of_the_command_and_of_a_key(tmp_path):
    """Rows of every combination, in the order given, in every form, and one curve for each delay."""
    rows, page = tmp_path / "rows", tmp_path / "page"
    done = run(tmp_path, "run", "echo,engine=epoll,batch-delay={d}", "echo,engine=epoll,batch-delay={d}",
               "--sweep", "c=1,3", "--sweep", "d=0,20us", "--label", "redis", "--repeat", 2, "--save", rows, "--html", page,
               "--json", "--", *redis(), "-c", "{c}")  # fmt: skip
    document = json.loads(done.stdout)
    labels = [f"redis, c={c}, d={d}" for c in (1, 3) for d in ("0", "20us")]
    assert sorted({row["label"] for row in rows_of(document)}) == sorted(labels)
    assert len(rows_of(document)) == 8
    for row in rows_of(document):
        values = row["conditions"]["sweep"]["values"]
        assert row["label"] == f"redis, c={values['c']}, d={values['d']}"
        assert row["conditions"]["listener"]["batch-delay"] == values["d"]
        assert row["conditions"]["command"][-2:] == ["-c", values["c"]]
        assert row["visits"] == 2 and row["generator"]["requests"] == 600
        if row["verdicts"]:
            assert row["verdicts"]["cost"]["is"] == "too_few_rounds"
    assert {group["comparisons"] for group in document["groups"]} == {4}
    assert [sweep["title"] for sweep in document["curves"]] == ["echo: redis, d=0", "echo: redis, d=20us"]
    for sweep in document["curves"]:
        assert sweep["name"] == "c" and sweep["values"] == ["1", "3"]
    assert "<h2>echo: redis, d=20us over c</h2>" in page.read_text()
    loaded = run(tmp_path, "show", rows, "--json", program=NBBENCH).stdout
    assert list(dict.fromkeys(row["label"] for row in rows_of(json.loads(loaded)))) == labels
    assert run(tmp_path, "show", "--html", "-", rows, program=NBBENCH).stdout.count("/s over c</h3>") == 2
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    for row in saved:  # samples of the first listener alone
        some = [[4991, 1000]] if row["listener"] == "echo-epoll" else []
        row["latency_ns"] = {"count": 1000 * len(some), "sum": 5000000 * len(some), "min": 4900, "max": 5000, "buckets": some}
    rows.write_text("".join(json.dumps(row) + "\n" for row in saved))
    figures = run(tmp_path, "show", "--html", "-", rows, program=NBBENCH).stdout.split("<figure>")
    legends = [re.findall('class="name".*?>(.*?)<', figure) for figure in figures if figure.startswith("<h3>p50 in")]
    assert legends and all(legend == ["echo-epoll"] for legend in legends)


def test_a_sweep_over_workers(tmp_path):
    """Each value has a daemon with that number of workers, and there is a curve over the values."""
    done = run(tmp_path, "run", "echo,engine=epoll,workers={w}", "--sweep", "w=1,2", "--repeat", 2, "--json", "--", *redis(), "-c", "8")
    document = json.loads(done.stdout)
    assert [(row["label"], row["workers"]) for row in rows_of(document)] == [("w=1", 1), ("w=2", 2)]
    assert [row["conditions"]["listener"]["workers"] for row in rows_of(document)] == ["1", "2"]
    (sweep,) = document["curves"]
    assert sweep["name"] == "w" and sweep["values"] == ["1", "2"]


def test_one_listener_has_curves_too(tmp_path):
    done = run(tmp_path, "run", "echo,engine=epoll", "--sweep", "c=1,2", "--json", "--", *redis(), "-c", "{c}")
    document = json.loads(done.stdout)
    assert [row["visits"] for row in rows_of(document)] == [6, 6]
    (sweep,) = document["curves"]
    assert sweep["text"] is None
    for row in rows_of(document):
        value = row["values"]["cpu_ns_per_request"]
        assert 0 < value["lower"] <= value["upper"] and value["median"] > 0


@pytest.mark.parametrize(
    "options, message",
    [
        (["--sweep", "c=1,2"], "--sweep c: neither COMMAND nor a SPEC has {c}"),
        (["--sweep", "d=1,2,1"], "--sweep d: 1 is there twice"),
        (["--sweep", "d=1", "--sweep", "d=2"], "--sweep d is given twice"),
        (["--sweep", "d="], "a value is empty"),
        (["--sweep", "port=1"], "{port} already stands for"),
        (["--sweep", "d=" + ",".join(map(str, range(1001)))], "more than 1000 values"),
        ([f"--sweep={name}={','.join(map(str, range(32)))}" for name in "cd"], "more than 1000 combinations"),
    ],
)
def test_wrong_sweeps(tmp_path, options, message):
    placeholders = ["{{c}}"] + ["{d}"] * any(option.startswith("d=") for option in options)
    done = run(tmp_path, "run", "echo,engine=epoll", *options, "--", *command(tmp_path, *placeholders), check=2)
    assert message in done.stderr and visits(tmp_path) == 0


def test_a_placeholder_without_a_sweep(tmp_path):
    done = run(tmp_path, "run", "echo", "--", *command(tmp_path, "-c", "{c}"), check=2)
    assert "COMMAND has {c}" in done.stderr and "--sweep" in done.stderr
    done = run(tmp_path, "run", "echo,batch-delay={d}", "--", *command(tmp_path), check=2)
    assert "a SPEC has {d}: --sweep gives it no values" in done.stderr
    assert visits(tmp_path) == 0


@pytest.mark.parametrize("key, values", [("batch-delay", "0,never"), ("batch-delay", "never,0"), ("engine", "epoll,epol")])
def test_a_value_that_no_listener_accepts_is_refused_before_anything_runs(tmp_path, key, values):
    done = run(tmp_path, "run", f"echo,{key}={{d}}", "--sweep", f"d={values}", "--", *command(tmp_path), check=1)
    assert f"{key}: expected" in done.stderr and visits(tmp_path) == 0


def test_a_running_daemon_is_swept_as_well(start_daemon, tmp_path):
    daemon = start_daemon(listener("echo"))
    done = run(tmp_path, "-s", daemon.control, "compare", "echo", "--sweep", "c=1,2", "--repeat", 1, "--json", "--",
               *command(tmp_path, "-c", "{c}"), program=NBBENCH)  # fmt: skip
    assert [row["label"] for row in rows_of(json.loads(done.stdout))] == ["c=1", "c=2"]
    done = run(tmp_path, "-s", daemon.control, "compare", "echo", "--sweep", "c=1,2", "--", "true", "{c}", check=2,
               program=NBBENCH)  # fmt: skip
    assert "COMMAND needs {port}, {host}, {uri} or {listener}" in done.stderr
