"""The load generators that people use, unmodified, against each engine."""

import csv
import json
import subprocess

import pytest
from conftest import ENGINES, TIMEOUT, listener, requires, wait_until
from traffic import noise

KIB, MIB = 1024, 1024 * 1024


def run(*command, **options):
    """Standard output; fails on an exit status other than 0 and on anything said about errors."""
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            timeout=TIMEOUT, **options)
    said = result.stderr.decode(errors="replace")
    assert result.returncode == 0, f"{command[0]} ended with {result.returncode}: {said}"
    assert "rror" not in said, said
    return result.stdout


def settled(daemon, name):
    """The counters when every connection is closed."""
    daemon.wait_closed(name)
    stats = daemon.stats(name)
    assert stats["connections"]["closed"]["error"] == 0
    assert stats["pool"]["free"] >= stats["pool"]["chunks"] - 1  # chargen keeps its pattern
    return stats


# ---- redis-benchmark ----


REDIS_TESTS = {"PING_MBULK": b"*1\r\n$4\r\nPING\r\n", "SET": b"*3\r\n$3\r\nSET\r\n"}
REDIS_DATA = 512


@pytest.mark.parametrize("connections, pipeline", [(1, 1), (50, 16), (200, 1)])
def test_redis_benchmark(start_daemon, engine, connections, pipeline):
    """A request is a valid reply to itself."""
    requests = 4000 * pipeline
    daemon = start_daemon(listener("echo", engine=engine))
    output = run(requires("redis-benchmark"), *("-h", "127.0.0.1", "-p", daemon.port("echo")),
                 *("-t", ",".join(REDIS_TESTS).lower(), "-d", REDIS_DATA, "--csv"),
                 *("-n", requests, "-c", connections, "-P", pipeline)).decode()
    assert "rror" not in output
    measured = {row["test"]: float(row["rps"]) for row in csv.DictReader(output.splitlines())}
    assert measured.keys() == REDIS_TESTS.keys()
    assert all(rate > 0 for rate in measured.values())

    stats = settled(daemon, "echo")
    assert stats["bytes_out"] == stats["bytes_in"]
    least = sum(len(request) for request in REDIS_TESTS.values()) + REDIS_DATA
    assert stats["bytes_in"] >= requests * least
    # A batch holds at most one request of each of a connection's pipeline.
    assert stats["operations"]["echo"]["count"] >= 2 * requests / pipeline
    assert stats["operations"]["echo"]["errors"] == 0
    assert stats["connections"]["accepted"] >= 2 * connections


# ---- fio ----


FIO_GOODBYE = 8  # bytes a job that writes sends at its end


def fio(port, *options):
    """The jobs' results."""
    output = run(requires("fio"), *("--name=job", "--ioengine=net", "--protocol=tcp", "--hostname=127.0.0.1"),
                 f"--port={port}", "--output-format=json", *options)
    jobs = json.loads(output)["jobs"]
    assert jobs and all(job["error"] == 0 for job in jobs)
    return jobs


def test_fio_pingpong_on_echo(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine))
    (job,) = fio(daemon.port("echo"), "--rw=write", "--bs=4k", "--size=8m", "--pingpong=1")
    assert job["write"]["io_bytes"] == 8 * MIB
    stats = settled(daemon, "echo")
    assert stats["bytes_in"] == stats["bytes_out"] == 8 * MIB + FIO_GOODBYE


def test_fio_writes_to_discard(start_daemon, engine):
    daemon = start_daemon(listener("discard", service="discard", engine=engine))
    (job,) = fio(daemon.port("discard"), "--rw=write", "--bs=64k", "--size=64m")
    assert job["write"]["io_bytes"] == 64 * MIB
    assert settled(daemon, "discard")["bytes_in"] == 64 * MIB + FIO_GOODBYE


def test_fio_reads_from_chargen(start_daemon, engine):
    daemon = start_daemon(listener("chargen", service="chargen", engine=engine))
    (job,) = fio(daemon.port("chargen"), "--rw=read", "--bs=64k", "--size=64m")
    assert job["read"]["total_ios"] >= 64 * MIB // (64 * KIB)
    stats = settled(daemon, "chargen")
    assert stats["bytes_out"] >= job["read"]["io_bytes"] > 0


def test_fio_jobs_on_a_range_of_ports(start_daemon, engine, loopback_ports):
    """fio adds the number of the job to the port."""
    host, first = loopback_ports
    daemon = start_daemon(
        listener("discard", service="discard", engine=engine, address=f"{host}:{first}-{first + 3}")
    )
    jobs = fio(first, f"--hostname={host}", "--rw=write", "--bs=64k", "--size=16m", "--numjobs=4")
    assert [job["write"]["io_bytes"] for job in jobs] == [16 * MIB] * 4
    stats = settled(daemon, "discard")
    assert stats["bytes_in"] == 4 * (16 * MIB + FIO_GOODBYE)
    assert stats["connections"]["accepted"] == 4


# ---- iperf 2 ----


def test_iperf_to_discard(start_daemon, engine):
    daemon = start_daemon(listener("discard", service="discard", engine=engine))
    run(requires("iperf"), "-c", "127.0.0.1", "-p", daemon.port("discard"), "-n", "64M")
    run(requires("iperf"), "-c", "127.0.0.1", "-p", daemon.port("discard"), "-n", "16M", "-P", "4")
    stats = settled(daemon, "discard")
    assert stats["bytes_in"] >= 2 * 64 * MIB
    assert stats["connections"]["accepted"] >= 5


def test_iperf_full_duplex_to_echo(start_daemon, engine):
    """Its bytes come back while it still sends."""
    command = requires("iperf")
    if "full-duplex" not in subprocess.run([command, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                           text=True).stdout:
        pytest.skip("this iperf has no --full-duplex")
    daemon = start_daemon(listener("echo", engine=engine))
    output = run(command, "-c", "127.0.0.1", "-p", daemon.port("echo"), "-t", "1", "--full-duplex").decode()
    assert "[SUM]" in output, output
    stats = settled(daemon, "echo")
    assert stats["bytes_in"] > 0 and stats["bytes_out"] > 0


def test_iperf_bounceback_on_echo(start_daemon, engine):
    """A request, and its answer, again and again."""
    daemon = start_daemon(listener("echo", engine=engine))
    output = run(requires("iperf"), "-c", "127.0.0.1", "-p", daemon.port("echo"), "--bounceback",
                 "--bounceback-period", "0", "-l", "512", "-t", "1").decode()
    assert "BB8-" in output or "BB8(f)" in output, output
    stats = settled(daemon, "echo")
    assert stats["operations"]["echo"]["count"] > 1 and stats["bytes_in"] >= stats["bytes_out"] > 512


# ---- socat, and a shell ----


def test_socat(start_daemon, engine):
    """socat sends its end of file, and waits for the server's."""
    daemon = start_daemon(listener("echo", engine=engine))
    data = noise(3 * MIB)
    output = run(requires("socat"), "-t", TIMEOUT, "-", f"TCP:127.0.0.1:{daemon.port('echo')}", input=data)
    assert output == data
    assert settled(daemon, "echo")["bytes_out"] == len(data)


def test_socat_reads_from_chargen(start_daemon, engine):
    """Until the program behind it has read enough and goes."""
    daemon = start_daemon(listener("chargen", service="chargen", engine=engine))
    script = '"$1" -u "TCP:127.0.0.1:$2" - | head -c 300'
    output = subprocess.run(["bash", "-c", script, "bash", requires("socat"), str(daemon.port("chargen"))],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIMEOUT).stdout
    assert len(output) == 300 and output.startswith(b" !\"#$%&'()*+,-./0123456789")
    assert settled(daemon, "chargen")["bytes_out"] >= 300


# ---- Datagrams ----


def arrived(daemon, name):
    found = daemon.stats(name)["udp"]
    return found["in"] + found["overflowed"]


def test_fio_and_socat_with_datagrams(start_daemon):
    """fio sends datagrams of its own at the beginning and at the end."""
    daemon = start_daemon(
        "".join(listener(f"{s}-{e}", s, e, transport="udp") for s in ("echo", "discard") for e in ENGINES)
    )
    sizes = ("--protocol=udp", "--rw=write", "--bs=1400", "--size=280000")
    for e in ENGINES:
        for name, options in {f"echo-{e}": ["--pingpong=1"], f"discard-{e}": []}.items():
            (job,) = fio(daemon.port(name), *sizes, *options)
            sent = job["write"]["total_ios"] + 2
            wait_until(lambda n=name, c=sent: arrived(daemon, n) == c, f"{sent} to {name}")
        assert sent == 202
        command = [requires("socat"), "-t", "0.1", "-", f"UDP:127.0.0.1:{daemon.port(f'echo-{e}')}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
            for line in [b"one\n", b"two\n", b"three\n"]:
                process.stdin.write(line)
                assert process.stdout.readline() == line
            process.stdin.close()
            assert process.wait(TIMEOUT) == 0
