"""Exports from outside: opened when they should be, told truly, closed at the end."""

import errno
import json
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ENGINES, LATER, NBSERVED, failed_start, listener, wait_until
from seccomp import NR_FDATASYNC, deny

nbd = pytest.importorskip("nbd", reason="python3-libnbd is not installed (make deps)")


def export(name, store, **keys):
    lines = [f"[export {name}]", f"store = {store}"]
    lines += [f"{key.replace('_', '-')} = {value}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


RAM = export("ram", "memory", size="1M")
ZERO = export("zero", "null", size="1T", read_only="yes")


def connect(daemon, name, export_name=""):
    client = nbd.NBD()
    client.set_export_name(export_name)
    client.connect_tcp("127.0.0.1", str(daemon.port(name)))
    return client


def exports(daemon, *names):
    """The GetStats entries, by name."""
    return {e["name"]: e for e in daemon.call("GetStats", listeners=list(names))["exports"]}


def counts(operations):
    """The number of operations of each kind."""
    return {kind: o["count"] for kind, o in operations.items() if o["count"]}


@pytest.fixture
def daemon(start_daemon):
    """Both exports on two listeners, and one that no listener serves."""
    config = listener("first", "nbd", exports="ram, zero")
    config += listener("second", "nbd", engine="io_uring", exports=["zero", "ram"])
    config += listener("echo")
    return start_daemon(config + RAM + ZERO + export("idle", "null", size=512))


# ---- Served ----


def test_the_first_export_is_the_default(daemon):
    for name, size in (("first", 1 << 20), ("second", 1 << 40)):
        client = connect(daemon, name)
        assert client.get_size() == size
        client.shutdown()


def test_listeners_share_the_bytes_of_an_export(daemon):
    writer, reader = connect(daemon, "first", "ram"), connect(daemon, "second", "ram")
    writer.pwrite(b"shared" * 100, 4096)
    assert reader.pread(600, 4096) == b"shared" * 100
    for client in (writer, reader):
        client.shutdown()


def test_exports_are_counted_for_each_listener(daemon):
    first, second = connect(daemon, "first", "ram"), connect(daemon, "second", "ram")
    for i in range(10):
        first.pwrite(bytes(1000), i * 1000)
    second.pread(5000, 0)
    second.flush()
    for client in (first, second):
        client.shutdown()
    ram = exports(daemon)["ram"]
    by_listener = {share["listener"]: share for share in ram["listeners"]}
    assert counts(by_listener["first"]["operations"]) == {"write": 10}
    assert counts(by_listener["second"]["operations"]) == {"read": 1, "flush": 1}
    assert counts(ram["operations"]) == {"write": 10, "read": 1, "flush": 1}
    for share, read, written in ((by_listener["first"], 0, 10000), (by_listener["second"], 5000, 0),
                                 (ram, 5000, 10000)):
        assert (share["bytes_read"], share["bytes_written"]) == (read, written)
        assert share["in_flight"] == 0 and not any(share["errors"].values())


def test_stats_of_a_listener_have_its_exports(start_daemon):
    config = listener("one", "nbd", exports="ram") + listener("two", "nbd", exports="zero, ram")
    daemon = start_daemon(config + listener("echo") + RAM + ZERO)
    assert list(exports(daemon)) == ["ram", "zero"]
    assert list(exports(daemon, "one")) == ["ram"]
    assert list(exports(daemon, "two")) == ["ram", "zero"]
    assert list(exports(daemon, "echo")) == []


# ---- States ----


def test_status_tells_what_each_export_is(daemon):
    found = daemon.call("GetStatus")["exports"]
    fields = ("name", "path", "state", "store", "size", "read_only")
    assert [tuple(e[field] for field in fields) for e in found] == [
        ("ram", "", "ok", "memory", 1 << 20, False),
        ("zero", "", "ok", "null", 1 << 40, True),
        ("idle", "", "unused", "null", 0, False),
    ]
    assert "export 'idle': no listener serves it" in daemon.log()


def test_an_export_that_cannot_be_opened_stops_the_start(start_daemon):
    config = listener("nbd", "nbd", exports="a, b, ram") + RAM
    for name in "ab":
        config += export(name, "memory", size="1048576T")  # more than addresses
    log = failed_start(start_daemon, config)
    for name in "ab":  # all that is wrong at once
        assert re.search(f"error: export '{name}' \\(/.*/nbserved.ini:", log)
    assert log.count("error: ") == 2, log  # ... once: not of the listener as well


def test_an_optional_listener_is_unavailable_without_its_export(start_daemon):
    config = listener("nbd", "nbd", exports="ram, huge", optional="yes")
    config += listener("other", "nbd", exports="ram") + RAM
    config += export("huge", "memory", size="1048576T")
    daemon = start_daemon(config)
    status = daemon.status("nbd")
    assert (status["state"], status["stores"]) == ("unavailable", [])
    assert status["reason"] == "export 'huge' is unavailable"
    huge = exports(daemon)["huge"]
    assert (huge["state"], huge["size"], huge["listeners"]) == ("unavailable", 0, [])
    assert huge["reason"].startswith("cannot map ")
    assert daemon.log().count("cannot map ") == 1
    assert daemon.nbctl("status").stdout.split().count("cannot") == 1
    assert [share["listener"] for share in exports(daemon)["ram"]["listeners"]] == ["other"]
    connect(daemon, "other").shutdown()


def test_exports_are_closed_when_the_daemon_ends(daemon):
    before = daemon.descriptors()
    client = connect(daemon, "first")
    client.shutdown()
    daemon.wait_closed("first")
    wait_until(lambda: daemon.descriptors() <= before, "descriptors are left")
    assert daemon.terminate() == 0


# ---- nbctl and the doctor ----


def test_nbctl_shows_exports_and_their_counts(daemon):
    client = connect(daemon, "first", "ram")
    client.pwrite(bytes(12345), 0)
    client.shutdown()
    rows = [line.split() for line in daemon.nbctl("exports").stdout.splitlines()]
    wanted = ["ram", "ok", "1M", "first", "memory", "0", "write", "1", "12.3", "kB"]
    assert wanted in [row[: len(wanted)] for row in rows]
    assert ["idle", "unused", "-"] in rows
    document = json.loads(daemon.nbctl("exports", "--json").stdout)
    assert [e["name"] for e in document["exports"]] == ["ram", "zero", "idle"]
    status = daemon.nbctl("status").stdout
    assert ["zero", "ok", "null", "1T"] in [line.split() for line in status.splitlines()]


def test_nbctl_says_when_there_are_none(start_daemon):
    daemon = start_daemon(listener("echo"))
    assert daemon.nbctl("exports").stdout == "No exports.\n"
    assert "export" not in daemon.nbctl("status").stdout


def test_openmetrics_has_the_exports(daemon):
    client = connect(daemon, "first", "ram")
    client.pwrite(bytes(1000), 0)
    client.shutdown()
    text = daemon.nbctl("stats", "--openmetrics").stdout
    labels = 'export="ram",listener="first",store="memory"'
    assert f"nbserved_export_written_bytes_total{{{labels}}} 1000\n" in text
    assert f'nbserved_export_operations_total{{{labels},operation="write"}} 1\n' in text
    assert 'nbserved_export_size_bytes{export="zero"} 1099511627776\n' in text


@pytest.mark.parametrize("engine", ENGINES)
def test_compare_names_the_store_with_the_engine(start_daemon, engine):
    daemon = start_daemon(listener("nbd", "nbd", engine=engine, exports="ram") + RAM)
    script = f"h.connect_tcp('127.0.0.1', '{daemon.port('nbd')}'); h.pread(512, 0); h.shutdown()"
    python = [sys.executable, "-c", f"import nbd; h = nbd.NBD(); {script}"]
    done = daemon.nbctl("compare", "--", *python)
    assert f"{engine}/memory" in done.stdout


def test_the_doctor_tells_what_exports_would_be(daemon):
    found = {e["name"]: e for e in daemon.call("Doctor")["exports"]}
    assert all(e["available"] for e in found.values())
    assert found["zero"]["features"] == ["read_only"]
    assert found["ram"]["size"] == 1 << 20
    assert re.search(r"^ok +export +zero +null: read_only$", daemon.nbctl("doctor").stdout, re.M)


# ---- Memory that no client has written to ----


def anonymous_mib(daemon):
    """Memory of the daemon's exports, and little else, MiB."""
    status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
    return int(re.search(r"^RssAnon:\s+(\d+) kB", status, re.M)[1]) / 1024


def test_reads_allocate_no_memory(start_daemon):
    """Nor do trims; a page is taken by the first write to it, and given back by a trim."""
    size, part = 64 << 20, 1 << 20
    daemon = start_daemon(listener("nbd", "nbd", exports="ram", buffers=64) + export("ram", "memory", size="64M"))
    client = nbd.NBD()
    client.connect_tcp("127.0.0.1", str(daemon.port("nbd")))

    def read_all():
        return b"".join(client.pread(part, at) for at in range(0, size, part))

    assert read_all() == bytes(size)
    fresh = anonymous_mib(daemon)
    client.trim(size, 0)
    for at in range(0, size // 2, part):
        client.pwrite(b"x" * part, at)
    assert fresh + 30 < anonymous_mib(daemon) < fresh + 34
    client.trim(size // 2 - 4097 + 100, 4097)  # it begins and ends within a page
    assert anonymous_mib(daemon) < fresh + 2
    assert read_all() == b"x" * 4097 + bytes(size - 4097)
    client.zero(size // 2 + 512, 1)
    assert read_all() == b"x" + bytes(size - 1)
    client.shutdown()


def test_the_doctor_fills_no_export(start_daemon, tmp_path):
    """A second copy of one that is filled would be as large as the first."""
    config = listener("nbd", "nbd", exports="disk")
    config += export("disk", "auto", size="64M", path=tmp_path / "disk", create="yes", fill="yes")
    daemon = start_daemon(config)

    def written():
        """Bytes of all write(2) and pwrite(2)."""
        return int(re.search(r"^wchar: (\d+)", pathlib.Path(f"/proc/{daemon.pid}/io").read_text(), re.M)[1])

    before = written()
    assert before >= 64 << 20
    found = daemon.call("Doctor")["exports"]
    assert [(e["name"], e["available"], e["size"]) for e in found] == [("disk", True, 64 << 20)]
    assert written() - before < 4 << 20


def file_stores():
    """The stores for files of this build, as its help for `store` lists them."""
    keys = subprocess.check_output([str(NBSERVED), "--dump-keys"], text=True)
    words = re.search(r"Cm store Pq listener\n.*?\\&export(?:,| or) (.*?);", keys, re.S)[1]
    return words.replace(" or ", ", ").split(", ")


@pytest.mark.parametrize("store", ["auto", *file_stores()])
def test_a_file_is_made_sparse_and_kept(start_daemon, tmp_path, store):
    path = tmp_path / "disk.img"
    config = listener("nbd", "nbd", exports="disk")
    config += export("disk", store, path=path, size="64M", create="yes")
    for expected in (bytes(4096), b"kept" * 1024):
        daemon = start_daemon(config)
        stat = path.stat()
        assert (stat.st_size, stat.st_mode & 0o777) == (64 << 20, 0o640)
        assert stat.st_blocks * 512 <= 1 << 20
        client = connect(daemon, "nbd", "disk")
        assert client.pread(4096, 1 << 20) == expected
        client.pwrite(b"kept" * 1024, 1 << 20)
        client.flush()
        client.shutdown()
        assert daemon.terminate() == 0
    with path.open("rb") as file:
        file.seek(1 << 20)
        assert file.read(4096) == b"kept" * 1024


def test_auto_is_the_best_that_the_host_can_run(start_daemon, tmp_path, no_io_uring):
    config = listener("nbd", "nbd", exports="disk", engine="auto")
    config += export("disk", "auto", path=tmp_path / "disk.img", size="1M", create="yes")
    for preexec, store in ((None, "io_uring"), (no_io_uring, "threads")):
        daemon = start_daemon(config, preexec=preexec)
        assert daemon.status("nbd")["stores"] == [store]
        assert exports(daemon)["disk"]["store"] == store
        client = connect(daemon, "nbd")
        client.pwrite(b"bytes", 0)
        assert client.pread(5, 0) == b"bytes"
        client.shutdown()
        daemon.terminate()


def test_a_store_that_the_host_lacks_is_said(start_daemon, tmp_path, no_io_uring):
    config = listener("lacks", "nbd", exports="disk", store="io_uring", optional="yes")
    config += listener("has", "nbd", exports="disk", store="threads")
    config += export("disk", "auto", path=tmp_path / "disk.img", size="1M", create="yes")
    daemon = start_daemon(config, preexec=no_io_uring)
    assert no_io_uring.fix in daemon.status("lacks")["reason"]
    assert daemon.status("has")["state"] == "serving"


def test_a_listener_reaches_a_file_in_its_own_way(start_daemon, tmp_path):
    config = export("disk", "auto", path=tmp_path / "disk.img", size="1M", create="yes")
    for store in file_stores():
        config += listener(f"nbd-{store}", "nbd", exports="disk", store=store)
    daemon = start_daemon(config)
    for i, store in enumerate(file_stores()):
        client = connect(daemon, f"nbd-{store}")
        assert client.pread(512, 0) == bytes(range(1, i + 1)) + bytes(512 - i)
        client.pwrite(bytes([i + 1]), i)
        client.shutdown()
        assert daemon.status(f"nbd-{store}")["stores"] == [store]
    shares = exports(daemon)["disk"]["listeners"]
    assert [share["store"] for share in shares] == file_stores()
    assert all(share["bytes_written"] == 1 for share in shares)


def refusal(start_daemon, status=LATER, **keys):
    """The message on an export that cannot be opened."""
    config = listener("nbd", "nbd", exports="x") + export("x", "auto", **keys)
    return re.search(r"error: export 'x' \(.*?:\d+\): (.*)", failed_start(start_daemon, config, status))[1]


def test_a_failed_flush_is_told(start_daemon, tmp_path):
    """The state, the log and nbctl; all that other listeners get of the export is errors, too."""
    config = listener("first", "nbd", exports="disk", store="threads")
    config += listener("second", "nbd", exports="disk", optional="yes")
    config += export("disk", "auto", path=tmp_path / "disk.img", size="1M", create="yes")
    daemon = start_daemon(config, preexec=deny(NR_FDATASYNC, errno.EIO))
    client, other = connect(daemon, "first"), connect(daemon, "second")
    client.pwrite(b"lost", 0)
    with pytest.raises(nbd.Error, match="EIO"):
        client.flush()
    assert exports(daemon)["disk"]["state"] == "failed"
    with pytest.raises(nbd.Error, match="EIO"):
        other.pread(512, 0)
    disk = exports(daemon)["disk"]
    assert disk["errors"]["EIO"] == 2 and disk["in_flight"] == 0
    assert disk["operations"]["flush"]["errors"] == disk["operations"]["read"]["errors"] == 1
    assert "a flush failed: Input/output error" in disk["reason"]
    assert disk["reason"] in daemon.nbctl("status").stdout.replace("\n  ", " ")
    wait_until(lambda: f"error: export 'disk': {disk['reason']}\n" in daemon.log(), "no log")
    for c in (client, other):
        c.shutdown()


def test_an_export_that_cannot_be_opened_says_the_cure(start_daemon, tmp_path):
    path = tmp_path / "x"
    missing = tmp_path / "missing" / "x"
    assert "make it, or set `create = yes`" in refusal(start_daemon, path=path)
    assert "make the folder" in refusal(start_daemon, path=missing, size=512, create="yes")
    assert not path.exists()
    path.write_bytes(bytes(1000))
    text = refusal(start_daemon, 1, path=path, size="1M")
    assert "has 1000 bytes" in text and "1048576" in text
    assert path.stat().st_size == 1000


def test_the_doctor_makes_no_file(start_daemon, tmp_path):
    path = tmp_path / "later"
    config = export("new", "auto", path=path, size="1M", create="yes")
    lost = tmp_path / "nowhere" / "x"
    config += export("lost", "auto", path=lost, size="1M", create="yes")
    daemon = start_daemon(listener("echo") + config)
    found = {e["name"]: e for e in daemon.call("Doctor")["exports"]}
    assert (found["new"]["available"], found["new"]["features"]) == (True, ["new"])
    assert (found["new"]["path"], found["new"]["size"]) == (str(path), 1 << 20)
    assert not found["lost"]["available"] and "No such file" in found["lost"]["reason"]
    assert not path.exists()
