"""The measurements of `make claims`: scenes, each a daemon with listeners that differ in one thing, and the
loads that visit them.  claims_table.py has what they decide.

A load is one `nbbench compare`.  They are no `--sweep`, though some form a grid: the number of requests, by which a visit
takes a tenth of a second or two, depends on both values; each load ends when it is known, while a sweep ends with its
least certain point; and the labels are the keys by which claims find rows."""

import dataclasses
import os

from servers import ALL_CPUS, CLIENT_CPU, SERVER_CPU

FILES, FILE_SIZE = 100, 64 << 10
ENGINES = ("epoll", "io_uring", "io_uring-poll")
CONTROL = "epoll-again"
GRID = [(c, p) for c in (1, 50, 1000) for p in (1, 16)]  # connections, requests in flight of each
REQUESTS = {(1, 1): 4000, (1, 16): 40000, (50, 1): 16000, (50, 16): 160000, (1000, 1): 16000,
            (1000, 16): 160000}
FEATURES = ("registered_ring", "multishot_recv", "buffer_ring",
            "incremental_buffers", "recv_bundle", "silent_send", "defer_taskrun")
ZC_SIZES = (4, 16, 64, 256)  # KiB
ECHO_SIZES = (64, 1024, 8192, 16384)
THINK_MS = {"polls": 50, "sleeps": 1200}  # between requests: the kernel's thread of sqpoll sleeps after 1 s
LATENCIES_US = (100, 5000)  # as a flash device's, and as a disk's
VM_ROUNDS = 6  # the least that can decide: see claims_rows.py
LONG_ROUNDS = 8
LOSSES_PERCENT = (0, 1)  # of the packets towards the server
PINNED = ("taskset", "-c", str(CLIENT_CPU))


@dataclasses.dataclass
class Load:
    label: str
    listeners: tuple
    command: tuple
    rounds: int = 0  # of visits that are long; 0: until it is known


@dataclasses.dataclass
class Scene:
    name: str
    config: str  # with {directory} where files go
    loads: list
    files: dict = dataclasses.field(default_factory=dict)  # name: bytes, made beforehand


def section(kind, name, **keys):
    return f"[{kind} {name}]\n" + "".join(
        f"{key.replace('_', '-')} = {value}\n" for key, value in keys.items() if value is not None)


def listener(name, engine, service="echo", cpus=SERVER_CPU, **keys):
    return section("listener", name, address="127.0.0.1:0", engine=engine, service=service, cpus=cpus,
                   max_connections=20000, **keys)


def redis(connections, pipeline, size=512):
    return (*PINNED, "redis-benchmark", "-p", "{port}", "-d", str(size), "-c", str(connections), "-P",
            str(pipeline), "-n", str(REQUESTS[connections, pipeline]), "-t", "set", "-q")


def echo_label(connections, pipeline):
    return f"echo 512 B, {connections} x {pipeline}"


def echo_scene():
    """With a second listener that is as the first: the control."""
    names = (*ENGINES, CONTROL)
    loads = [Load(echo_label(c, p), names, redis(c, p)) for c, p in GRID]
    return Scene("echo", "".join(listener(n, "epoll" if n == CONTROL else n) for n in names), loads)


def polling_scene():
    """A worker that spins before it sleeps, and a kernel thread that polls submissions, which needs
    a CPU of its own: where there are but two it has the generator's."""
    names = ("plain", "sqpoll", "busy-poll")
    third = next((cpu for cpu in ALL_CPUS if cpu not in (CLIENT_CPU, SERVER_CPU)), CLIENT_CPU)
    config = (listener("plain", "io_uring")
              + listener("sqpoll", "io_uring", sqpoll=third)
              + listener("busy-poll", "io_uring", busy_poll="100us"))
    loads = [Load(f"polling, {c} x {p}", names, redis(c, p)) for c, p in ((1, 1), (50, 16))]
    return Scene("polling", config, [*loads, Load("polling, 8 B", names, redis(1, 1, 8))])


def fio_nbd(*words):
    return (*PINNED, "fio", "--name=x", "--ioengine=nbd", "--thread", "--group_reporting", "--output-format=json",
            "--uri=nbd://127.0.0.1:{port}/disk", "--size=64m", *words)


def sleep_scene():
    """A client that thinks between requests: less, and more, than the kernel's thread polls."""
    third = next((cpu for cpu in ALL_CPUS if cpu not in (CLIENT_CPU, SERVER_CPU)), CLIENT_CPU)
    config = section("export", "disk", store="memory", size="64M") + "".join(
        listener(name, "io_uring", "nbd", exports="disk", sqpoll=sqpoll)
        for name, sqpoll in (("plain", None), ("sqpoll", third)))
    return Scene("sleep", config, [
        Load(f"sqpoll {state}", ("plain", "sqpoll"), fio_nbd(
            "--rw=randread", "--bs=4k", "--iodepth=1", "--number_ios=3", f"--thinktime={ms}ms"), LONG_ROUNDS)
        for state, ms in THINK_MS.items()])


def sizes_scene():
    """One of the io_uring listeners has so few buffers that they fit into a CPU's cache."""
    config = listener("epoll", "epoll") + listener("io_uring", "io_uring") + listener("few-buffers", "io_uring",
                                                                                      buffers=16)
    return Scene("sizes", config, [Load(f"echo of {size} B", ("epoll", "io_uring", "few-buffers"), redis(50, 1, size))
                                   for size in ECHO_SIZES])


def receive_scene():
    """epoll receives datagrams by recvmmsg, io_uring by recvmsg of many shots."""
    sockperf = (*PINNED, "sockperf", "throughput", "-i", "127.0.0.1", "-p", "{port}", "-m", "64", "-t", "1")
    config = "".join(listener(engine, engine, "sockperf", transport="udp") for engine in ("epoll", "io_uring"))
    return Scene("receive", config, [Load("datagrams of 64 B", ("epoll", "io_uring"), sockperf, LONG_ROUNDS)])


def http_scene():
    config = listener("epoll", "epoll", "http") + listener("io_uring", "io_uring", "http")
    wrk = (*PINNED, "wrk", "-t1", "-c64", "-d1", "http://127.0.0.1:{port}/")
    return Scene("http", config, [Load("http, 64 connections", ("epoll", "io_uring"), wrk)])


def scans_scene():
    """32 scans of a file that is cached; worker has three processes, unless it is configured."""
    stores = ("threads", "io_uring", "blocking")
    config = section("export", "disk", path="{directory}/disk", threads=3) + "".join(
        listener(store, "io_uring", "nbd", cpus="any", store=store, exports="disk") for store in stores)
    return Scene("scans", config, [Load("32 scans", stores, fio_nbd(
        "--rw=read", "--bs=128k", "--iodepth=4", "--numjobs=32", "--time_based", "--runtime=300ms"))], {"disk": 64 << 20})


def features_scene():
    names = ("all", *(f"-{f}" for f in FEATURES))
    config = listener("all", "io_uring") + "".join(
        listener(f"no-{f}", "io_uring", features=f"-{f}") for f in FEATURES)
    config += listener("accept", "io_uring", "http") + listener(
        "no-multishot_accept", "io_uring", "http", features="-multishot_accept")
    ab = (*PINNED, "ab", "-q", "-c", "16", "-n", "4000", "http://127.0.0.1:{port}/")
    names = ("all", *(f"no-{f}" for f in FEATURES))
    loads = [Load(f"features, {c} x {p}", names, redis(c, p)) for c, p in ((50, 1), (50, 16))]
    return Scene("features", config,
                 [*loads, Load("features, a connection each", ("accept", "no-multishot_accept"), ab)])


def files_fio(job):
    command = ["fio", "--ioengine=nbd", "--thread", "--group_reporting", f"--size={FILE_SIZE}",
               f"--bs={FILE_SIZE}", f"--rw={job}", "--time_based", "--runtime=300ms",
               "--output-format=json"]
    for i in range(FILES):
        command += [f"--name=f{i}", f"--uri=nbd://127.0.0.1:{{port}}/f{i}"]
    return tuple(command)


def files_scene(name, title, **keys):
    """io_uring against worker threads: as often quoted, of 100 files read or written whole, at once."""
    exports = "".join(section("export", f"f{i}", path=f"{{directory}}/f{i}", **keys)
                      for i in range(FILES))
    names = ("threads", "io_uring")
    all_exports = "\nexports = ".join(
        ", ".join(f"f{i}" for i in range(k, k + 10)) for k in range(0, FILES, 10))
    config = exports + "".join(listener(store, "io_uring", "nbd", cpus="any", store=store,
                                        exports=all_exports) for store in names)
    return Scene(name, config, [Load(f"{title}, {job}", names, files_fio(job))
                                for job in ("read", "write")],
                 {f"f{i}": FILE_SIZE for i in range(FILES)})


def ring_scene():
    """One ring for sockets and files, or epoll for sockets and a ring for files."""
    command = [*PINNED, "fio", "--name=x", "--ioengine=nbd", "--uri=nbd://127.0.0.1:{port}/disk",
               "--bs=4k", "--iodepth=32", "--size=64m", "--time_based", "--runtime=300ms",
               "--randrepeat=0", "--output-format=json"]
    config = section("export", "disk", path="{directory}/disk") + listener(
        "hybrid", "epoll", "nbd", store="io_uring", exports="disk") + listener(
        "unified", "io_uring", "nbd", store="io_uring", exports="disk")
    return Scene("ring", config, [Load(f"4 KiB, {job}, 32 at once", ("hybrid", "unified"),
                                       (*command, f"--rw={job}")) for job in ("randread", "randwrite")],
                 {"disk": 64 << 20})


def zero_copy_scene():
    config = listener("copied", "io_uring", "http") + listener("zero-copy", "io_uring", "http",
                                                               zero_copy_min="1")
    return Scene("zero-copy", config, [
        Load(f"sends of {size} KiB", ("copied", "zero-copy"),
             (*PINNED, "wrk", "-t1", "-c8", "-d1", f"http://127.0.0.1:{{port}}/bytes/{size}K"))
        for size in ZC_SIZES])


# ---- In a VM: the kernel has null_blk there, and RDMA devices ----


def latency_label(latency_us, job):
    return f"null_blk, {latency_us} us, {job}"


def latency_scene(latency_us):
    """One engine, and what differs is who waits for the device: the kernel, as many threads as there are
    requests, or the worker.  The second io_uring is the control."""
    stores = {"io_uring": "io_uring", "io_uring-again": "io_uring", "threads": "threads", "blocking": "blocking"}
    config = section("export", "disk", path="/dev/nullb0", direct="yes", threads=32) + "".join(
        listener(name, "io_uring", "nbd", cpus="any", store=store, exports="disk") for name, store in stores.items())
    command = ("fio", "--name=x", "--ioengine=nbd", "--uri=nbd://127.0.0.1:{port}/disk", "--bs=4k", "--iodepth=32",
               "--size=64m", "--time_based", "--runtime=100ms", "--randrepeat=0", "--output-format=json")
    return Scene(f"null_blk-{latency_us}", config, [
        Load(latency_label(latency_us, job), tuple(stores), (*command, f"--rw=rand{job}"), VM_ROUNDS)
        for job in ("read", "write")])


def rdma_listener(name, address, service, **keys):
    return section("listener", name, engine="rdma", transport="rdma", address=f"{address}:0", service=service, **keys)


def sides_scene(address):
    """The listeners have the names of fio's verbs."""
    verbs = ("write", "read", "send")
    fio = ("fio", "--name=f", "--thread", "--ioengine=rdma", "--iodepth=8", "--hostname={host}", "--port={port}",
           "--verb={listener}", "--rw=write", "--bs=4k", "--size=2M", "--output-format=json")
    return Scene("sides", "".join(rdma_listener(verb, address, "fio") for verb in verbs),
                 [Load("rdma, fio 4 KiB", verbs, fio, VM_ROUNDS)])


def loss_name(kind, percent):
    return f"{kind}-{percent:g}"


LOSS_LABEL = "rdma, fio 4 KiB, packets lost"


def loss_scene(addresses):
    """addresses: by (kind of device, percent), of links of which each loses so much."""
    names = {loss_name(*link): address for link, address in addresses.items()}
    fio = ("fio", "--name=f", "--thread", "--ioengine=rdma", "--iodepth=8", "--hostname={host}", "--port={port}",
           "--verb=write", "--rw=write", "--bs=4k", "--size=4M", "--output-format=json")
    return Scene("loss", "".join(rdma_listener(name, address, "fio") for name, address in names.items()),
                 [Load(LOSS_LABEL, tuple(names), fio, VM_ROUNDS)])


def scenes():
    return [echo_scene(), polling_scene(), features_scene(), ring_scene(),
            zero_copy_scene(), sleep_scene(), sizes_scene(), receive_scene(), http_scene(), scans_scene(),
            files_scene("cached", "100 files, cached"),
            files_scene("direct", "100 files, O_DIRECT on this disk", direct="yes")]


def cpus_are_apart():
    return len(ALL_CPUS) > 1 and CLIENT_CPU != SERVER_CPU


def fill(directory, files):
    for name, size in files.items():
        with open(directory / name, "wb") as f:
            for _ in range(0, size, 1 << 16):
                f.write(os.urandom(min(size, 1 << 16)))
