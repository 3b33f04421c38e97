"""A reload leaves what a fresh start with the same file would have made, or all as it was: random
configurations, good ones and broken ones, one after the other, each compared with a daemon that was
started with it."""

import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import socket
import tempfile

import pytest
from conftest import ENGINES, Daemon, listener, wait_until
from traffic import connect, echo
from varlink_client import VarlinkError

MINUTES = 1

STEPS = 50
PORTS = 6  # from the first one of the test's host; the next one is taken
LISTENERS = "abcde"
EXPORTS = "xyz"

# ---- Configurations.  HOST, DIR and TAKEN stand for what differs between two daemons. ----


def lines(heading, keys):
    return [heading, *(f"{key} = {value}" for key, value in keys if value is not None)]


def random_export(rng, name):
    """An export of a file that may exist, or of memory."""
    size = rng.choice(["64K", "1M"])
    keys = [("read-only", rng.choice([None, None, "yes"])), ("queue-depth", rng.choice([None, 8]))]
    if rng.random() < 0.5:
        keys += [("store", rng.choice(["memory", "null"])), ("size", size)]
    else:
        keys += [("path", f"DIR/{name}.img"), ("create", "yes"), ("size", size)]
        keys += [("store", rng.choice([None, "threads", "io_uring"]))]
    return lines(f"[export {name}]", keys)


def random_listener(rng, name, addresses, exports):
    service = rng.choice(["echo", "echo", "discard", "nbd" if exports else "echo"])
    keys = [
        ("service", service),
        ("engine", rng.choice([*ENGINES, "auto"])),
        ("workers", rng.choice([None, 1, 2, 3])),
        ("buffers", rng.choice([None, 64, 128])),
        ("max-connections", rng.choice([None, 5, 50])),
        ("idle-timeout", rng.choice([None, "10min", "1h"])),
        ("allow", rng.choice([None, None, "127.0.0.0/8", "local"])),
        ("optional", rng.choice([None, None, "yes"])),
    ]
    keys += [("address", addresses.pop()) for _ in range(rng.choice([1, 1, 2]))]
    if service == "nbd":
        keys += [("exports", e) for e in rng.sample(exports, rng.randint(1, len(exports)))]
    return lines(f"[listener {name}]", keys)


def random_server(rng):
    keys = [
        ("control-group", rng.choice([None] * 12 + ["daemon"])),
        ("log-level", rng.choice([None, "info", "debug"])),
        ("drain-timeout", rng.choice([None, "1s", "1min"])),
    ]
    return lines("[server]", keys)


def random_config(rng):
    """Lines of a good file."""
    addresses = [f"HOST:{{{i}}}" for i in range(PORTS)]
    addresses += ["HOST:0", "HOST:0", "unix:DIR/1.sock", "unix:DIR/2.sock"]
    rng.shuffle(addresses)
    exports = rng.sample(EXPORTS, rng.randint(0, len(EXPORTS)))
    result = random_server(rng)
    for name in rng.sample(LISTENERS, rng.randint(1, len(LISTENERS))):
        result += random_listener(rng, name, addresses, exports)
    for name in exports:
        result += random_export(rng, name)
    return result


# Mistakes in a file; the last ones depend on this host.
FAULTS = [
    ["wrokers = 2"],
    ["workers = many"],
    ["workers = 2", "workers = 3"],
    ["[listener"],
    ["[lisetner z]", "service = echo", "address = HOST:0"],
    ["[listener z]", "service = echo"],
    ["[listener z]", "service = nbd", "address = HOST:0", "exports = absent"],
    ["[listener z]", "service = echo", "address = HOST:TAKEN"],
    ["[listener z]", "service = echo", "address = unix:DIR/absent/z.sock"],
    ["[listener z]", "service = echo", "address = HOST:0", "cpus = 1023"],
    ["[listener z]", "service = nbd", "address = HOST:0", "exports = w", "[export w]", "path = DIR/absent"],
]


def mutate(rng, config):
    """A small step: a line less, or one of another configuration.  Often good, too."""
    config = list(config)
    if rng.random() < 0.5:
        del config[rng.randrange(len(config))]
    else:
        config.insert(rng.randrange(len(config)), rng.choice(random_config(rng)))
    return config


def next_config(rng, config):
    kind = rng.random()
    if kind < 0.45:
        return random_config(rng)
    if kind < 0.7:
        return mutate(rng, config)
    if kind < 0.75:
        return list(config)
    return config + rng.choice(FAULTS)


# ---- Daemons ----


class Place:
    """Where a daemon runs: a host and a directory of its own."""

    def __init__(self, host, first_port, directory):
        self.host, self.first_port, self.directory = host, first_port, directory
        self.taken = socket.create_server((host, first_port + PORTS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.taken.close()

    def config(self, config):
        text = "\n".join(config).replace("HOST", self.host).replace("DIR", str(self.directory))
        text = text.replace("TAKEN", str(self.first_port + PORTS))
        return re.sub(r"{(\d)}", lambda m: str(self.first_port + int(m[1])), text) + "\n"

    def neutral(self, document):
        """The document without paths, addresses and ports of this run."""
        text = json.dumps(document).replace(str(self.directory), "DIR").replace(self.host, "HOST")
        first, last = self.first_port, self.first_port + PORTS

        def port(match):
            number = int(match[2])
            return match[1] + (str(number - first) if first <= number < last else "any")

        return json.loads(re.sub(r"(HOST(?::| -[a-z] ))(\d+)", port, text))


PASSING = {"generation", "uptime_ns", "started_ns", "time", "pid", "threads", "reload", "leaving", "connections_open"}


def without_passing(value):
    if isinstance(value, dict):
        return {k: without_passing(v) for k, v in value.items() if k not in PASSING}
    return [without_passing(v) for v in value] if isinstance(value, list) else value


def state(daemon, place):
    config, status = daemon.call("GetConfig"), daemon.call("GetStatus")
    return place.neutral([without_passing(config), without_passing(status)])


def differences(a, b, at=""):
    """The differences as texts: whole states are too long to be read."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            yield from differences(a.get(key), b.get(key), f"{at}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, f"{at}[{i}]")
    elif a != b:
        yield f"{at}: {a}, expected {b}"


def is_answered(daemon):
    """Checks that the daemon serves each address that it lists."""
    for entry in daemon.call("GetStatus")["listeners"]:
        for address in daemon.addresses(entry["name"]) if entry["state"] == "serving" else []:
            with connect(address) as s:
                if entry["service"] == "echo":
                    echo(s)


class Fresh:
    """The state that a fresh start with a configuration has, in another place; None if it fails."""

    def __init__(self, place, model):
        self.place, self.model = place, model

    def start(self, config):
        for path in self.place.directory.iterdir():
            path.unlink()
        for path in self.model.directory.glob("*.img"):
            shutil.copy(path, self.place.directory)
        daemon = Daemon(self.place.config(config), self.place.directory, ready=False)
        wait_until(lambda: self.is_settled(daemon), "neither ready nor ended")
        return daemon

    @staticmethod
    def is_settled(daemon):
        return any("READY=1" in m for m in daemon.notified()) or daemon.process.poll() is not None

    def state(self, config):
        daemon = self.start(config)
        try:
            return state(daemon, self.place) if daemon.process.poll() is None else None
        finally:
            daemon.stop()


# ---- The test ----


def reload(daemon):
    """True if the daemon reloaded; its reply and its status must agree."""
    before = daemon.call("GetStatus")["generation"]
    try:
        generation = daemon.call("Reload")["generation"]
        assert generation - before in (0, 1)  # 0: nothing has changed
    except VarlinkError as error:
        assert error.name.split(".")[-1] in ["ReloadRefused", "RestartNeeded"]
        assert error.parameters["errors"]
        generation = None
    last = daemon.call("GetStatus")["reload"]
    assert last["ok"] == (generation is not None) == (not last["errors"])
    assert last["generation"] == (generation or before)
    daemon.notified()
    return generation is not None


def control_group(state_of):
    return state_of[0]["server"]["control-group"]["value"]


def tasks_and_descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/task")), daemon.descriptors()


class Model:
    """The daemon under test, and what it is expected to be."""

    def __init__(self, daemon, place, fresh):
        self.daemon, self.place, self.fresh = daemon, place, fresh
        self.state = state(daemon, place)

    def compare(self):
        found = list(differences(state(self.daemon, self.place), self.state))
        assert not found

    def step(self, config):
        """Reloads; what came of it."""
        expected = self.fresh.state(config)
        good = expected is not None
        same_group = good and control_group(expected) == control_group(self.state)
        self.daemon.write_config(self.place.config(config))
        try:
            self.daemon.call("Reload", dry_run=True)
        except VarlinkError:
            assert not (good and same_group)
        self.compare()
        assert reload(self.daemon) == (good and same_group)
        if good and same_group:
            self.state = expected
        self.compare()
        is_answered(self.daemon)
        return "done" if good and same_group else "restart" if good else "refused"


@pytest.mark.parametrize("seed", range(3))
def test_a_reload_is_a_fresh_start_or_nothing(start_daemon, loopback_ports, seed):
    rng = random.Random(seed)
    host, first_port = loopback_ports
    other = re.sub(r"\d+$", lambda m: str(int(m[0]) % 254 + 1), host)
    daemon = start_daemon(listener("a", address=f"{host}:0"))
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="nbserved-test-"))
        place = stack.enter_context(Place(host, first_port, daemon.directory))
        fresh_place = stack.enter_context(Place(other, first_port, pathlib.Path(directory)))
        fresh = Fresh(fresh_place, place)
        model = Model(daemon, place, fresh)
        config, outcomes = random_config(rng), collections.Counter()
        for step in range(STEPS):
            trial = next_config(rng, config)
            try:
                outcome = model.step(trial)
            except BaseException:
                print(f"step {step}:", *trial, sep="\n")
                raise
            outcomes[outcome] += 1
            if outcome == "done":
                config = trial
        print(dict(outcomes))
        assert outcomes["done"] > STEPS / 5 and outcomes["refused"] > STEPS / 5
        ends_as_it_began(model, fresh)


def ends_as_it_began(model, fresh):
    """Also threads and descriptors are those of a fresh start."""
    config = lines("[listener end]", [("service", "echo"), ("address", "HOST:0"), ("workers", 2)])
    assert model.step(config) == "done"
    wait_until(lambda: not model.daemon.call("GetStatus")["leaving"], "old listeners do not drain")
    daemon = fresh.start(config)
    try:
        state(daemon, fresh.place)
        wait_until(lambda: tasks_and_descriptors(model.daemon) == tasks_and_descriptors(daemon),
                   "threads or descriptors are left")
    finally:
        daemon.stop()
