"""`nbbench show` and `compare --html`: pages and pictures of measured rows, from outside."""

import json
import math
import random
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import NBBENCH, TIMEOUT, listener, requires

HTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["echo-epoll", "echo-uring"]


def nbctl(*arguments, **options):
    return subprocess.run([str(NBBENCH), *map(str, arguments)], capture_output=True, check=False, text=True,
                          timeout=TIMEOUT, **options)


def parse(text):
    """The page as XML, which it is, too; checked for what would ask anybody for anything."""
    page = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    for element in page.iter():
        name = element.tag.split("}")[1]
        assert name not in ("script", "link", "img", "iframe", "object", "image", "use"), name
        assert not [a for a in element.attrib if a in ("src", "href") or a.startswith("on")]
        assert not re.search(r"url\(|@import", element.text or "")
    return page


def text_of(element):
    return " ".join("".join(element.itertext()).split())


@pytest.fixture
def measured(start_daemon, tmp_path):
    """A page and the rows that it was made of."""
    config = listener(NAMES[0], engine="epoll") + listener(NAMES[1], engine="io_uring")
    daemon = start_daemon(config)
    rows, html = tmp_path / "rows.jsonl", tmp_path / "report.html"
    load = [requires("redis-benchmark"), "-p", "{port}", "-t", "set", "-n", "3000", "-c", "5"]
    done = nbctl("-s", daemon.control, "compare", "--save", rows, "--html", html, "--label", "it's <5>",
                 "--repeat", "6", *NAMES, "--", *load)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"CPU/req", done.stdout)  # the table is there as well
    return html.read_text(), rows


def test_a_page_tells_what_was_measured_and_how(measured):
    text, rows = measured
    page = parse(text)
    lead = next(p for p in page.iter(f"{HTML}p") if p.get("class") == "bold")
    assert re.match(r"io_uring makes \d.* % fewer system calls per request than epoll.$", text_of(lead))
    (forest,) = page.iter(f"{SVG}svg")
    drawn = [text_of(t) for t in forest.iter(f"{SVG}text") if t.get("class") in ("name", "strong", "dim middle")]
    assert drawn[-2:] == ["echo: it's <5>", NAMES[1]] and NAMES[0] in drawn[:-2]  # the first is the axis, and has no mark
    assert sum("interval" in line.get("class") for line in forest.iter(f"{SVG}line")) == 1
    assert any("band" in rect.get("class") for rect in forest.iter(f"{SVG}rect"))
    table = next(page.iter(f"{HTML}tbody"))
    assert [text_of(tr[0]) for tr in table] == NAMES
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    assert len(saved) == 12
    said = text_of(page)
    dates = sorted(row["conditions"]["date"] for row in saved)
    assert f"{dates[0]} to {dates[-1]}" in said
    for row in saved:
        conditions = row["conditions"]
        assert conditions["host"]["kernel"] in said
        assert " ".join(conditions["host"]["cpu_flags"].split()) in said
        assert " ".join(conditions["command_given"]) in said
        assert " ".join(conditions["command"]) not in said  # its port is gone with the daemon
        assert conditions["listener"]["engine"] == row["engine"]
        assert f"<dt>engine</dt>\n<dd><span>{row['engine']}</span>" in text
        assert re.fullmatch(r"[\d,-]+", conditions["listener_cpus"])
    assert "it's <5>" in said


def test_saved_rows_give_the_same_page_elsewhere(measured, tmp_path):
    """Without the daemon, and with the rows' data about their host, not this one."""
    text, rows = measured
    nowhere = tmp_path / "no.sock"
    assert nbctl("-s", nowhere, "show", "--html", "-", rows).stdout == text
    with rows.open() as file:
        assert nbctl("-s", nowhere, "show", "--html", "-", "-", stdin=file).stdout == text
    moved = rows.read_text().replace('"kernel":"Linux', '"kernel":"Elsewhere')
    rows.write_text(moved)
    elsewhere = nbctl("show", "--html", "-", rows).stdout
    assert "<span>Elsewhere" in elsewhere and "<span>Linux" not in elsewhere
    loaded = tmp_path / "loaded.html"
    loaded.write_text("earlier, and longer" * 100000)
    assert nbctl("show", rows, "--html", loaded).returncode == 0
    assert loaded.read_text() == elsewhere


def test_the_picture_alone(measured):
    _, rows = measured
    done = nbctl("show", "--svg", "-", rows)
    picture = ElementTree.fromstring(done.stdout)
    assert picture.tag == f"{SVG}svg"
    assert set(NAMES) <= {text_of(t) for t in picture.iter(f"{SVG}text")}


def test_a_page_that_cannot_be_written_runs_nothing(measured, tmp_path):
    _, rows = measured
    done = nbctl("show", rows, "--html", tmp_path / "no/where.html")
    assert done.returncode == 2 and "No such file or directory" in done.stderr
    done = nbctl("show", rows, "--html", "/dev/full")
    assert done.returncode == 2 and "/dev/full: No space left on device" in done.stderr


def test_nothing_and_no_rows(tmp_path):
    rows = tmp_path / "rows"
    rows.write_text("")
    assert "No operations" in text_of(parse(nbctl("show", "--html", "-", rows).stdout))
    ElementTree.fromstring(nbctl("show", "--svg", "-", rows).stdout)
    rows.write_text('{"listener": "x"}\n')
    done = nbctl("show", "--html", "-", rows)
    assert done.returncode == 2 and f"{rows}:1: expected a row" in done.stderr
    assert done.stdout == ""
    assert nbctl("show", "--html", "-", "/nonexistent").returncode == 2
    assert "expected: nbbench show FILE" in nbctl("show").stderr


def test_texts_in_the_rows_are_escaped(tmp_path):
    evil = '</td></style><script>alert("1")</script>\u0000\u001b]]>&amp;\u202e\ufffe'
    rows = tmp_path / "rows"
    with rows.open("w") as out:
        for name in (evil.replace("\0", ""), "other"):
            conditions = {"host": {"kernel": evil, "mitigations": {evil: evil}}, "date": evil,
                          "listener": {evil: [evil]}, "exports": {evil: {evil: evil}},
                          "command": [evil], "listener_cpus": evil, "nbserved": evil}  # fmt: skip
            row = {"listener": name, "label": evil, "engine": evil, "service": evil, "operation": evil,
                   "features": [evil], "stores": [evil], "generator": {"name": evil, "wall_ns": 1},
                   "count": 5, "listener_count": 5, "cpu_ns": 9, "conditions": conditions}  # fmt: skip
            text = json.dumps(row).replace("\\u0000", "")
            out.write(text + "\n")
    done = nbctl("show", "--html", "-", rows)
    assert done.returncode == 0, done.stderr
    page = parse(done.stdout)
    assert '</td></style><script>alert("1")</script>' in text_of(page)
    ElementTree.fromstring(nbctl("show", "--svg", "-", rows).stdout)


def as_runs(saved, path, factor, kernel):
    """The saved row, as of five runs, with `factor` of its CPU time, on another kernel."""
    host = {**saved["conditions"]["host"], "kernel": kernel}
    with path.open("w") as out:
        for run in range(5):
            row = {**saved, "cpu_ns": int(saved["cpu_ns"] * factor * (1 + run / 1000))}
            row["conditions"] = {**saved["conditions"], "host": host}
            print(json.dumps({**row, "visit": {**saved["visit"], "run": f"{kernel} {run}"}}), file=out)
    return path


def test_then_and_now_on_the_page(measured, tmp_path):
    """Each saved row then and now, drawn and judged, and what changed between; the exit status tells, too."""
    saved = json.loads(measured[1].read_text().splitlines()[0])
    old = as_runs(saved, tmp_path / "old", 1, "Linux <1>")
    for factor, status, said in ((0.5, 0, "% less"), (1.5, 5, "% more")):
        new = as_runs(saved, tmp_path / "new", factor, "Linux 2")
        done = nbctl("show", "--html", "-", "--against", old, new)
        assert done.returncode == status and "Changed: kernel: Linux <1> -> Linux 2" in done.stderr
        page = parse(done.stdout)
        section = next(s for s in page.iter(f"{HTML}section") if text_of(s[0]) == "Then and now")
        assert said in text_of(next(section.iter(f"{HTML}tbody")))
        assert said in text_of(next(section.iter(f"{SVG}svg")))
        assert "Changed: kernel: Linux <1> -> Linux 2" in [text_of(p) for p in section.iter(f"{HTML}p")]
        picture = nbctl("show", "--svg", "-", "--against", old, new)
        assert picture.returncode == status and said in text_of(ElementTree.fromstring(picture.stdout))
    page = tmp_path / "page.html"
    done = nbctl("show", new, "--against", old, "--html", page)
    assert done.returncode == 5 and "Then and now" in page.read_text()
    done = nbctl("show", "--html", "-", "--against", tmp_path / "none", new)
    assert done.returncode == 2 and "none: No such file" in done.stderr and not done.stdout
    done = nbctl("show", "--html", "-", "--force", new)
    assert done.returncode == 2 and "--force is about --against" in done.stderr


# ---- One answer in the table, the sentences, the page and JSON ----

FAMILIES = ("calls", "switches", "instructions", "cost")
LOADS = ("one", "two")
ROUNDS = 14


def noisy_rows(path, chance):
    """Rounds of three listeners under two loads, which differ by chance in what they cost, and so do their visits."""
    noise = chance.choice([0.01, 0.1, 0.3])
    with path.open("w") as out:
        for load in LOADS:
            for name in ("echo-epoll", "echo-uring", "echo-sqpoll"):
                factor = {family: chance.choice([1, 1, 1.05, 0.9, 0.2, 4]) for family in FAMILIES}
                for round_ in range(1, ROUNDS + 1):
                    value = {family: factor[family] * math.exp(chance.gauss(0, noise)) for family in FAMILIES}
                    print(json.dumps({
                        "label": load, "listener": name, "engine": name.split("-")[1], "service": "echo", "operation": "echo",
                        "schema": 2, "features": [], "stores": [], "interval_ns": 10**8, "count": 10**5, "listener_count": 10**5,
                        "workers": 1, "bytes_in": 10**7, "bytes_out": 10**7, "cpu_ns": int(5e7 * value["cost"]), "turns": 10**4,
                        "syscalls": int(2e5 * value["calls"]), "switches": int(3e4 * value["switches"]),
                        "instructions": int(1e9 * value["instructions"]), "cycles": 10**9,
                        "latency_ns": {"count": 0, "sum": 0, "min": 0, "max": 0, "buckets": []},
                        "generator": {"name": "redis-benchmark", "wall_ns": 10**8, "requests": 1e5},
                        "visit": {"run": "r", "setup": name, "build": "b", "round": round_, "position": 1},
                    }), file=out)  # fmt: skip


def decided(result):
    """{(title, listener, family): verdict} of what the table decides to be less or more."""
    return {(group["title"], row["listener"], family): row["verdicts"][family]
            for group in result["groups"] for row in group["rows"][1:] for family in FAMILIES
            if row["verdicts"].get(family, {}).get("is") in ("less", "more")}  # fmt: skip


def size(verdict):
    return abs(math.log1p(verdict["change"]))


def check_findings(result):
    """Each is a verdict of the table; families in their order, larger ones first, and none that is left out is larger."""
    verdicts, sizes = decided(result), []
    for finding in result["findings"]:
        verdict = verdicts[finding["group"], finding["listener"], finding["what"]]
        assert finding["is"] == verdict["is"] and finding["low"] <= verdict["low"] <= verdict["high"] <= finding["high"]
        sizes.append((FAMILIES.index(finding["what"]), -size(verdict)))
    assert sizes == sorted(sizes) and len(sizes) <= 3
    said = {(finding["listener"], finding["what"], finding["is"]) for finding in result["findings"]}
    kinds = {(name, family, verdict["is"]) for (_, name, family), verdict in verdicts.items()}
    assert len(said) == min(3, len(kinds))
    for (_, name, family), verdict in verdicts.items():
        same = [-least for index, least in sizes if index == FAMILIES.index(family)]
        assert (name, family, verdict["is"]) in said or not same or size(verdict) <= min(same)


def check_open(result):
    rows = [row for group in result["groups"] for row in group["rows"][1:]]
    for family in FAMILIES:
        all_ = [row["verdicts"][family]["is"] for row in rows]
        assert result["open"][family] == {"open": all_.count("undecided"), "all": len(all_)}
    assert bool(result["open"]["count"]) == ("Not decided" in (result["open"]["text"] or ""))


def check_texts(result, texts):
    """The same sentences, and the verdict of each row, in the table and on the page."""
    for group in result["groups"]:
        for row in group["rows"][1:]:
            verdict = row["verdicts"]["cost"]["is"]
            assert re.search({"undecided": "undecided, ", "same": "the same within"}.get(verdict, rf"\d % {verdict}"),
                             texts["table"].split(group["title"], 1)[1].split(row["listener"], 1)[1].split("echo-")[0])  # fmt: skip
    for text in [finding["text"] for finding in result["findings"]] + [result["open"]["text"] or ""]:
        assert all(text in there for there in texts.values()), text


@pytest.mark.parametrize("seed", range(12))
def test_table_sentences_page_and_json_are_one_answer(tmp_path, seed):
    rows, html = tmp_path / "rows.jsonl", tmp_path / "page.html"
    noisy_rows(rows, random.Random(seed))
    table = nbctl("show", rows, "--html", html)
    assert table.returncode == 0, table.stderr
    result = json.loads(nbctl("show", rows, "--json").stdout)
    assert [len(group["rows"]) for group in result["groups"]] == [3, 3]
    check_findings(result)
    check_open(result)
    check_texts(result, {"table": " ".join(table.stdout.split()), "page": text_of(parse(html.read_text()))})
