"""Many reloads in a row under the load of real generators: those on listeners that stay notice
nothing, connecting to one that is replaced always works, one that is removed finishes what it has,
and afterwards everything is as before."""

import json
import signal
import subprocess
import threading

import pytest
from conftest import TIMEOUT, is_sanitized, listener, requires, wait_until
from traffic import Busy, connect, visit

MINUTES = 1

WARM_UP = 10
RELOADS = 20


def config(engine, index, leaving=True):
    """`same` and `disk` are always so, `changed` and `changed-disk` differ between any two, `left`
    and `left-disk` leave with the first reload, `sometimes` is there every other time."""
    shape = {"workers": 1 + index % 2, "buffers": 64 << index % 3}
    text = "[server]\ndrain-timeout = 5min\n"
    for disk in ["disk", "changed-disk", "left-disk"]:  # each for one fio: they overwrite
        text += f"[export {disk}]\nstore = memory\nsize = 1M\n"
    text += listener("same", engine=engine, buffers=64)
    text += listener("disk", "nbd", engine, exports="disk", buffers=64)
    text += listener("changed", engine=engine, **shape)
    text += listener("changed-disk", "nbd", engine, exports="changed-disk", **shape)
    if leaving:
        text += listener("left", engine=engine, buffers=64)
        text += listener("left-disk", "nbd", engine, exports="left-disk", buffers=64)
    if index % 2:
        text += listener("sometimes", engine=engine, buffers=64)
    return text


class Generator:
    """A program that loads a listener until it is told to stop, or has done its part."""

    def __init__(self, daemon, name, command):
        self.name = name
        self.log = daemon.directory / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def text(self):
        return self.log.read_text(errors="replace")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class RedisBenchmark(Generator):
    """Ends by itself as soon as anything goes wrong, whatever is left to do."""

    def __init__(self, daemon, name, *options):
        command = [requires("redis-benchmark"), "-p", str(daemon.port(name)), "-t", "ping_mbulk"]
        super().__init__(daemon, name, [*command, "-c", "2", *options])

    def finish(self):
        assert self.process.wait(TIMEOUT) == 0, f"{self.name}: {self.text()[-1000:]}"

    def stop(self):
        assert self.process.poll() is None, f"{self.name}: {self.text()[-1000:]}"
        self.process.terminate()
        self.process.wait(TIMEOUT)
        assert "rror" not in self.text() and "ould not" not in self.text(), self.name


class Fio(Generator):
    def __init__(self, daemon, name, *options):
        self.output = daemon.directory / f"{name}.json"
        uri = f"nbd://127.0.0.1:{daemon.port(name)}/{name}"
        command = [requires("fio"), f"--name={name}", "--ioengine=nbd", f"--uri={uri}"]
        command += ["--rw=randrw", "--bs=4k", "--iodepth=4", "--size=1M", "--thinktime=500"]
        command += ["--output-format=json", f"--output={self.output}"]
        super().__init__(daemon, name, [*command, *options])

    def finish(self):
        self.process.wait(TIMEOUT)
        text = self.output.read_text()
        (job,) = json.loads(text[text.index("{") :])["jobs"]
        assert job["error"] == 0, f"{self.name}: {self.text()}"
        assert job["read"]["total_ios"] > 0 and job["write"]["total_ios"] > 0

    def stop(self):
        assert self.process.poll() is None, f"{self.name}: {self.text()}"
        self.process.send_signal(signal.SIGINT)
        self.finish()


class Connector(threading.Thread):
    """Connects, is answered, and again; sees what redis-benchmark would take for its own fault."""

    def __init__(self, address):
        super().__init__()
        self.address, self.done, self.failure, self.count = address, False, None, 0

    def run(self):
        try:
            while not self.done:
                visit(self.address)
                self.count += 1
        except (OSError, AssertionError) as error:
            self.failure = repr(error)

    def stop(self):
        self.done = True
        self.join()
        assert not self.failure, self.failure
        assert self.count > 0


def is_loaded(daemon, names):
    stats = daemon.call("GetStats", listeners=names)["listeners"]
    return all(entry["bytes_out"] > 1000 for entry in stats)


def reload(daemon, text):
    daemon.write_config(text)
    daemon.call("Reload")
    daemon.notified()


def threads(daemon):
    """{thread's name: its TID}"""
    return {name: tid for tid, name in daemon.threads().items()}


def reload_in_a_row(daemon, engine, count):
    """`sometimes` has a connection when it is removed, which is still answered."""
    for i in range(1, count, 2):
        reload(daemon, config(engine, i, leaving=False))
        with connect(daemon.addresses("sometimes")[0]) as s, Busy(s) as busy:
            reload(daemon, config(engine, i + 1, leaving=False))
            busy.goes_on()


def load(daemon):
    """Generators on what stays, and on what leaves."""
    staying = [
        RedisBenchmark(daemon, "same", "-l"),
        Fio(daemon, "disk", "--time_based", "--runtime=300"),
        RedisBenchmark(daemon, "changed", "-l", "-k", "0"),
        Fio(daemon, "changed-disk", "--time_based", "--runtime=300"),
    ]
    leaving = [RedisBenchmark(daemon, "left", "-n", "20000"), Fio(daemon, "left-disk", "--io_size=4M")]
    return staying, leaving


def run_under_load(daemon, engine, reloads):
    connector = Connector(daemon.addresses("changed")[0])
    staying, leaving = load(daemon)
    connector.start()
    try:
        names = [generator.name for generator in staying + leaving]
        wait_until(lambda: is_loaded(daemon, names), "the generators do not begin")
        reload_in_a_row(daemon, engine, reloads)
        for generator in leaving:
            generator.finish()
        connector.stop()
        for generator in staying:
            generator.stop()
    finally:
        connector.done = True
        for generator in staying + leaving:
            generator.kill()
        connector.join()
    reload(daemon, config(engine, 0))
    wait_until(lambda: not daemon.call("GetStatus")["leaving"], "old listeners do not drain")
    daemon.wait_closed("same")
    daemon.wait_closed("disk")


def test_reloads_under_load(start_daemon, engine):
    if "nbd" not in subprocess.check_output([requires("fio"), "--enghelp"], text=True).split():
        pytest.skip("this fio has no nbd engine")
    daemon = start_daemon(config(engine, 0))
    run_under_load(daemon, engine, WARM_UP)
    before, memory = threads(daemon), daemon.memory()
    descriptors, accepted = daemon.descriptors(), daemon.stats("same")["connections"]["accepted"]
    run_under_load(daemon, engine, RELOADS)
    wait_until(lambda: daemon.descriptors() <= descriptors, "descriptors are left")
    wait_until(lambda: len(threads(daemon)) <= len(before), "threads are left")
    for worker in ["same/0", "disk/0"]:
        assert threads(daemon)[worker] == before[worker]
    assert daemon.stats("same")["connections"]["accepted"] > accepted
    # The memory that malloc() keeps varies; a listener that was not freed would be 200 KiB and more.
    assert is_sanitized() or daemon.memory() < memory + (4 << 20)
    assert daemon.call("GetStatus")["generation"] == WARM_UP + RELOADS + 3
