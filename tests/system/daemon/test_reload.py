"""Reload is a transaction: all of the changed configuration or nothing, and listeners that it does not change
serve without a disturbance."""

import os
import re
import signal
import socket
import threading

import pytest
from conftest import listener, wait_until
from traffic import Busy, Knocking, echo, refuses, visit


def reload(daemon, *arguments, config=None, status=0):
    """nbctl reload; its output."""
    if config is not None:
        daemon.write_config(config)
    result = daemon.nbctl("reload", *arguments, check=False)
    assert result.returncode == status, result.stdout + daemon.log()
    return result.stdout


def is_closed(s):
    try:
        return s.recv(1) == b""
    except ConnectionResetError:
        return True


def generation(daemon):
    return daemon.call("GetStatus")["generation"]


def last(daemon):
    return daemon.call("GetStatus")["reload"]


def tasks(daemon):
    """TIDs, but of the kernel's threads, which come and go."""
    return {tid for tid, name in daemon.threads().items() if not name.startswith("iou-wrk-")}


def no_thread_has_come(daemon, threads):
    wait_until(lambda: tasks(daemon) <= threads, "no other thread is there")


def wait_left(daemon):
    wait_until(lambda: not daemon.call("GetStatus")["leaving"], "old listeners do not drain")


def test_no_change(start_daemon, engine):
    """Nothing changes: the same generation, threads, connections and counters."""
    daemon = start_daemon(listener("a", engine=engine) + listener("b", "discard", engine))
    with daemon.connect("a") as s:
        echo(s)
        before, threads, port = daemon.stats("a"), tasks(daemon), daemon.port("a")
        assert reload(daemon) == "no change\ngeneration 1\n"
        echo(s, b"hello")
        after = daemon.stats("a")
        no_thread_has_come(daemon, threads)
        assert daemon.port("a") == port
        assert after["connections"] == before["connections"]
        assert after["bytes_in"] == before["bytes_in"] + 5
    assert last(daemon)["ok"] and last(daemon)["generation"] == 1
    assert "last reload: " in daemon.nbctl("status").stdout


def test_wrong_file(start_daemon):
    """Every error with its place; the old configuration serves on."""
    daemon = start_daemon(listener("a"))
    with daemon.connect("a") as s:
        wrong = listener("a", wrokers=2) + listener("b", "eko", buffers="many")
        text = reload(daemon, config=wrong, status=1)
        for part in ["wrokers", "[listener b] service", "[listener b] buffers", "nbserved.ini:6: ", "nbserved.ini:11: "]:
            assert part in text
        echo(s)
    with daemon.connect("a") as s:
        echo(s)
    assert generation(daemon) == 1
    assert not last(daemon)["ok"] and len(last(daemon)["errors"]) == 3
    assert last(daemon)["state"] == "refused"
    assert re.search(r"last reload: \S+, refused:\n", daemon.nbctl("status").stdout)
    daemon.config_path.unlink()
    assert "nbserved.ini: No such file" in reload(daemon, status=1)
    assert reload(daemon, config=listener("a")) == "no change\ngeneration 1\n"
    assert last(daemon)["ok"]


def test_quiet_leaves_it_to_the_log(start_daemon):
    """As the unit's ExecReload does: the daemon's log has the lines that nbctl would print."""
    daemon = start_daemon(listener("a"))
    assert reload(daemon, "--quiet", config=listener("a") + listener("b")) == ""
    assert "[listener b]: added" in daemon.log()
    assert reload(daemon, "--quiet", config=listener("a", servic="echo"), status=1) == ""
    assert daemon.log().count("expected a key of [listener NAME], got 'servic'") == 1
    assert reload(daemon, "--quiet", config="[server]\ncontrol-group = x\n" + listener("a"), status=4) == ""
    path = str(daemon.directory / "gone.sock")
    done = daemon.nbctl("-s", path, "reload", "--quiet", check=False)
    assert done.returncode == 3 and path in done.stdout  # only nbctl can report this


def test_port_in_use(start_daemon, engine):
    """A failed reload undoes its preparations: sockets, threads; the changed listener keeps its old workers."""
    daemon = start_daemon(listener("a", engine=engine) + listener("b", engine=engine))
    first = daemon.port("a")
    with socket.create_server(("127.0.0.1", 0)) as other, daemon.connect("a") as s:
        echo(s)
        threads, descriptors = tasks(daemon), daemon.descriptors()
        taken = other.getsockname()[1]
        config = (listener("a", engine=engine, buffers=64) + listener("new", engine=engine)
                  + listener("b", engine=engine, address=f"127.0.0.1:{taken}"))
        text = reload(daemon, config=config, status=1)
        assert f"[listener b]: bind 127.0.0.1:{taken}: Address already in use" in text
        assert "nothing was changed" in text
        echo(s)
        no_thread_has_come(daemon, threads)
        wait_until(lambda: daemon.descriptors() <= descriptors, "descriptors are left")
        assert generation(daemon) == 1 and daemon.port("a") == first
        for name in ["a", "b"]:
            with daemon.connect(name) as t:
                echo(t)


def test_restart_class(start_daemon):
    """Nothing is applied, not even what could be; exit status 4."""
    daemon = start_daemon(listener("a"))
    daemon.write_config("[server]\ncontrol-group = nobody\n" + listener("a", idle_timeout="1s"))
    for arguments in [["--dry-run"], []]:
        text = reload(daemon, *arguments, status=4)
        assert "[server] control-group: nbserved -> nobody (restart)" in text
        assert "idle-timeout" not in text
    assert generation(daemon) == 1
    assert daemon.call("GetConfig")["listeners"][0]["keys"]["idle-timeout"]["value"] == "0"


def test_live_keys(start_daemon, engine):
    """They change under a connection that stays; the threads are the same."""
    daemon = start_daemon(listener("a", engine=engine))
    threads = tasks(daemon)
    with daemon.connect("a") as s:
        echo(s)
        text = reload(daemon, config=listener("a", engine=engine, max_connections=1))
        assert "[listener a] max-connections: 10000 -> 1 (live)" in text
        with daemon.connect("a") as refused:
            assert is_closed(refused)
        reload(daemon, config=listener("a", engine=engine, allow="10.0.0.0/8"))
        with daemon.connect("a") as denied:
            assert is_closed(denied)
        echo(s)
        assert daemon.stats("a")["connections"]["refused"] == {"limit": 1, "denied": 1}
        reload(daemon, config="[server]\nlog-level = debug\n" + listener("a", engine=engine))
        no_thread_has_come(daemon, threads)
        echo(s)
        reload(daemon, config=listener("a", engine=engine, idle_timeout="100ms"))
        assert is_closed(s)
    wait_until(lambda: daemon.stats("a")["connections"]["closed"]["idle"] == 1, "not counted")
    no_thread_has_come(daemon, threads)


def test_replaced_listener(start_daemon, engine):
    """The address stays, old connections finish on the old workers, new ones have the new keys."""
    daemon = start_daemon(listener("a", engine=engine) + listener("b", engine=engine))
    port = daemon.port("a")
    with daemon.connect("a") as s, daemon.connect("b") as t:
        echo(t)
        b = daemon.stats("b")
        config = listener("a", engine=engine, workers=2) + listener("b", engine=engine)
        with Busy(s) as busy:
            busy.goes_on()
            text = reload(daemon, config=config)
            assert "[listener a] workers: 1 -> 2 (listener)" in text
            busy.goes_on()
            assert daemon.port("a") == port and daemon.status("a")["workers"] == 2
            assert [old["name"] for old in daemon.call("GetStatus")["leaving"]] == ["a"]
            assert "replaced or removed" in daemon.nbctl("status").stdout
            with daemon.connect("a") as new:
                echo(new)
            busy.goes_on()
        assert is_closed(s)  # it has been silent
        echo(t)
        assert daemon.stats("b")["connections"] == b["connections"]
    wait_left(daemon)


@pytest.mark.parametrize("workers", [(1, 3), (3, 1)])
def test_replaced_under_load(start_daemon, engine, workers):
    """No connection attempt is refused or reset while listeners are replaced again and again."""
    configs = ["[server]\ndrain-timeout = 20s\n" + listener("a", engine=engine, workers=n, buffers=64)
               for n in workers]
    daemon = start_daemon(configs[0])
    address, done, failures, counts = daemon.addresses("a")[0], threading.Event(), [], [0] * 4

    def connect(index):
        while not done.is_set():
            try:
                visit(address)
                counts[index] += 1
            except (OSError, AssertionError) as error:
                failures.append(repr(error))

    threads = [threading.Thread(target=connect, args=(i,)) for i in range(len(counts))]
    for thread in threads:
        thread.start()
    try:
        for i in range(10):
            before = sum(counts)
            reload(daemon, config=configs[(i + 1) % 2])
            daemon.notified()
            wait_until(lambda: sum(counts) > before + 50 or failures, "no connections are made")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert daemon.addresses("a") == [address]
    wait_left(daemon)


def test_queued_connections(start_daemon, engine):
    """Connections in the queue of a listener that is replaced are served by the new one."""
    daemon = start_daemon(listener("a", engine=engine, workers=3))
    clients = [daemon.connect("a") for _ in range(30)]
    reload(daemon, config=listener("a", engine=engine, workers=1))
    for s in clients:
        echo(s)
        s.close()
    wait_left(daemon)


def test_address_moves(start_daemon, engine, loopback_ports):
    """An address goes to another listener, a name to another address, any to one of this host."""
    host, port = loopback_ports
    first, second = f"{host}:{port}", f"{host}:{port + 1}"
    daemon = start_daemon(listener("a", engine=engine, address=first)
                          + listener("b", "discard", engine, address=second))
    reload(daemon, config=listener("b", "discard", engine, address=first)
           + listener("c", engine=engine, address=second))
    with socket.create_connection((host, port + 1)) as s:
        echo(s)
    with socket.create_connection((host, port)) as s:
        s.sendall(b"x")
        wait_until(lambda: daemon.stats("b")["bytes_in"] == 1, "it does not discard")
    wait_left(daemon)
    for address in [f"0.0.0.0:{port + 1}", second]:
        reload(daemon, config=listener("c", engine=engine, address=address))
        with socket.create_connection((host, port + 1)) as s:
            echo(s)
        wait_left(daemon)
    assert refuses((host, port))


def test_a_named_port_goes_to_the_listener_that_names_it(start_daemon, engine):
    """Not the listener that had it for its port 0, whichever comes first in the file."""
    daemon = start_daemon(listener("a", engine=engine))
    port = daemon.port("a")
    named = listener("b", engine=engine, address=f"127.0.0.1:{port}")
    reload(daemon, config=listener("a", engine=engine, buffers=64) + named)
    assert daemon.port("b") == port != daemon.port("a")
    for name in "ab":
        with daemon.connect(name) as s:
            echo(s)


@pytest.mark.parametrize("workers", [(1, 2), (2, 1)])
def test_unix_address(start_daemon, engine, workers):
    """The file of a replaced listener stays, and goes with the listener that is removed."""
    daemon = start_daemon(listener("keep", engine=engine))
    path = str(daemon.directory / "a.sock")
    for n in workers:
        config = listener("a", engine=engine, address=f"unix:{path}", workers=n)
        reload(daemon, config=config)
        inode = os.stat(path).st_ino
        for i in range(3):
            reload(daemon, config=config + f"buffers = {2 ** (i + 6)}\n")
            assert os.stat(path).st_ino == inode
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                echo(s)
            daemon.notified()
    reload(daemon, config=listener("keep", engine=engine))
    assert not os.path.exists(path)
    wait_left(daemon)


def test_drain_timeout(start_daemon):
    """A client that is never silent is cut off when the new drain-timeout has passed."""
    daemon = start_daemon("[server]\ndrain-timeout = 1h\n" + listener("a", "chargen"))
    with daemon.connect("a") as s:
        reload(daemon, config="[server]\ndrain-timeout = 200ms\n" + listener("b"))
        while True:
            try:
                if not s.recv(65536):
                    break
            except ConnectionResetError:
                break
    wait_left(daemon)


def resume(daemon, *arguments, status=0):
    result = daemon.nbctl("resume", *arguments, check=False)
    assert result.returncode == status, result.stdout + daemon.log()
    return result.stdout


def test_resume(start_daemon, engine, loopback_ports):
    """A drained listener accepts again, on its address; nothing else changes."""
    host, port = loopback_ports
    here = {"engine": engine, "address": f"{host}:{port}"}
    daemon = start_daemon(listener("a", **here) + listener("b", engine=engine))
    assert resume(daemon, "a") == resume(daemon, "--all") == "Nothing to resume.\n"
    with daemon.connect("b") as b:
        with daemon.connect("a") as a:
            echo(a)
        echo(b)
        before = daemon.stats("b")["connections"]
        daemon.notified()
        daemon.nbctl("drain", "a")
        wait_until(lambda: daemon.status("a")["state"] == "drained", "it does not drain")
        assert refuses((host, port))
        assert "STATUS=Serving 1 listener, 1 drained, generation 1" in daemon.notified()[-1]
        assert resume(daemon, "a") == "Serving again: a\n"
        assert daemon.notified()[-1] == "STATUS=Serving 2 listeners, generation 1"
        with socket.create_connection((host, port), timeout=10) as a:
            echo(a)
        echo(b)
        assert daemon.stats("b")["connections"] == before
    assert generation(daemon) == 1 and last(daemon)["state"] == "none"
    assert daemon.stats("a")["connections"]["accepted"] == 1
    daemon.nbctl("drain", "--all")
    assert resume(daemon, "--all") == "Serving again: a, b\n"
    for name in ["a", "b"]:
        with daemon.connect(name) as s:
            echo(s)


def test_resume_refused(start_daemon, engine, loopback_ports):
    """The error says the reason, and everything stays as it was."""
    host, port = loopback_ports
    far = listener("far", address="192.0.2.1:7008", optional="yes")
    daemon = start_daemon(listener("a", engine=engine, address=f"{host}:{port}") + far)
    daemon.nbctl("drain", "a")
    wait_until(lambda: daemon.status("a")["state"] == "drained", "it does not drain")
    with socket.create_server((host, port)):
        for which in "a", "--all":
            text = resume(daemon, which, status=1)
            assert "[listener a]: " in text and "nothing was changed" in text
    assert daemon.status("a")["state"] == "drained"
    assert "192.0.2.1" in resume(daemon, "far", status=1)
    assert resume(daemon, "--all") == "Serving again: a\n"
    assert daemon.status("far")["state"] == "unavailable"
    with daemon.connect("a") as s:
        echo(s)


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_a_refused_resume_lets_nobody_in(start_daemon, engine, family, loopback_ports, tmp_path):
    """Nor does a refused reload that brings a listener: its clients would be reset."""
    host, port = loopback_ports
    place = str(tmp_path / "s") if family == "unix" else (host, port)
    a = listener("a", engine=engine, address=f"unix:{place}" if family == "unix" else f"{host}:{port}")
    b = listener("b", address=f"{host}:{port + 1}")
    daemon = start_daemon(a + b)
    for name in "a", "b":
        daemon.nbctl("drain", name)
        wait_until(lambda name=name: daemon.status(name)["state"] == "drained", "it does not drain")
    with socket.create_server((host, port + 1)):
        with Knocking(place) as knocking:
            resume(daemon, "--all", status=1)
        assert knocking.refused and not knocking.let_in
        reload(daemon, config=listener("c"))
        with Knocking(place) as knocking:
            reload(daemon, config=a + b, status=1)
        assert knocking.refused and not knocking.let_in


def test_dry_run(start_daemon):
    daemon = start_daemon(listener("a"))
    threads = tasks(daemon)
    text = reload(daemon, "--dry-run", config=listener("a", workers=2, idle_timeout="5s"))
    assert "workers: 1 -> 2 (listener)" in text and "idle-timeout: 0 -> 5s (live)" in text
    assert "still generation 1" in text
    no_thread_has_come(daemon, threads)
    assert last(daemon)["time"] == ""
    assert daemon.status("a")["workers"] == 1
    assert "wrokers" in reload(daemon, "--dry-run", config=listener("a", wrokers=2), status=1)


def test_hangup(start_daemon):
    """SIGHUP reloads, logs what it did, and tells the service manager."""
    daemon = start_daemon(listener("a"))
    daemon.notified()
    daemon.write_config(listener("a", workers=2))
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: generation(daemon) == 2, "it does not reload")
    assert "workers: 1 -> 2 (listener)" in daemon.log()
    begin, end = daemon.notified()
    assert "RELOADING=1\nMONOTONIC_USEC=" in begin
    assert "READY=1" in end and "generation 2" in end
    daemon.write_config(listener("a", wrokers=2))
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not last(daemon)["ok"], "it does not say that it failed")
    assert "wrokers" in daemon.log() and generation(daemon) == 2
    assert "the last reload was refused" in daemon.notified()[-1]


def test_exports(start_daemon, engine, tmp_path):
    """An export that changes takes the listeners that serve it with it, and no others."""
    daemon = start_daemon(listener("a", engine=engine))
    path = tmp_path / "disk"
    path.write_bytes(bytes(1 << 20))

    def config(size, read_only="no"):
        return (listener("a", engine=engine) + listener("n", "nbd", engine, exports="d")
                + listener("m", "nbd", engine, exports="e")
                + f"[export d]\npath = {path}\nsize = {size}\nread-only = {read_only}\n"
                + "[export e]\nstore = null\nsize = 1M\n")

    def export():
        return daemon.call("GetStatus")["exports"][0]

    assert "[export d]: added (export)" in reload(daemon, config=config("1M"))
    threads, port = tasks(daemon), daemon.port("n")
    assert export()["size"] == 1 << 20 and export()["state"] == "ok"
    with daemon.connect("m") as s:
        assert s.recv(8) == b"NBDMAGIC"
        os.truncate(path, 1 << 19)
        text = reload(daemon, config=config("512K", "yes"))
        assert "[export d] size: 1M -> 512K (export)" in text
        assert "[export d] read-only: no -> yes (export)" in text
        assert export()["size"] == 1 << 19 and export()["read_only"]
        assert daemon.stats("m")["connections"]["open"] == 1
    assert daemon.port("n") == port and threads & tasks(daemon)
    wait_left(daemon)
    text = reload(daemon, config=config("512K").replace(str(path), str(path) + "-absent"), status=1)
    assert text.count("-absent: No such file") == 1 and "[listener" not in text, text
    assert export()["size"] == 1 << 19
    wrong = config("512K").replace(str(path), "/absent/1").replace("store = null", "path = /absent/2")
    text = reload(daemon, config=wrong, status=1)
    assert "[export d]: open /absent/1" in text and "[export e]: open /absent/2" in text
    assert [e["state"] for e in daemon.call("GetStatus")["exports"]] == ["ok", "ok"]
    reload(daemon, config=listener("a", engine=engine))
    assert daemon.call("GetStatus")["exports"] == []
    wait_left(daemon)
    wait_until(lambda: str(path) not in daemon.files().values(), "the export is still open")
