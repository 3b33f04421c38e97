"""Run by test_vm_disks.py in a VM: the kernel's NVMe initiator over TLS, whose handshakes tlshd makes (ktls-utils)."""
import contextlib
import ctypes
import os
import secrets
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
def connected(daemon, serial, host=HOST):
    """As `nvme connect --tls` does, which nvme-cli 2.3 does not have."""
    options = (f"transport=tcp,traddr=127.0.0.1,trsvcid={daemon.port('nvme')},nqn={NQN},hostnqn={host},"
               f"hostid=11111111-2222-3333-4444-555555555555,nr_io_queues=2,keep_alive_tmo=30,tls,tls_key={serial}")
    fabrics = os.open("/dev/nvme-fabrics", os.O_RDWR)
    try:
        os.write(fabrics, options.encode())
        assert b"instance=" in os.read(fabrics, 100)
        yield Path("/dev") / wait_until(namespaces, "the namespace is there")[0].name
    finally:
        os.close(fabrics)
        must("nvme", "disconnect", "-n", NQN)
        wait_until(lambda: not list(Path("/sys/block").glob("nvme*n*")), "the namespace is gone")


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
