"""The control socket of a running daemon: every method, and clients that behave badly."""
import grp
import json
import os
import pwd
import re
import select
import socket
import stat
import time

import pytest

from conftest import NBCTL, as_nobody, listener, wait_until
from traffic import echo
from varlink_client import Connection, VarlinkError, call, encode, stream
from varlink_idl import Interface

MINUTES = 0.7

CONTROL = "org.nbserved.Control."
SERVICE = "org.varlink.service."
INT_MAX = 2**63 - 1
CLIENTS_MAX = 64  # of which each uid has:
USER_CLIENTS_MAX = 16
MESSAGE_MAX = 1024 * 1024

CONFIG = listener("first", workers=2) + listener("second", engine="io_uring", optional="yes")


@pytest.fixture
def connect(daemon):
    """A function that connects to the control socket; all connections are closed at the end."""
    made = []

    def new():
        made.append(Connection(daemon.control))
        return made[-1]
    yield new
    for connection in made:
        connection.close()


def echo_client(daemon, listener="first"):
    client = daemon.connect(listener)
    echo(client)
    return client


def error_of(daemon, method, parameters=None):
    """The error that the call gives: its name without the interface, and its parameters."""
    with pytest.raises(VarlinkError) as caught:
        call(daemon.control, method, parameters)
    return caught.value.name, caught.value.parameters


@pytest.fixture
def interface(daemon):
    described = call(daemon.control, SERVICE + "GetInterfaceDescription", {"interface": "org.nbserved.Control"})
    return Interface(described["description"])


# ---- Introspection ----

def test_info_is_complete(daemon):
    info = call(daemon.control, SERVICE + "GetInfo")
    assert set(info) == {"vendor", "product", "version", "url", "interfaces"}
    assert info["interfaces"] == ["org.varlink.service", "org.nbserved.Control"]
    assert info["product"] == "nbserved"
    for name in info["interfaces"]:
        described = call(daemon.control, SERVICE + "GetInterfaceDescription", {"interface": name})
        assert Interface(described["description"]).name == name
    name, parameters = error_of(daemon, SERVICE + "GetInterfaceDescription", {"interface": "a.b"})
    assert (name, parameters) == (SERVICE + "InterfaceNotFound", {"interface": "a.b"})


def test_every_declared_method_exists_and_takes_only_what_is_declared(daemon, interface):
    assert {"GetStatus", "GetStats", "ListConnections", "GetConfig", "Doctor", "SetLogLevel",
            "Drain", "Resume", "Reload"} <= set(interface.methods)
    for method, (takes, _) in interface.methods.items():
        # An undeclared parameter: the method exists, and is not run.
        good = {name: ["info"] if kind[0] == "array" else "info" for name, kind in takes[1].items()
                if kind[0] != "maybe"}
        name, parameters = error_of(daemon, CONTROL + method, {**good, "undeclared": 1})
        assert (name, parameters) == (SERVICE + "InvalidParameter", {"parameter": "undeclared"})
        for parameter in takes[1]:
            name, parameters = error_of(daemon, CONTROL + method, {**good, parameter: {}})
            assert (name, parameters) == (SERVICE + "InvalidParameter", {"parameter": parameter})


def test_every_reply_is_as_declared(daemon, interface):
    with echo_client(daemon):
        for method in ("GetStatus", "GetStats", "ListConnections", "GetConfig", "Doctor"):
            interface.check_reply(method, daemon.call(method))
    for method in ("GetConfig", "Doctor"):
        interface.check_reply(method, daemon.call(method, text=True))
    interface.check_reply("SetLogLevel", daemon.call("SetLogLevel", level="debug"))
    interface.check_reply("Reload", daemon.call("Reload"))  # the file's level is back
    interface.check_reply("Drain", daemon.call("Drain"))
    interface.check_reply("Resume", daemon.call("Resume"))
    interface.check_reply("Reload", daemon.call("Reload", dry_run=True))
    daemon.write_config(CONFIG + "idle-timeout = 1min\n")
    interface.check_reply("Reload", daemon.call("Reload"))
    for method in ("GetStatus", "GetStats"):
        interface.check_reply(method, daemon.call(method))


@pytest.mark.parametrize("method", ["Set", "Add", "Remove", "ConfirmReload"])
def test_a_removed_method_names_its_replacement_and_changes_nothing(daemon, method):
    before = daemon.call("GetConfig")
    name, parameters = error_of(daemon, CONTROL + method, {})
    assert name == CONTROL + "ReloadRefused" and "conf.d" in parameters["message"]
    assert daemon.call("GetConfig") == before


def test_declared_errors_are_as_declared(daemon, interface):
    for method, parameters in (("GetStats", {"listeners": ["first", "third"]}),
                               ("ListConnections", {"listener": "third"}),
                               ("Drain", {"listener": "third"}),
                               ("Resume", {"listener": "third"})):
        name, parameters = error_of(daemon, CONTROL + method, parameters)
        assert name == CONTROL + "NoSuchListener"
        interface.check(parameters, interface.errors["NoSuchListener"], name)
        assert parameters["listener"] == "third"
        assert "third" in parameters["message"]


# ---- Methods ----

def test_status_says_what_serves(daemon):
    status = daemon.call("GetStatus")
    assert status["pid"] == daemon.pid
    assert status["generation"] == 1
    assert status["uptime_ns"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", status["time"])
    first = daemon.status("first")
    assert first["engine"] == "epoll" and first["state"] == "serving" and first["workers"] == 2
    assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", first["addresses"][0])
    assert "reason" not in first


def test_an_unavailable_listener_has_its_reason(start_daemon, engine):
    """Over each engine; the others serve."""
    daemon = start_daemon(listener("far", engine=engine, address="192.0.2.1:7008", optional="yes") + listener("near"))
    for far in (daemon.status("far"), daemon.stats("far")):
        assert far["state"] == "unavailable" and far["workers"] == 0
        assert "192.0.2.1:7008" in far["reason"]
        assert far["addresses"] == ["192.0.2.1:7008"]
    assert daemon.call("ListConnections") == {"connections": [], "open": 0}
    assert daemon.call("Drain", listener="far") == {"draining": []}
    echo_client(daemon, "near").close()


def test_stats_of_some_listeners(daemon):
    def names(wanted):
        return [one["name"] for one in daemon.call("GetStats", listeners=wanted)["listeners"]]
    assert names(["second"]) == ["second"]
    assert names(["second", "first", "second"]) == ["first", "second"]
    assert names([]) == names(None) == ["first", "second"]


def test_a_stream_begins_at_once(daemon):
    documents = stream(daemon.control, CONTROL + "GetStats", {"interval_ms": 3600 * 1000, "listeners": ["second"]})
    assert [one["name"] for one in next(documents)["listeners"]] == ["second"]
    documents.close()


def test_connections_are_listed_with_a_limit(daemon):
    clients = [echo_client(daemon) for _ in range(20)]
    clients.append(echo_client(daemon, "second"))
    peers = {"{}:{}".format(*client.getsockname()) for client in clients}
    listed = daemon.call("ListConnections")
    assert listed["open"] == 21
    assert {one["peer"] for one in listed["connections"]} == peers
    ids = {(one["listener"], one["worker"], one["id"]) for one in listed["connections"]}
    assert len(ids) == 21
    for one in listed["connections"]:
        assert one["bytes_in"] == one["bytes_out"] == 100 and one["state"] == "open"
    for limit in (1, 7, 20, 21, 22, 10000):
        listed = daemon.call("ListConnections", limit=limit)
        assert len(listed["connections"]) == min(limit, 21) and listed["open"] == 21
    listed = daemon.call("ListConnections", listener="second")
    assert [one["listener"] for one in listed["connections"]] == ["second"]
    assert listed["open"] == 1
    for client in clients:
        client.close()


def test_config_says_where_each_value_came_from(daemon):
    config = daemon.call("GetConfig")
    keys = next(one["keys"] for one in config["listeners"] if one["name"] == "first")
    assert keys["workers"]["value"] == "2"
    assert re.fullmatch(r".+:\d+", keys["workers"]["origin"])
    assert keys["optional"]["origin"] == "default"
    assert config["server"]["control"]["value"] == daemon.control


def test_the_log_level_can_be_set(daemon):
    for level in ("error", "warning", "info", "debug"):
        assert daemon.call("SetLogLevel", level=level) == {}
    for level in ("", "Debug", "7", "loud"):
        name, parameters = error_of(daemon, CONTROL + "SetLogLevel", {"level": level})
        assert (name, parameters) == (SERVICE + "InvalidParameter", {"parameter": "level"})


# ---- The form of messages ----

def test_messages_end_with_newline_and_nul_and_have_no_other_keys(connect):
    c = connect()
    c.send(CONTROL + "GetStatus")
    c.send(CONTROL + "Nonsense")
    c.send(CONTROL + "GetStats", {"interval_ms": 50}, more=True)
    for keys in ({"parameters"}, {"error", "parameters"}, {"parameters", "continues"}):
        message = c.receive_bytes()
        assert message.endswith(b"}\n\0")
        assert set(json.loads(message[:-1])) == keys


@pytest.mark.parametrize("method, parameters, error", [
    ("Nonsense", None, ("InvalidParameter", {"parameter": "method"})),
    ("", None, ("InvalidParameter", {"parameter": "method"})),
    ("org.nbserved.Nonsense.GetStatus", None, ("InterfaceNotFound", {"interface": "org.nbserved.Nonsense"})),
    (CONTROL + "Nonsense", None, ("MethodNotFound", {"method": CONTROL + "Nonsense"})),
    (CONTROL + "getStatus", None, ("MethodNotFound", {"method": CONTROL + "getStatus"})),
    (CONTROL + "GetStats", {"listeners": "first"}, ("InvalidParameter", {"parameter": "listeners"})),
    (CONTROL + "GetStats", {"listeners": ["first", 1]}, ("InvalidParameter", {"parameter": "listeners"})),
    (CONTROL + "GetStats", {"listeners": ["first"] * 257}, ("InvalidParameter", {"parameter": "listeners"})),
    (CONTROL + "GetStats", {"interval_ms": 49}, ("InvalidParameter", {"parameter": "interval_ms"})),
    (CONTROL + "GetStats", {"interval_ms": INT_MAX}, ("InvalidParameter", {"parameter": "interval_ms"})),
    (CONTROL + "GetStats", {"interval_ms": 1000.0}, ("InvalidParameter", {"parameter": "interval_ms"})),
    (CONTROL + "ListConnections", {"limit": 0}, ("InvalidParameter", {"parameter": "limit"})),
    (CONTROL + "ListConnections", {"limit": 10001}, ("InvalidParameter", {"parameter": "limit"})),
    (CONTROL + "SetLogLevel", {}, ("InvalidParameter", {"parameter": "level"})),
    (CONTROL + "SetLogLevel", {"level": None}, ("InvalidParameter", {"parameter": "level"})),
    (CONTROL + "GetStatus", {"x": None}, ("InvalidParameter", {"parameter": "x"})),
    (SERVICE + "GetInterfaceDescription", {}, ("InvalidParameter", {"parameter": "interface"})),
])
def test_wrong_calls_get_their_error(daemon, method, parameters, error):
    name, details = error_of(daemon, method, parameters)
    assert (name, details) == (SERVICE + error[0], error[1])


NO_CALLS = {"empty": b"\0", "no JSON": b"GET / HTTP/1.1\r\n\r\n\0", "NUL inside": b"{\0}", "no object": b"[]\0",
            "type of method": b'{"method":1}\0',
            "duplicate key": b'{"method":"%sGetStatus","method":"%sGetStatus"}\0',
            "duplicate parameter": b'{"method":"%sGetStats","parameters":{"x":[],"x":[]}}\0',
            "unknown key": b'{"method":"%sGetStatus","unknown":true}\0',
            "more and oneway": b'{"method":"%sGetStatus","more":true,"oneway":true}\0',
            "type of parameters": b'{"method":"%sGetStatus","parameters":[]}\0',
            "two objects": b'{"method":"%sGetStatus"}{}\0', "no UTF-8": b'{"method":"\xff"}\0',
            "deep": b'{"method":"a.b","parameters":{"x":' + b"[" * 1000 + b"]" * 1000 + b"}}\0",
            "deep and unfinished": b'{"method":"a.b","parameters":{"x":' + b"[" * 100000 + b"\0",
            "oversize": b'{"method":"' + b"x" * MESSAGE_MAX + b'"}\0',
            "oversize and unfinished": b" " * (MESSAGE_MAX + 1)}


@pytest.mark.parametrize("what", NO_CALLS)
def test_input_other_than_a_call_ends_that_connection_only(connect, what):
    other, c = connect(), connect()
    try:
        c.send_bytes(NO_CALLS[what].replace(b"%s", CONTROL.encode()))
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has seen enough
    assert c.is_ended()
    other.send(CONTROL + "GetStatus")
    assert other.receive_reply()


def test_a_message_may_come_byte_by_byte(connect):
    c = connect()
    for byte in encode({"method": CONTROL + "GetStatus"}):
        c.send_bytes(bytes([byte]))
    assert c.receive_reply()


def test_a_message_may_be_as_long_as_the_limit(connect):
    c = connect()
    message = encode({"method": CONTROL + "GetStatus"})
    c.send_bytes(b" " * (MESSAGE_MAX - len(message) + 1) + message)
    assert c.receive_reply()


def test_oneway_calls_are_done_and_never_answered(daemon, connect):
    c = connect()
    c.send(CONTROL + "GetStatus", oneway=True)
    c.send(CONTROL + "Nonsense", oneway=True)
    c.send(CONTROL + "Drain", {"listener": "second"}, oneway=True)
    c.send(SERVICE + "GetInfo")
    assert c.receive_reply()[0]["product"] == "nbserved"
    assert daemon.status("second")["state"] != "serving"


def test_a_hundred_calls_at_once_are_answered_in_order(daemon, connect):
    c = connect()
    kinds = [("GetStatus", "pid"), ("ListConnections", "open"), ("GetStats", "exports"), ("GetConfig", "server")]
    c.send_bytes(b"".join(encode({"method": CONTROL + kinds[i % 4][0]}) for i in range(100)))
    c.socket.shutdown(socket.SHUT_WR)
    for i in range(100):
        assert kinds[i % 4][1] in c.receive_reply()[0]
    assert c.is_ended()


# ---- Permissions ----

def run_as(uid, gid, groups, function):
    """The result of function() in a process of these ids, through JSON."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        result = None
        try:
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            result = function()
        finally:
            os.write(write_end, json.dumps(result).encode())
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        result = json.load(answer)
    os.waitpid(child, 0)
    return result


def ask_as(daemon, uid, gid, groups, methods):
    """The answer to each method for a process of these ids: an error's name, or None."""
    def ask(method):
        try:
            call(daemon.control, method)
            return None
        except VarlinkError as error:
            return error.name
        except OSError as error:
            return type(error).__name__
    return run_as(uid, gid, groups, lambda: [ask(method) for method in methods])


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


@needs_root
def test_methods_are_refused_to_users_without_the_right(start_daemon):
    nobody = pwd.getpwnam("nobody")
    group = next(g for g in grp.getgrall() if g.gr_gid not in (0, nobody.pw_gid))
    daemon = start_daemon(f"[server]\ncontrol-group = {group.gr_name}\n" + CONFIG)
    methods = [SERVICE + "GetInfo", CONTROL + "GetStatus", CONTROL + "Drain"]
    denied = SERVICE + "PermissionDenied"
    mode = os.stat(daemon.control)
    assert stat.S_IMODE(mode.st_mode) == 0o660 and mode.st_gid == group.gr_gid

    def ask(gid, groups):
        return ask_as(daemon, nobody.pw_uid, gid, groups, methods)
    assert ask(nobody.pw_gid, []) == ["PermissionError"] * 3
    assert ask(group.gr_gid, []) == [None, None, denied]
    assert ask(nobody.pw_gid, [group.gr_gid]) == [None, None, denied]
    many = list(range(100000, 100200)) + [group.gr_gid]
    assert ask(nobody.pw_gid, many) == [None, None, denied]
    os.chmod(daemon.control, 0o666)
    assert ask(nobody.pw_gid, []) == [denied] * 3
    assert daemon.status("first")["state"] == "serving"
    assert ask_as(daemon, 0, 0, [], methods) == [None] * 3


def test_nbctl_names_the_right_that_a_refused_call_needs(start_daemon):
    daemon = start_daemon(CONFIG)
    os.chmod(daemon.control, 0o666)
    program, nobody = as_nobody(NBCTL, daemon.directory)

    def refusal(*command):
        result = daemon.nbctl(*command, program=program, check=False, **nobody)
        assert result.returncode == 1
        return result.stdout
    assert "GetStatus: permission denied" in refusal("status")
    assert "`control-group`" in refusal("status") and "changes" not in refusal("status")
    for change in (("reload",), ("drain", "first"), ("log-level", "info")):
        assert "changes need root or the server's own user" in refusal(*change)


# ---- Clients that are too many, too slow, or too silent ----

def greet(connect):
    """A connection that is served, or None."""
    c = connect()
    try:
        c.send(SERVICE + "GetInfo")
        return c.receive() and c
    except BrokenPipeError:
        return None


def test_more_clients_of_a_uid_than_its_places_are_refused_and_the_rest_served(daemon, connect):
    client = echo_client(daemon)
    clients = []
    while c := greet(connect):
        clients.append(c)
        assert len(clients) <= USER_CLIENTS_MAX
    assert len(clients) == USER_CLIENTS_MAX
    result = daemon.nbctl("status", check=False)
    assert result.returncode != 0 and "too many control clients" in result.stdout
    echo(client)
    clients[0].send(SERVICE + "GetInfo")
    assert clients[0].receive_reply()
    clients[1].close()
    assert wait_until(lambda: greet(connect), "room for one more")
    client.close()


@needs_root
def test_users_who_take_all_places_do_not_lock_others_out(start_daemon):
    """Silent connections of as many uids as are needed to fill every place that others have."""
    group = grp.getgrnam("daemon")
    daemon = start_daemon(f"[server]\ncontrol-group = {group.gr_name}\n" + CONFIG)
    connections = []

    def connect_as(uid):
        """Connects with the ids of somebody else; how many were let in is seen by a call."""
        os.setegid(group.gr_gid)
        os.seteuid(uid)
        try:
            connections.append(Connection(daemon.control))
        finally:
            os.seteuid(0)
            os.setegid(0)
        return connections[-1]

    def fill(uid):
        """Connects until it is refused."""
        served = 0
        while greet(lambda: connect_as(uid)):
            served += 1
            assert served <= CLIENTS_MAX
        return served
    assert fill(60001) == USER_CLIENTS_MAX
    assert daemon.nbctl("status").returncode == 0  # root is not refused,
    assert fill(60002) == USER_CLIENTS_MAX  # and neither is another,
    assert fill(60003) == 0  # until others have half of all places;
    assert daemon.nbctl("status").returncode == 0  # the rest is not for them
    assert fill(0) == USER_CLIENTS_MAX
    for c in connections:
        c.close()
    wait_until(lambda: greet(lambda: connect_as(60003)), "room for others")
    connections[-1].close()


def hung_up(connection):
    poll = select.poll()
    poll.register(connection.socket, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def test_stalled_control_clients_are_dropped_and_delay_no_other(daemon, connect):
    client, good = echo_client(daemon), connect()
    silent, silent_after_a_call = connect(), greet(connect)
    partial, deaf_streams, deaf = connect(), [connect() for _ in range(8)], connect()
    begin = time.monotonic()
    partial.send_bytes(b'{"method":')
    for c in deaf_streams:
        c.send(CONTROL + "GetStats", {"interval_ms": 50}, more=True)
    deaf.socket.settimeout(0.5)
    with pytest.raises(OSError):  # the daemon does not read on either
        while True:
            deaf.send_bytes(encode({"method": CONTROL + "GetConfig"}) * 1000)
    assert partial.is_ended()
    assert time.monotonic() - begin > 9
    ended = set()

    def all_ended():
        echo(client)
        good.send(SERVICE + "GetInfo")
        assert good.receive_reply()
        for c in deaf_streams + [deaf]:
            # POLLHUP without reading: what is queued for it stays there.
            if c not in ended and hung_up(c):
                ended.add(c)
        return len(ended) == len(deaf_streams) + 1
    wait_until(all_ended, "every client that does not read is dropped")
    assert silent.is_ended() and silent_after_a_call.is_ended()
    assert time.monotonic() - begin > 28
    client.close()


def test_clients_that_vanish_leave_nothing_behind(daemon):
    before = daemon.descriptors()
    for _ in range(50):
        for method, flags in (("GetStats", {"more": True}), ("ListConnections", {}), ("GetStatus", {})):
            with Connection(daemon.control) as c:
                c.send(CONTROL + method, **flags)
    wait_until(lambda: daemon.descriptors() <= before, "descriptors are closed")
    assert daemon.call("GetStatus")


def test_the_doctor_lacks_nothing_that_every_host_has(start_daemon):
    """Nor does it send to itself who has just asked it."""
    report = call(start_daemon(listener("echo")).control, CONTROL + "Doctor", {"text": True})
    missing = [check for check in report["checks"] if not check["ok"]]
    (tls,) = [check for check in report["checks"] if check["name"] == "tls"]
    assert tls["ok"] == tls["value"].startswith("OpenSSL") != ("without TLS=no" in tls["fix"])
    assert not [check["name"] for check in missing if "any Linux" in check["fix"] or check["name"].endswith(": drop")]
    assert "--doctor" not in report["text"] and "nbctl doctor" not in report["text"]
