"""Run by test_vm_disks.py in a VM: the kernel's NVMe initiator over TLS, whose handshakes tlshd makes (ktls-utils)."""
import contextlib
import ctypes
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/system"), str(TOP / "tests/system/daemon"), str(TOP / "tests/clients")]
from conftest import listener, requires, start_daemon, wait_until  # noqa: E402,F401
from inside_nvme import FIO, HOST, NQN, must, namespaces  # noqa: E402
from nvme_keys import derive, interchange  # noqa: E402
from test_tls import sessions, write  # noqa: E402

ADD_KEY = 248  # the system call, on x86-64


def listens_to_the_kernel(pid):
    """Is it in a multicast group of generic netlink?  Its port there is the process, and a number above that."""
    sockets = [line.split() for line in Path("/proc/net/netlink").read_text().splitlines()[1:]]
    return any(words[1] == "16" and int(words[2]) & 0x3FFFFF == pid and int(words[3], 16) for words in sockets)


@pytest.fixture(scope="module")
def tlshd(tmp_path_factory):
    """As the unit of ktls-utils runs it."""
    requires("tlshd")
    must("modprobe", "-a", "aesni_intel", "tls", "nvme-tcp", "nvme-keyring")  # no udev loads the first here
    folder = tmp_path_factory.mktemp("tlshd")
    conf, log = folder / "tlshd.conf", folder / "log"
    conf.write_text("[debug]\nloglevel=1\ntls=0\nnl=0\n[authenticate]\nkeyrings=.nvme\n")
    with open(log, "wb") as said:
        process = subprocess.Popen(["tlshd", "-s", "-c", conf], stdout=said, stderr=said)
    wait_until(lambda: listens_to_the_kernel(process.pid), "tlshd is ready")
    yield log
    process.kill()
    process.wait()


def add_key(identity, key):
    """The key of TLS where the kernel looks for it, as `nvme check-tls-key --insert` puts it."""
    with open("/proc/keys", encoding="ascii") as keys:
        keyring = next(int(line.split()[0], 16) for line in keys if " .nvme: " in line)
    libc = ctypes.CDLL(None, use_errno=True)
    serial = libc.syscall(ADD_KEY, b"psk", identity.encode(), key, ctypes.c_size_t(len(key)), ctypes.c_long(keyring))
    assert serial > 0, os.strerror(ctypes.get_errno())
    return serial


def config(tmp_path, line, engine="io_uring", **keys):
    path = write(tmp_path / "keys.psk", line.encode() + b"\n")
    path.chmod(0o600)
    return (f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 64M\n"
            + listener("nvme", "nvme", engine, exports="disk", nqn=NQN, tls_psk_file=path, **keys))


@contextlib.contextmanager
def until_disconnected():
    try:
        yield Path("/dev") / wait_until(namespaces, "the namespace is there")[0].name
    finally:
        must("nvme", "disconnect", "-n", NQN)
        wait_until(lambda: not list(Path("/sys/block").glob("nvme*n*")), "the namespace is gone")


@contextlib.contextmanager
def connected(daemon, serial, host=HOST):
    """As `nvme connect --tls` does, with one key of several of the same names."""
    options = (f"transport=tcp,traddr=127.0.0.1,trsvcid={daemon.port('nvme')},nqn={NQN},hostnqn={host},"
               f"hostid=11111111-2222-3333-4444-555555555555,nr_io_queues=2,keep_alive_tmo=30,tls,tls_key={serial}")
    fabrics = os.open("/dev/nvme-fabrics", os.O_RDWR)
    try:
        os.write(fabrics, options.encode())
        assert b"instance=" in os.read(fabrics, 100)
        with until_disconnected() as device:
            yield device
    finally:
        os.close(fabrics)


@pytest.mark.parametrize("mode,version", [("user", 0), ("ktls-tx", 1), ("ktls", 1)])
def test_data_inside_tls(start_daemon, tmp_path, tlshd, mode, version):
    """With keys of SHA-256: Debian 13's GnuTLS, and so its tlshd, takes all for such."""
    key = secrets.token_bytes(32)
    daemon = start_daemon(config(tmp_path, f"{HOST} {interchange(key, 1)}", tls=mode))
    serial = add_key(*derive(key, 1, HOST, NQN, version))
    with connected(daemon, serial) as device:
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randrw", "--size=512k")
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randwrite", "--size=1m", "--bs=256k")
    daemon.wait_closed("nvme")
    counts = sessions(daemon, "nvme")
    queues = counts["handshakes"]
    assert queues >= 2 and counts["failed"] == 0, (counts, daemon.log(), tlshd.read_text())
    assert counts["kernel_sends"] == queues * (mode != "user") and counts["kernel_receives"] == queues * (mode == "ktls")
    assert not any(kind["errors"] for kind in daemon.stats("nvme")["operations"].values())


def libnvme():
    """Its version: before 1.16 it derives keys in another way."""
    return tuple(int(part) for part in must("nvme", "version").split("libnvme version ")[1].split()[0].split("."))


# GnuTLS 3.8.11 is the first that has keys of SHA-384.
HASHES = [1, 2] if b"allocate_client_credentials2" in Path(shutil.which("tlshd") or os.devnull).read_bytes() else [1]


@pytest.mark.parametrize("hash_", HASHES)
@pytest.mark.parametrize("version", [0, 1])
def test_nvme_cli_makes_inserts_and_uses_keys(start_daemon, tmp_path, tlshd, hash_, version):
    """Identities of both versions and digests; the kernel finds the key by the names of host and subsystem."""
    host = f"{HOST}.{hash_}.{version}"
    key = must("nvme", "gen-tls-key", "--hmac", hash_).strip()
    compat = " compat" if libnvme() < (1, 16) else ""
    cipher = {1: "aes-128-gcm", 2: "aes-256-gcm"}[hash_]
    daemon = start_daemon(config(tmp_path, f"{host} {key}{compat}", tls="user", tls_cipher=cipher))
    must("nvme", "check-tls-key", "--keydata", key, "--hostnqn", host, "--subsysnqn", NQN, "--identity", version,
         "--insert")
    must("nvme", "connect", "--tls", "-t", "tcp", "-a", "127.0.0.1", "-s", daemon.port("nvme"), "-n", NQN, "-q", host,
         "-i", 1, "-k", 30)
    with until_disconnected() as device:
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randrw", "--size=256k")
    daemon.wait_closed("nvme")
    counts = sessions(daemon, "nvme")
    assert counts["handshakes"] == 2 and counts["failed"] == 0, (counts, daemon.log(), tlshd.read_text())
    assert f"NVMe{version}R{hash_:02} {host}" in Path("/proc/keys").read_text()


def test_other_keys_of_tls_are_refused(start_daemon, tmp_path, tlshd):
    """Host and daemon each say so; a host without TLS is refused as well."""
    key = secrets.token_bytes(32)
    daemon = start_daemon(config(tmp_path, f"{HOST} {interchange(key, 1)}", tls="user"))
    for serial, host, said in [
        (add_key(*derive(secrets.token_bytes(32), 1, HOST, NQN, 0)), HOST, "binder does not verify"),
        (add_key(*derive(secrets.token_bytes(32), 1, HOST, NQN, 1)), HOST, "its digest is of another key"),
        (add_key(*derive(key, 1, HOST + "2", NQN)), HOST + "2", "tls-psk-file has no key for that host"),
        (add_key(*derive(key, 1, HOST, NQN)), HOST + "2", "but the key that it has proved is of"),
    ]:
        with pytest.raises(OSError), connected(daemon, serial, host):
            pass
        wait_until(lambda said=said: said in daemon.log(), said)
    with connected(daemon, add_key(*derive(key, 1, HOST, NQN))):
        pass
