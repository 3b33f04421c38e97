"""nbctl set, add and remove: a running daemon changes without a file, by the transaction of a reload."""

import json
import os
import re
import socket
import subprocess

import pytest
from conftest import NBCTL, NBSERVED, TIMEOUT, listener
from traffic import echo


def change(daemon, *words, status=0):
    done = daemon.nbctl(*words, check=False)
    assert done.returncode == status, done.stdout + daemon.log()
    return done.stdout


def unsaved(daemon):
    return daemon.call("GetStatus")["unsaved"]


def test_set_changes_a_listener_until_the_next_reload(start_daemon):
    daemon = start_daemon(listener("a", engine="epoll") + listener("b", engine="epoll"))
    threads = daemon.status("b")["threads"]
    assert unsaved(daemon) == 0 and change(daemon, "config", "--diff") == ""
    text = change(daemon, "set", "a", "buffer-size=4K", "max-connections=7")
    assert "nbctl:2: [listener a] buffer-size: 16K -> 4K (listener)" in text
    assert "nbctl:3: [listener a] max-connections: " in text and "generation 2" in text
    assert daemon.status("b")["threads"] == threads  # the other one is not touched
    text = change(daemon, "set", "a", "max-connections=8")
    assert "max-connections: 7, which was in no file -> 8 (live)" in text
    with daemon.connect("a") as s:
        echo(s)
    assert unsaved(daemon) == 2 and "2 changes of `nbctl set`" in change(daemon, "status")
    saved = change(daemon, "config", "--diff")
    assert sorted(saved.split("\n")) == ["", "[listener a]", "buffer-size = 4K", "max-connections = 8"]
    text = change(daemon, "reload", "--dry-run")
    assert "[listener a] buffer-size: 4K, which was in no file -> 16K (listener)" in text
    assert unsaved(daemon) == 2
    (daemon.directory / "conf.d").mkdir(exist_ok=True)
    (daemon.directory / "conf.d" / "lab.ini").write_text(saved)
    assert change(daemon, "reload").startswith("no change") and unsaved(daemon) == 0
    change(daemon, "set", "a", "max-connections=9")
    text = change(daemon, "reload")
    assert "lab.ini:2: [listener a] max-connections: 9, which was in no file -> 8 (live)" in text
    assert unsaved(daemon) == 0


def test_add_serves_another_listener(start_daemon):
    daemon = start_daemon(listener("echo-epoll", engine="epoll"))
    text = change(daemon, "add", "echo,engine=epoll")
    assert "[listener echo-epoll-2]: added (listener)" in text
    change(daemon, "add", "nbd,engine=epoll,size=1M")
    assert daemon.nbctl("exports").stdout.count("memory") == 1
    with daemon.connect("echo-epoll-2") as s:
        echo(s)
        saved = change(daemon, "config", "--diff")
        assert re.match(r"\[listener echo-epoll-2\]\naddress = 127.0.0.1:0\nengine = epoll\nservice = echo\n", saved), saved
        text = change(daemon, "reload")
        assert "[listener echo-epoll-2]: removed, which was in no file" in text
        echo(s)  # it drains


def test_remove_ends_what_was_added(start_daemon):
    daemon = start_daemon(listener("echo-epoll", engine="epoll"))
    change(daemon, "add", "nbd,engine=all,size=1M")
    change(daemon, "add", "echo,engine=epoll")
    change(daemon, "set", "echo-epoll-2", "max-connections=7")
    assert unsaved(daemon) == 3
    with daemon.connect("echo-epoll-2") as s:
        echo(s)
        text = change(daemon, "remove", "echo-epoll-2", "--dry-run")
        assert "[listener echo-epoll-2]: removed, which was in no file" in text and unsaved(daemon) == 3
        change(daemon, "remove", "echo-epoll-2")
        echo(s)  # it drains
    assert unsaved(daemon) == 1
    *others, last = [one["name"] for one in daemon.call("GetStatus")["listeners"] if one["name"].startswith("nbd-")]
    for name in others:
        assert "export" not in change(daemon, "remove", name)
    text = change(daemon, "remove", last)
    assert f"[listener {last}]: removed" in text and "[export disk]: removed, which was in no file" in text
    assert unsaved(daemon) == 0 and change(daemon, "config", "--diff") == ""
    assert change(daemon, "reload").startswith("no change")


def test_a_change_that_is_not_confirmed_is_undone(start_daemon):
    daemon = start_daemon(listener("a", engine="epoll"))
    change(daemon, "set", "a", "max-connections=7")
    change(daemon, "set", "a", "max-connections=8", "--confirm", "60")
    assert daemon.call("GetStatus")["reload"]["state"] == "unconfirmed"
    assert "is not confirmed yet" in change(daemon, "set", "a", "max-connections=9", status=1)
    change(daemon, "confirm")
    assert unsaved(daemon) == 2
    assert "7, which was in no file -> 1" not in change(daemon, "set", "a", "max-connections=1", "--dry-run")
    assert change(daemon, "config", "--diff") == "[listener a]\nmax-connections = 8\n"


@pytest.mark.parametrize("words, why", [
    (["set", "a", "buffer-size=tiny"], "nbctl:2: [listener a] buffer-size: expected a power of two"),
    (["set", "a", "bufer-size=4K"], "did you mean 'buffer-size'?"),
    (["set", "a", "max-connections=1", "buffer-size=0"], "nbctl:3: [listener a] buffer-size: expected"),
    (["set", "a", "[server]"], "expected KEY=VALUE, got '[server]'"),
    (["set", "a", "engine=epoll\n[listener b]"], "no control characters"),
    (["set", "none", "buffer-size=4K"], "there is no listener 'none'"),
    (["set", "a", "address=127.0.0.1:1", "service=nope"], "service: expected"),
    (["remove", "a"], "nbserved.ini, not from `nbctl add`: take it out there and reload, or `nbctl drain a`"),
    (["remove", "none"], "there is no listener 'none'"),
    (["add", "ecko"], "ecko: there is no such service (did you mean 'echo'?)"),
    (["add", "echo,nope=1"], "echo: unknown key 'nope'"),
    (["add", "echo,engine=epoll,port=99999"], "address: expected"),
])  # fmt: skip
def test_a_wrong_change_is_refused_whole(start_daemon, words, why):
    daemon = start_daemon(listener("a", engine="epoll"))
    before = daemon.call("GetConfig")
    assert why in change(daemon, *words, status=1)
    assert daemon.call("GetConfig") == before and unsaved(daemon) == 0
    assert daemon.call("GetStatus")["generation"] == 1


def test_files_that_have_changed_are_read_by_a_reload_first(start_daemon):
    daemon = start_daemon(listener("a", engine="epoll"))
    daemon.write_config(listener("a", engine="epoll", max_connections=5))
    text = change(daemon, "set", "a", "buffer-size=4K", status=1)
    assert "the files have changed" in text and "max-connections: " in text
    change(daemon, "reload")
    change(daemon, "log-level", "debug")
    change(daemon, "set", "a", "buffer-size=4K")
    assert daemon.call("GetStatus")["log_level"] == "debug"


def test_changes_are_limited(start_daemon):
    daemon = start_daemon(listener("a", engine="epoll"))
    for i in range(64):
        daemon.call("Set", listener="a", settings=[f"max-connections={100 + i}"])
    text = change(daemon, "set", "a", "max-connections=1", status=1)
    assert "expected at most 64 changes that are in no file" in text
    assert unsaved(daemon) == 64


def test_usage(start_daemon):
    daemon = start_daemon(listener("a", engine="epoll"))
    assert "leave out --json" in change(daemon, "config", "--diff", "--json", status=2)
    assert "LISTENER KEY=VALUE" in change(daemon, "set", "a", status=2)
    assert "--confirm: expected a number" in change(daemon, "add", "echo", "--confirm", "0", status=2)


def test_what_run_serves_changes_and_goes_back(tmp_path):
    """Without a file a reload takes the words of the command line again."""
    environment = {**os.environ, "NBSERVED_SOCKET": str(tmp_path / "control.sock")}

    def nbctl(*words, status=0):
        done = subprocess.run([str(NBCTL), *words], env=environment, timeout=TIMEOUT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)  # fmt: skip
        assert done.returncode == status, done.stdout
        return done.stdout

    with subprocess.Popen([str(NBSERVED), "--run", "echo,engine=epoll"], env=environment, stdout=subprocess.PIPE,
                          text=True) as daemon:  # fmt: skip
        try:
            assert any(line.startswith("Ctrl-C") for line in daemon.stdout)
            text = nbctl("set", "echo-epoll", "max-connections=7", "--confirm", "60")
            assert "nbctl:2: [listener echo-epoll] max-connections: " in text and "generation 2" in text
            nbctl("confirm")
            assert "[listener echo-epoll-2]: added" in nbctl("add", "echo,engine=epoll")
            assert "expected a power of two" in nbctl("set", "echo-epoll-2", "buffer-size=1", status=1)
            why = " ".join(nbctl("remove", "echo-epoll", status=1).split())
            assert "comes from --run, not from `nbctl add`: `nbctl drain echo-epoll`" in why
            listeners = json.loads(nbctl("status", "--json"))["listeners"]
            assert [one["name"] for one in listeners] == ["echo-epoll", "echo-epoll-2"]
            host, _, port = listeners[1]["addresses"][0].rpartition(":")
            with socket.create_connection((host, int(port)), TIMEOUT) as s:
                echo(s)
            assert "2 changes of `nbctl set` and `add`, not saved" in " ".join(nbctl("status").split())
            saved = nbctl("config", "--diff")
            assert "[listener echo-epoll]\nmax-connections = 7\n" in saved and "[listener echo-epoll-2]\n" in saved
            text = nbctl("reload")
            assert "[listener echo-epoll] max-connections: 7, which was in no file -> " in text
            assert "[listener echo-epoll-2]: removed, which was in no file" in text
            assert nbctl("config", "--diff") == "" and nbctl("reload").startswith("no change")
        finally:
            daemon.terminate()
        assert daemon.wait(TIMEOUT) == 0
