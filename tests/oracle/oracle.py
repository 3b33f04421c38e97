#!/usr/bin/python3
"""oracle.py [--update]: what some sixty configurations show of themselves, compared with the files beside this one.

Of each configuration: `--dump-config`, GetStatus, GetStats and ListConnections; and once the interface's description.
Names and types are kept, and of texts that say a state the words; pids, times, ports, counters and paths are not.
Each line of a file ends with the configurations that have it, so a name that goes is a line that goes.
NBSERVED_BUILD names the build; --update writes the files.
"""

import collections
import difflib
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "system"), str(HERE.parent / "clients")]

import varlink_client  # noqa: E402
from conftest import NBSERVED, Daemon, listener, twin_address, wait_until  # noqa: E402

ENGINES = ["epoll", "io_uring", "io_uring-poll"]
# Fields whose words are kept; of the others the type is.
OF_THE_HOST = {"hardware", "misses", "software"}  # counters that it grants
WORDS = {"state", "engine", "service", "transport", "store", "stores", "mode", "cipher", "log_level", "batches", "name",
         "error", "read_only", "stopping", "workers"}
DISK = "[export disk]\nsize = 1M\n"


def configurations():
    """{name: text}; a `{dir}` in it is a folder of the daemon's own, `{twin}` an address free for TCP and UDP,
    `{loopback}` a host of its own."""
    all_ = {}
    for engine in ENGINES:
        for service in ["echo", "discard", "chargen", "http", "iperf3", "netperf", "sockperf"]:
            all_[f"{service}/{engine}"] = listener("l", service, engine)
        for service in ["echo", "discard", "chargen", "sockperf"]:
            all_[f"{service}-udp/{engine}"] = listener("l", service, engine, transport="udp", buffers=64)
        all_[f"echo-unix/{engine}"] = listener("l", "echo", engine, address="unix:{dir}/l.sock")
        all_[f"echo-tls/{engine}"] = listener("l", "echo", engine, tls="user")
        all_[f"nbd/{engine}"] = DISK + "store = memory\n" + listener("l", "nbd", engine, exports="disk")
    for store in ["memory", "null", "threads", "io_uring", "auto"]:
        file = "" if store in ("memory", "null") else "path = {dir}/disk\ncreate = yes\n"
        for kind, service in [("nbd-store", "nbd"), ("nvme", "nvme")]:
            all_[f"{kind}/{store}"] = (DISK + file + f"store = {store}\n"
                                       + listener("l", service, "io_uring", exports="disk"))
    all_["nbd-tls"] = DISK + "store = memory\n" + listener("l", "nbd", "io_uring", exports="disk", tls="user")
    all_["iperf3-twins"] = (listener("l", "iperf3", "epoll", address="{twin}")
                            + listener("u", "iperf3", "epoll", address="{twin}", transport="udp", buffers=64))
    all_["workers"] = listener("l", "echo", "epoll", workers=2)
    all_["range"] = listener("l", "echo", "epoll", address="{loopback}:20000-20003, [::1]:0")
    all_["abstract"] = listener("l", "http", "epoll", address="unix:@nbserved-oracle-{dir}")
    all_["sqpoll"] = listener("l", "echo", "io_uring", sqpoll="yes")
    all_["limits"] = listener("l", "echo", "epoll", allow="127.0.0.0/8, ::1", max_connections=5, idle_timeout="1min",
                              busy_poll="auto", batch_delay="5us", keepalive=0, cpus=0, optional="yes")
    all_["drain"] = "[server]\nlog-level = warning\ndrain-timeout = 1s\n" + listener("l", "echo", "epoll")
    return all_


def shape(value, path="", name=""):
    """Lines `path type` or `path "word"` of a JSON value."""
    if isinstance(value, dict) and "buckets" in value:
        yield f"{path}: histogram of {' '.join(value)}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in OF_THE_HOST:
                continue
            yield from shape(inner, f"{path}.{key}" if path else key, key)
    elif isinstance(value, list):
        yield f"{path}[]"
        for inner in value:
            yield from shape(inner, f"{path}[]", name)
    elif name in WORDS:
        yield f"{path} = {value}"
    else:
        yield f"{path}: {type(value).__name__}"


def dump(config_path, directory, control):
    """Lines `section: key = value (class)` of --dump-config, and `own` of those that the file gives."""
    text = subprocess.run([NBSERVED, "-c", config_path, "--dump-config"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    section = ""
    for line in text.replace(control, "CONTROL").replace(directory, "DIR").splitlines():
        found = re.match(r"(\S+) = (.*?) +; (.*)", line)
        if line.startswith("["):
            section = line.split("]")[0] + "]"
        elif found:
            key, value, origin = found.groups()
            value = re.sub(r"127[\d.]+:[\d-]+", "LOOPBACK", value)
            yield f"{section} {key} = {value} ; {re.sub(r'^/?[^,]*:[0-9]+', 'own', origin)}"


def connection(daemon, name):
    """What ListConnections tells of a connection to listener l, where a stream or a Unix socket has one."""
    if re.search("udp|tls", name):
        return {}
    address = daemon.addresses("l")[0]
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as s:
        s.connect(address)
        return wait_until(lambda: daemon.call("ListConnections")["connections"], "it is accepted")[0]


def look(name, config):
    """{file: lines} of one configuration."""
    directory = tempfile.mkdtemp(prefix="nbserved-oracle-")
    daemon = None
    try:
        places = {"{dir}": directory, "{twin}": twin_address(),
                  "{loopback}": "127." + ".".join(str(random.randrange(1, 255)) for _ in range(3))}
        for word, place in places.items():
            config = config.replace(word, place)
        daemon = Daemon(config, directory)
        seen = {"dump.txt": set(dump(daemon.config_path, directory, daemon.control))}
        for file, method in [("status.txt", "GetStatus"), ("stats.txt", "GetStats")]:
            seen[file] = set(shape(daemon.call(method)))
        seen["connections.txt"] = set(shape(connection(daemon, name)))
        assert daemon.stop() == 0, daemon.log()
        return seen
    finally:
        if daemon and daemon.process.poll() is None:
            daemon.process.kill()
            daemon.process.wait()
        shutil.rmtree(directory)


def interface():
    """The interface's description, as varlinkctl asks for it."""
    directory = tempfile.mkdtemp(prefix="nbserved-oracle-")
    daemon = Daemon(listener("l"), directory)
    try:
        return varlink_client.call(daemon.control, "org.varlink.service.GetInterfaceDescription",
                                   {"interface": "org.nbserved.Control"})["description"]
    finally:
        daemon.stop()
        shutil.rmtree(directory)


def short(names, every):
    """Their text; `echo/*` for all that begin so."""
    kinds = collections.Counter(n.split("/")[0] for n in names)
    whole = {k for k, count in kinds.items() if count == sum(n.split("/")[0] == k for n in every)}
    return " ".join(dict.fromkeys(f"{n.split('/')[0]}/*" if "/" in n and n.split("/")[0] in whole else n for n in names))


def table(lines, names):
    """Text of {line: configurations}: `line | which`."""
    text = []
    for line in sorted(lines):
        have, lack = [n for n in names if n in lines[line]], [n for n in names if n not in lines[line]]
        which = "all but " + short(lack, names) if len(lack) < len(have) else short(have, names)
        text.append(f"{line} | {which if lack else 'all'}\n")
    return "".join(text)


def observe(all_):
    """{file name: text} of this build."""
    files = collections.defaultdict(lambda: collections.defaultdict(set))
    for name, config in all_.items():
        for file, lines in look(name, config).items():
            for line in lines:
                files[file][line].add(name)
    result = {file: table(lines, list(all_)) for file, lines in files.items()}
    result["interface.varlink"] = interface()
    return result


def differences():
    """{file: (recorded, seen)} of those that differ."""
    seen = observe(configurations())
    return {file: (recorded, text) for file, text in seen.items()
            if (recorded := (HERE / file).read_text() if (HERE / file).exists() else "") != text}


def main():
    different = differences()
    for file, (recorded, text) in different.items():
        sys.stdout.writelines(difflib.unified_diff(recorded.splitlines(True), text.splitlines(True), file, "this build"))
        if "--update" in sys.argv:
            (HERE / file).write_text(text)
    return bool(different) and "--update" not in sys.argv


if __name__ == "__main__":
    sys.exit(main())
