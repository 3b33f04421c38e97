"""The installed service under a real systemd: one container, booted once, and what was seen there."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "system"))
import readme  # noqa: E402

MINUTES = 5

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NBSERVED_BUILD", TOP / "build"))
ENGINES = ("epoll", "io_uring", "io_uring-poll")
CAP_NET_BIND_SERVICE = 10
CAP_SYS_RESOURCE = 24


def why_not():
    """The reason why this host cannot run the tests, or None."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("systemd-nspawn"):
        return "needs systemd-nspawn (package systemd-container)"
    mounts = ["unshare", "--mount", "--propagation=unchanged", "true"]
    if subprocess.run(mounts, capture_output=True).returncode != 0:
        return "this host's root may not mount (a container without CAP_SYS_ADMIN?)"
    return None


pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    where = tmp_path_factory.mktemp("nspawn")
    shutil.copy(TOP / "tests/vm/inside_systemd.py", where)
    (where / "readme.json").write_text(json.dumps({
        "commands": readme.OF_SERVICE, "top": str(TOP), "drop_in": readme.DROP_IN, "keys": readme.KEYS,
        "environment": {"BUILD": str(BUILD), "NB_DEPS": "no", "WERROR": os.environ.get("WERROR", "")},
    }))  # fmt: skip
    install = f'make --no-print-directory -C "{TOP}" BUILD="{BUILD}" DESTDIR="$ROOT" install'
    done = subprocess.run([TOP / "tests/vm/nspawn.sh", "-t", "300", "-p", install, where, "/usr/bin/python3",
                           "/run/nspawn/inside_systemd.py"], capture_output=True, text=True)
    output = (where / "output").read_text() if (where / "output").exists() else ""
    print(output, done.stderr)
    assert done.returncode == 0, f"status {done.returncode}\n{output}\n{done.stderr}"
    return json.loads((where / "facts.json").read_text())


@pytest.fixture
def step(facts):
    """The facts of one step; fails with what went wrong in it."""
    def get(name):
        assert name not in facts.get("failed", {}), facts["failed"][name]
        return facts[name]
    return get


def test_the_commands_of_the_readme_run_and_uninstalling_leaves_what_is_the_users(step):
    """And ends the metrics, which the page does not start, as well as the service."""
    seen = step("readme")
    assert len(seen["results"]) >= 6
    assert not [result for result in seen["results"] if result[1] != 0]
    assert seen["left"] == ["/etc/nbserved"], "the drop-in is the user's"
    assert seen["units"] == ""


def test_sysusers_and_tmpfiles_make_user_and_state_directory(step):
    users = step("users")
    assert users["user"].startswith("nbserved:")
    assert users["uid"] == users["nbserved"] != 0
    assert users["mode"] == "0o750"


def test_verify_is_silent(step):
    verify = step("analyze")["verify"]
    assert (verify["status"], verify["out"], verify["err"]) == (0, "", "")


def test_exposure_is_low(step, capsys):
    overall = step("analyze")["security"]["out"].strip().splitlines()[-1]
    with capsys.disabled():
        print(f" {overall} ", end="")
    assert float(re.search(r"service: ([0-9.]+)", overall).group(1)) <= 1.5


def test_start_waits_for_ready(step):
    start = step("start")
    assert start["start"]["status"] == 0, start["start"]
    unit = start["unit"]
    assert unit["Type"] == "notify"
    assert (unit["ActiveState"], unit["SubState"]) == ("active", "running")
    assert unit["StatusText"] != ""  # only sd_notify() sets it


def test_runs_as_its_user_without_any_right(step):
    start, uid = step("start"), step("users")["nbserved"]
    status = start["process"]["status"]
    assert status["Uid"].split() == [str(uid)] * 4
    assert status["Groups"].strip() in ("", status["Gid"].split()[0])
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[capabilities], 16) == 0, capabilities
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


@pytest.mark.parametrize("name, key, wanted", [
    ("Max locked memory", "LimitMEMLOCK", "infinity"), ("Max open files", "LimitNOFILE", "524288")])
def test_limits_are_the_units(step, name, key, wanted):
    start = step("start")
    assert start["unit"][key] == wanted
    if int(start["init"]["status"]["CapEff"], 16) & 1 << CAP_SYS_RESOURCE:
        has = wanted.replace("infinity", "unlimited")
    else:  # then systemd comes as near as the host's own limit
        has = start["init"]["limits"][name]
    assert start["process"]["limits"][name] == has


@pytest.mark.parametrize("engine", ENGINES)
def test_echo_in_the_sandbox(step, engine):
    assert step("traffic")[engine] is True


def test_the_disk_is_served_and_kept_in_the_sandbox(step):
    kept = dict.fromkeys(["10809", "10810", "10811"], [1, 2, 3])
    assert step("storage") == {"errors": [0] * 6, "blocks": kept}
    assert step("blocks") == kept  # after SIGKILL


def test_no_listener_fell_back_in_the_sandbox(step):
    listeners = step("control")["listeners"]
    rdma = [listeners.pop(name) for name in list(listeners) if name.endswith("-rdma")]
    assert {listener["state"] for listener in rdma} == {"unavailable"}
    assert {listener["state"] for listener in listeners.values()} == {"serving"}
    assert {listener["engine"] for listener in listeners.values()} == set(ENGINES)
    assert all(listener["bytes_in"] >= 300_000 for name, listener in listeners.items()
               if listener["engine"] == "io_uring-poll" and "-udp" not in name)


def test_control_socket_is_for_root_and_the_group(step):
    control = step("control")
    assert step("start")["socket"] == "0o660"
    assert control["root"]["status"] == 0, control["root"]
    assert control["member"]["status"] == 0, control["member"]
    assert control["nobody"]["status"] == 3, control["nobody"]
    assert "control.sock" in control["nobody"]["err"]
    assert control["root_changes"]["status"] == 0, control["root_changes"]
    assert control["member_changes"]["status"] == 1, control["member_changes"]


def test_a_unix_socket_is_for_the_group_of_the_daemon(step):
    unix = step("unix_socket")
    assert (unix["mode"], unix["uid"], unix["group"]) == ("0o660", step("users")["nbserved"], "nbserved")
    assert unix["root"]["out"] == unix["member"]["out"] == "hello\n", unix
    assert "PermissionError" in unix["nobody"]["err"]
    assert unix["left"] is False


@pytest.mark.parametrize("name, reason, fix", [
    ("mine", "Read-only file system", "ReadWritePaths="),
    ("new", "cannot make /srv/disks/new: Read-only file system", "ReadWritePaths="),
    ("home", "Permission denied", "ProtectHome=no"),
    ("device", "No such file", "DeviceAllow=")])
def test_restrictions_of_the_unit_are_reported_with_their_cure(step, name, reason, fix):
    facts = step("paths")
    if name == "device" and not facts["device"]:
        pytest.skip("this host has no block device")
    found = facts["installed"][name]
    assert found["available"] is False
    assert reason in found["reason"] and fix in found["fix"], found
    assert name == "device" or facts["fixed"][name]["available"], facts["fixed"]


def test_read_only_exports_may_lie_anywhere(step):
    assert step("paths")["installed"]["read"]["available"] is True


def test_no_connection_is_refused_during_restarts(step):
    restart = step("restart")
    assert restart["failed"] == []
    assert min(restart["served"]) > 0
    assert len(set(restart["stored"])) == 1, restart["stored"]
    assert len(set(restart["inode"])) == 1, "the Unix socket's file stayed"


def test_sockets_removed_from_the_configuration_leave_the_store(step):
    restart = step("restart")
    assert any("closed unix:/run/nbserved/kept.sock" in line for line in restart["said"])
    assert restart["left"] is False
    # All queues of an address stay, though it has one worker less.
    assert restart["after"] == restart["stored"][0] - 1


def test_a_stop_closes_the_stored_sockets(step):
    assert step("restart")["stopped"] == 0
    assert step("restart")["refused"] is True


def test_a_good_reload_takes_effect(step):
    reload = step("reload")
    assert reload["good"]["status"] == 0, reload["good"]
    assert "generation 2" in reload["good_status"] and reload["new"] is True
    assert reload["clients"]["failed"] == []


def test_a_bad_reload_fails_and_changes_nothing(step):
    reload = step("reload")
    assert reload["bad"]["status"] != 0
    assert "the last reload was refused" in reload["bad_status"]
    assert "generation 2" in reload["bad_status"]
    assert reload["same"] is True and reload["old"] is True
    for once in ("got 'adress'", "nothing was changed"):
        assert sum(once in line for line in reload["bad_said"]) == 1, reload["bad_said"]
    assert "adress" in reload["nbctl"]["out"], reload["nbctl"]


def test_a_reload_is_announced_with_its_time(step):
    notified = step("reload")["notified"]
    assert sum("RELOADING=1" in line and "MONOTONIC_USEC=" in line for line in notified) == 3
    assert any("READY=1" in line for line in notified)


def test_the_store_follows_reloads_and_restarts(step):
    reload = step("reload")
    before, good, bad, after = reload["stored"]
    assert good == bad == before + 3  # a new listener, and two workers
    assert reload["removed"]["status"] == 0 and reload["gone"] is True
    assert after == before + 2


def test_the_socket_unit_starts_the_service(step):
    activation = step("activation")
    assert (activation["before"], activation["after"]) == ("inactive", "active")
    assert all(activation["echo"].values())
    datagrams = (TOP / "conf/nbserved.ini").read_text().count("\ntransport = udp\n")
    assert activation["stored"] == datagrams, "all others are the socket unit's"
    assert activation["failed"] == [] and activation["closed"] == []


def tcp_sections(config):
    """Without the listeners of RDMA, which the installed sandbox does not allow."""
    return "".join(s for s in re.split(r"(?m)^(?=\[)", config) if "\ntransport = rdma\n" not in s)


def test_the_socket_unit_has_the_addresses_of_the_configuration():
    unit = (TOP / "systemd/nbserved.socket").read_text()
    config = (TOP / "conf/nbserved.ini").read_text()
    assert set(re.findall("^ListenStream=(.+)$", unit, re.M)) == set(
        re.findall("^address = ([^ \n]+)", tcp_sections(config), re.M))


def test_a_low_port_needs_one_capability(step):
    low_port, bind = step("low_port"), 1 << CAP_NET_BIND_SERVICE
    assert low_port["echo"] is True
    assert [int(low_port["process"][set_], 16) for set_ in ("CapEff", "CapBnd")] == [bind, bind]


def test_metrics_are_served_by_a_user_of_their_own(step):
    metrics = step("metrics")
    assert metrics["status"] == 200, metrics
    assert metrics["body"].startswith("# HELP nbserved_info ")
    assert metrics["result"] == "success"
    assert not {"0", str(step("users")["nbserved"])} & set(metrics["process"]["Uid"].split())
    assert int(metrics["process"]["CapBnd"], 16) == 0


def test_killed_daemon_is_started_again(step):
    kill = step("kill")
    assert kill["restarts"] == "1"
    assert all(kill["echo"].values())
    assert kill["nbctl"]["status"] == 0, kill["nbctl"]


def test_watchdog_is_fed_and_bites(step):
    watchdog = step("watchdog")
    assert watchdog["fed"] is True
    assert int(watchdog["restarts"]) == 1


def test_one_stalled_worker_is_found_by_the_watchdog(step):
    stalled = step("stalled")
    assert int(stalled["restarts"]) == 1
    assert any("listener 'sink': worker 0 is stuck" in line for line in stalled["said"])
    assert all(stalled["echo"].values())


def test_a_stopped_journald_stops_nothing(step):
    silence = step("silence")
    assert set(silence["levels"]) == {0} and all(silence["echo"].values()) and silence["same"]
    lost = [re.fullmatch(r"(\d+) messages lost: stderr was not read", text) for text in silence["said"]]
    said = sum("log level" in text for text in silence["said"])
    assert said + sum(int(found[1]) for found in lost if found) >= len(silence["levels"])


def test_stop_drains_and_is_clean(step):
    stop = step("stop")
    assert stop["stop"]["status"] == 0, stop["stop"]
    assert (stop["answer"], stop["end"]) == ("hello", "")
    assert stop["ended"] == "success exited 0"
    assert stop["seconds"] < 25  # not drain-timeout's 30
    assert stop["runtime"] is False


def test_wrong_configuration_fails_once_with_its_line(step, facts):
    bad = step("bad_config")
    assert bad["start"]["status"] != 0
    assert bad["unit"]["ActiveState"] == "failed"
    assert bad["unit"]["NRestarts"] == "0"
    assert any(f"nbserved.ini:{bad['lines']}:" in entry["MESSAGE"] for entry in step("journal"))


def test_a_start_is_repeated_for_errors_that_time_cures(step):
    assert step("late")["stop"]["status"] == 0


def test_journal_has_unit_and_priorities(step):
    journal = step("journal")
    config = (TOP / "conf/nbserved.ini").read_text()
    tcp = len(re.findall(r"^\[listener ", tcp_sections(config), re.M))  # without those behind a `;`
    assert any(f"serving {tcp} listeners" in entry["MESSAGE"] for entry in journal)
    assert "nbserved.service" in {entry.get("_SYSTEMD_UNIT") for entry in journal}
    assert all(any(entry["MESSAGE"].startswith(f"listener '{name}': ") for entry in journal) for name in ("echo-epoll", "echo-uring"))
    assert {entry["PRIORITY"] for entry in journal} >= {"3", "6"}  # by the prefixes of lines
