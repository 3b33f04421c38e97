"""Listening sockets over a restart: kept by a service manager, which the test plays, and given by it."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import threading

import pytest
from conftest import LATER, NBCTL, NBSERVED, failed_start, listener, wait_until
from traffic import refuses

KEEP = {"FDSTORE": "100"}


def start_keeping(start_daemon, config, **options):
    return start_daemon(config, **{"env": KEEP, **options})


def listening(address="127.0.0.1", family=socket.AF_INET, **options):
    """As a socket unit would make one."""
    s = socket.socket(family)
    if family != socket.AF_UNIX:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, 0) if family != socket.AF_UNIX else address)
    s.listen(options.get("backlog", 5))
    return s


def echo(client):
    client.settimeout(60)
    client.sendall(b"hello")
    received = client.recv(100)
    client.close()
    return received


def names(daemon):
    daemon.notified()
    return sorted(name for name, _ in daemon.store)


def test_nothing_is_kept_unless_the_service_manager_says_so(start_daemon):
    daemon = start_daemon(listener("echo"))
    assert not names(daemon)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_clients_that_connect_during_a_restart_are_served(start_daemon, engine, end):
    config = listener("echo", engine=engine, workers=2)
    first = start_keeping(start_daemon, config)
    address = first.addresses("echo")[0]
    assert names(first) == ["echo=127.0.0.1 0"] * 2
    first.process.send_signal(end)
    first.process.wait(60)
    waiting = [socket.create_connection(address) for _ in range(20)]
    second = start_keeping(start_daemon, config, inherit=first.store)
    assert second.addresses("echo") == [address]
    assert all(echo(client) == b"hello" for client in waiting)
    assert "2 sockets on " in second.log()


@pytest.mark.parametrize("before, after", [(1, 3), (3, 1)])
def test_another_number_of_workers_serves_every_queue(start_daemon, engine, before, after):
    first = start_keeping(start_daemon, listener("echo", engine=engine, workers=before))
    address = first.addresses("echo")[0]
    names(first)
    first.terminate()
    waiting = [socket.create_connection(address) for _ in range(20)]
    second = start_keeping(start_daemon, listener("echo", engine=engine, workers=after), inherit=first.store)
    assert all(echo(client) == b"hello" for client in waiting)
    assert len(names(second)) == max(before, after)
    assert all(echo(second.connect("echo")) == b"hello" for _ in range(20))


def test_the_file_of_a_unix_socket_stays_while_it_is_kept(start_daemon, engine, tmp_path):
    path = str(tmp_path / "s")
    config = listener("echo", engine=engine, address=f"unix:{path}", workers=2)
    first = start_keeping(start_daemon, config)
    assert len(names(first)) == 1
    inode = os.stat(path).st_ino
    first.terminate()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        second = start_keeping(start_daemon, config, inherit=first.store)
        assert echo(client) == b"hello"
    assert os.stat(path).st_ino == inode
    second.write_config(listener("other"))
    second.nbctl("reload")
    assert not os.path.exists(path)
    assert names(second) == ["other=127.0.0.1 0"]


def test_a_unix_socket_without_its_file_is_bound_again(start_daemon, tmp_path):
    path = str(tmp_path / "s")
    config = listener("echo", address=f"unix:{path}")
    first = start_keeping(start_daemon, config)
    names(first)
    first.terminate()
    os.unlink(path)
    second = start_keeping(start_daemon, config, inherit=first.store)
    assert "has lost its file: closed" in second.log()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        assert echo(client) == b"hello"


@pytest.mark.parametrize("wanted", [False, True])
def test_a_file_that_leads_to_another_server_is_left_alone(start_daemon, tmp_path, wanted):
    path = str(tmp_path / "s")
    config = listener("echo", address=f"unix:{path}")
    first = start_keeping(start_daemon, config)
    names(first)
    first.terminate()
    os.unlink(path)
    with listening(path, socket.AF_UNIX) as other:
        second = start_daemon(config if wanted else listener("other"), env=KEEP, inherit=first.store, ready=False)
        if wanted:
            second.may_fail = True
            second.notified()  # or it waits for us to have forgotten
            assert second.process.wait(60) == LATER
            assert f"{path} is in use: another server" in second.log()
        else:
            second.wait_ready()
            second.terminate()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            other.accept()[0].close()


def test_unmatched_connections_are_closed_and_forgotten(start_daemon, loopback_ports):
    host, port = loopback_ports
    first = start_keeping(start_daemon, listener("echo", address=f"{host}:{port}"))
    names(first)
    first.terminate()
    stranger, other = listening(), socket.socketpair()
    given = [*first.store, ("nbserved.socket", stranger.fileno()), ("x", other[0].fileno())]
    # The one that was kept would be in its way.
    second = start_daemon(listener("wide", address=f"0.0.0.0:{port}"), env=KEEP, inherit=given, ready=False)
    second.store = first.store
    second.wait_ready()
    assert names(second) == [f"wide=0.0.0.0 {port}"]
    log = second.log()
    assert f"closed {host}:{port}" in log
    assert "no listener took 127.0.0.1:" in log
    assert "'x', from the service manager is not a listening stream socket" in log
    with socket.create_connection((host, port)) as client:
        assert echo(client) == b"hello"


def test_a_socket_of_an_earlier_release_is_closed_and_forgotten(start_daemon):
    """Of a multicast group: it must not count as that of a socket unit, which stays open."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as group:
        group.bind(("239.1.2.3", 0))
        name = f"u%1=239.1.2.3 {group.getsockname()[1]}"
        daemon = start_daemon(listener("echo"), env=KEEP, inherit=[(name, group.fileno())], ready=False)
        daemon.store.keep(name, os.dup(group.fileno()))
        daemon.wait_ready()
        assert names(daemon) == ["echo=127.0.0.1 0"]
        assert f"closed '{name}' from the service manager: no listener uses it" in daemon.log()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX])
def test_a_socket_unit_s_socket_is_served_and_not_kept(start_daemon, engine, workers, family, tmp_path):
    path = str(tmp_path / "s")
    hosts = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1", socket.AF_UNIX: path}
    with listening(hosts[family], family) as given:
        at = given.getsockname()
        if family == socket.AF_UNIX:
            text = f"unix:{path}"
        else:
            text = f"[{at[0]}]:{at[1]}" if ":" in at[0] else f"{at[0]}:{at[1]}"
        with socket.socket(family) as early:
            early.connect(at)
            daemon = start_keeping(start_daemon, listener("echo", engine=engine, address=text, workers=workers),
                                   inherit=[("nbserved.socket", given.fileno())])
            assert echo(early) == b"hello"
        for _ in range(10):
            with socket.socket(family) as client:
                client.connect(at)
                assert echo(client) == b"hello"
        assert not names(daemon)
        daemon.terminate()
        assert family != socket.AF_UNIX or os.path.exists(path)


def test_a_socket_unit_s_socket_comes_back(start_daemon, engine):
    """To a listener that was drained, or is in the configuration again; clients wait meanwhile."""
    with listening() as given:
        host, port = at = given.getsockname()
        config = listener("echo", engine=engine, address=f"{host}:{port}")
        daemon = start_daemon(config, inherit=[("nbserved.socket", given.fileno())])
        daemon.nbctl("drain", "echo")
        wait_until(lambda: daemon.status("echo")["state"] == "drained", "it drains")
        with socket.create_connection(at) as waiting:
            daemon.nbctl("resume", "echo")
            assert echo(waiting) == b"hello"
        daemon.write_config(listener("other"))
        daemon.nbctl("reload")
        with socket.create_connection(at) as waiting:
            daemon.write_config(config)
            daemon.nbctl("reload")
            assert echo(waiting) == b"hello"


def test_sockets_of_a_listener_that_cannot_serve_are_given_up(start_daemon, loopback_ports):
    """Clients are refused, and do not wait; when the cause has gone it serves."""
    host, port = loopback_ports
    config = listener("echo", address=[f"{host}:{port}", f"{host}:{port + 1}"], optional="yes") + listener("other")
    first = start_keeping(start_daemon, config)
    names(first)
    first.terminate()
    first.store.drop(f"echo={host} {port + 1}")
    with socket.create_server((host, port + 1)):
        second = start_keeping(start_daemon, config, inherit=first.store)
        assert second.status("echo")["state"] == "unavailable"
        assert names(second) == ["other=127.0.0.1 0"]
        assert refuses((host, port))
    second.nbctl("reload")
    assert second.status("echo")["state"] == "serving"
    assert echo(socket.create_connection((host, port))) == b"hello"


def in_the_way(at, reason):
    """Systemd's socket of a loopback address, where a listener is to have all of them."""
    return (
        f"bind 0.0.0.0:{at[1]}: the service manager already listens on {at[0]}:{at[1]} for 'nbserved.socket'; "
        f"change that unit to ListenStream=0.0.0.0:{at[1]}"
    ) in reason


def test_a_socket_unit_in_the_way_of_a_wildcard_is_named_at_the_start(start_daemon):
    with listening() as given:
        at = given.getsockname()
        log = failed_start(start_daemon, listener("echo", address=f"0.0.0.0:{at[1]}"),
                           inherit=[("nbserved.socket", given.fileno())])
        assert in_the_way(at, log) and "another program" not in log


def test_a_socket_unit_in_the_way_of_a_wildcard_is_named_by_a_reload(start_daemon):
    with listening() as given:
        at = given.getsockname()
        daemon = start_daemon(listener("echo", address=f"{at[0]}:{at[1]}"),
                              inherit=[("nbserved.socket", given.fileno())])
        daemon.write_config(listener("echo", address=f"0.0.0.0:{at[1]}"))
        refused = daemon.nbctl("reload", check=False)
        assert refused.returncode == 1 and in_the_way(at, refused.stdout)
        assert echo(socket.create_connection(at)) == b"hello"


def test_silent_clients_of_the_accept_queue_do_not_delay_the_end(start_daemon, engine):
    config = "[server]\ndrain-timeout = 1s\n" + listener("echo", engine=engine)
    daemon = start_keeping(start_daemon, config)
    address = daemon.addresses("echo")[0]
    daemon.process.send_signal(signal.SIGSTOP)
    with socket.create_connection(address), socket.create_connection(address):
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.send_signal(signal.SIGCONT)
        assert daemon.process.wait(60) == 0
    assert "ending with connections open" not in daemon.log()


def test_the_store_follows_reloads(start_daemon):
    stays, goes = listener("stays"), listener("goes")
    daemon = start_keeping(start_daemon, stays + goes)
    assert names(daemon) == ["goes=127.0.0.1 0", "stays=127.0.0.1 0"]
    address = daemon.addresses("stays")[0]
    # Changed: another engine and number of workers on the same address, which is renamed, too.
    changed = listener("renamed", engine="io_uring-poll", workers=2, address="{}:{}".format(*address))
    daemon.write_config(changed + listener("new"))
    daemon.nbctl("reload")
    renamed = "renamed={} {}".format(*address)
    assert names(daemon) == ["new=127.0.0.1 0", renamed, renamed]
    daemon.write_config(changed + "broken = yes\n")
    assert daemon.nbctl("reload", check=False).returncode == 1
    assert names(daemon) == ["new=127.0.0.1 0", renamed, renamed]
    daemon.write_config(changed)
    daemon.nbctl("reload")
    daemon.terminate()
    daemon.notified()
    with socket.create_connection(address) as waiting:
        second = start_keeping(start_daemon, changed, inherit=daemon.store)
        assert echo(waiting) == b"hello"
    assert "closed" not in second.log()


@pytest.mark.parametrize("how", ["renamed", "port", "first", "both"])
def test_a_stored_socket_has_the_name_of_its_listener(start_daemon, how):
    """Over a restart: systemd keeps a socket that it has already under its name.  A listener that names a port
    has it, not the one that had it for its port 0."""
    count = 2 if how in ("first", "both") else 1
    first = start_keeping(start_daemon, listener("a", address=["127.0.0.1:0"] * count))
    host, port = first.addresses("a")[0 if how == "first" else -1]
    assert names(first) == ["a=127.0.0.1 0"] * count
    first.terminate()
    new = "a" if how == "port" else "b"
    config, kept = listener(new, address=f"{host}:{port}"), [f"{new}={host} {port}"]
    if how in ("first", "both"):
        config, kept = listener("a") + config, ["a=127.0.0.1 0", *kept]
    second = start_keeping(start_daemon, config, inherit=first.store)
    assert names(second) == kept
    second.nbctl("drain", new)
    wait_until(lambda: names(second) == kept[:-1], "the store has forgotten it")
    wait_until(lambda: refuses((host, port)), "its workers have closed it")
    if how in ("first", "both"):
        assert echo(second.connect("a")) == b"hello"


def test_a_failed_start_leaves_the_stored_sockets(start_daemon):
    first = start_keeping(start_daemon, listener("a"))
    address = first.addresses("a")[0]
    names(first)
    first.terminate()
    config = listener("b", address="{}:{}".format(*address))
    with listening() as taken:
        other = listener("c", address="{}:{}".format(*taken.getsockname()))
        second = start_keeping(start_daemon, config + other, inherit=first.store, ready=False)
        second.may_fail = True
        assert second.process.wait(60) == LATER
    assert names(second) == ["a=127.0.0.1 0"]
    with socket.create_connection(address) as waiting:
        start_keeping(start_daemon, config, inherit=second.store)
        assert echo(waiting) == b"hello"


def test_a_listener_that_is_drained_is_not_kept(start_daemon):
    daemon = start_keeping(start_daemon, listener("a") + listener("b"))
    address = daemon.addresses("a")[0]
    daemon.nbctl("drain", "a")
    wait_until(lambda: names(daemon) == ["b=127.0.0.1 0"], "the store has forgotten a")
    wait_until(lambda: daemon.status("a")["state"] == "drained", "a is drained")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_sockets_beyond_the_stores_limit_are_logged(start_daemon, loopback_ports):
    host, port = loopback_ports
    config = listener("echo", address=f"{host}:{port}-{port + 4}", workers=3)
    daemon = start_daemon(config, env={"FDSTORE": "10"})
    assert len(names(daemon)) == 9
    assert f"{host}:{port + 4} is not kept over a restart" in daemon.log()
    assert "FileDescriptorStoreMax" in daemon.log()


def test_no_connection_is_refused_while_daemons_follow_each_other(start_daemon, engine):
    """Clients connect all the time; ten daemons, every second one killed."""
    config = listener("echo", engine=engine, workers=2)
    daemon = start_keeping(start_daemon, config)
    address = daemon.addresses("echo")[0]
    failed, done, served = [], threading.Event(), itertools.count()

    def client():
        while not done.is_set():
            try:
                s = socket.create_connection(address, timeout=60)
            except OSError as error:  # a reset after that is the fate of who was being served
                failed.append(error)
                return
            try:
                if echo(s) == b"hello":
                    next(served)
            except OSError:
                pass

    clients = [threading.Thread(target=client) for _ in range(4)]
    for thread in clients:
        thread.start()
    try:
        for turn in range(10):
            before = next(served)
            wait_until(lambda: next(served) > before + 20 or failed, "clients are served")
            daemon.notified()
            daemon.process.send_signal(signal.SIGKILL if turn % 2 else signal.SIGTERM)
            daemon.process.wait(60)
            daemon = start_keeping(start_daemon, config, inherit=daemon.store)
    finally:
        done.set()
        for thread in clients:
            thread.join()
    assert not failed


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="needs systemd-socket-activate (systemd)")
def test_systemd_socket_activate_starts_it(tmp_path, loopback_ports):
    host, port = loopback_ports
    control = tmp_path / "control.sock"
    config = tmp_path / "nbserved.ini"
    config.write_text(f"[server]\ncontrol = {control}\n" + listener("echo", address=f"{host}:{port}", workers=2))
    command = ["systemd-socket-activate", "-l", f"{host}:{port}", str(NBSERVED), "-c", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "Listening on" in process.stderr.readline()
            with socket.create_connection((host, port)) as client:
                assert echo(client) == b"hello"
            status = subprocess.run([str(NBCTL), "-s", str(control), "status"], capture_output=True, text=True)
            assert status.returncode == 0 and f"{host}:{port}" in status.stdout
        finally:
            process.terminate()
        assert process.wait(60) == 0
        assert f"taken over 1 socket on {host}:{port}" in process.stderr.read()
