"""NVMe/TCP inside TLS with keys of NVMe: openssl s_client carries the host's bytes.

The host's keys are derived in Python, which does not know the daemon's code; test_nvme_key.c has the
vectors of others."""

import os
import re
import secrets
import socket
import struct
import subprocess

import pytest
from conftest import check_config, listener, requires, wait_until
from nvme_client import DISCOVERY, DNR, Host, Queue, Status
from nvme_keys import derive, interchange
from test_tls import sessions, write

MIB = 1024 * 1024
NQN = "nqn.2026-11.example.lab:disks"
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
OTHER = "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555"
REFUSED = 0x184 | DNR


def config(tmp_path, lines, engine="epoll", more="", **keys):
    path = write(tmp_path / "keys.psk", "".join(f"{line}\n" for line in lines).encode())
    path.chmod(0o600)
    return (f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = {8 * MIB}\n" + more +
            listener("nvme", service="nvme", engine=engine, nqn=NQN, exports="disk", tls="user", tls_psk_file=path, **keys))


class Tunnels:
    """In place of a daemon for Host: its connections are in TLS with that identity and key."""

    def __init__(self, daemon, identity, key):
        requires("openssl")
        self.command = ["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{daemon.port('nvme')}", "-tls1_3",
                        "-psk_identity", identity, "-psk", key.hex()]
        self.processes = []

    def connect(self, name):
        assert name == "nvme"
        ours, theirs = socket.socketpair()
        with theirs:
            self.processes.append(subprocess.Popen(self.command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE))
        ours.settimeout(60)
        return ours

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.said = ""
        for process in self.processes:
            process.kill()
            self.said += process.communicate()[1].decode()


def key_line(key, hash_=1, host="", more=""):
    return f"{host} {interchange(key, hash_)}{more}".strip()


@pytest.mark.parametrize("version,hash_,host,compat", [(0, 1, "", False), (1, 1, HOST, False), (1, 0, HOST, False),
                                                        (1, 1, "", True), (0, 1, HOST, True)])
def test_data_is_what_was_written(start_daemon, tmp_path, engine, version, hash_, host, compat):
    """More than a record holds, and more than goes with a command."""
    key, data = secrets.token_bytes(32), os.urandom(256 * 1024)
    other = key_line(secrets.token_bytes(32), 1, "" if host else OTHER)
    line = key_line(key, hash_, host, " compat" if compat else "")
    daemon = start_daemon(config(tmp_path, [other, line], engine, workers=2))
    with Tunnels(daemon, *derive(key, hash_, HOST, NQN, version, compat=compat)) as tunnels:
        with Host(tunnels, "nvme", NQN, queues=2, hdgst=True, ddgst=True) as host:
            host.write(8, data)
            host.write(3, data[:4096], queue=1, capsule=True)
            host.flush()
            assert host.read(8, len(data) // 4096, queue=1) == data
            assert host.read(3) == data[:4096]
    daemon.wait_closed("nvme")
    assert sessions(daemon, "nvme")["handshakes"] == 3 and sessions(daemon, "nvme")["failed"] == 0
    assert all(kind["errors"] == 0 for kind in daemon.stats("nvme")["operations"].values())


def test_the_log_of_discovery_tells_of_tls(start_daemon, tmp_path):
    """Inside TLS and outside of it: SECTYPE is TLS 1.3, and TREQ requires a secure channel."""
    key = secrets.token_bytes(32)
    plain = listener("plain", service="nvme", nqn=NQN, exports="disk")
    daemon = start_daemon(config(tmp_path, [key_line(key)], more=plain))
    with Tunnels(daemon, *derive(key, 1, HOST, DISCOVERY)) as tunnels:
        for name, via in [("plain", daemon), ("nvme", tunnels)]:
            with Queue(via.connect(name)) as queue:
                queue.connect(DISCOVERY)
                queue.enable()
                log = queue.log(0x70, 4096)
            assert struct.unpack_from("<Q", log, 8) == (3,)
            found = {(log[at + 2], int(log[at + 32:at + 64].rstrip(b" \0"))): (log[at + 3], log[at + 768])
                     for at in (1024, 2048, 3072)}
            own = found.pop((3, daemon.port(name)))
            assert found == {(2, daemon.port("plain")): (4, 0), (2, daemon.port("nvme")): (5, 2)}
            assert own == found[2, daemon.port(name)]


def fails(daemon, identity, key):
    """A host that is refused in the handshake; what the log says of it."""
    before = len(daemon.log())
    with Tunnels(daemon, identity, key) as tunnels:
        with pytest.raises((EOFError, ConnectionError)), Queue(tunnels.connect("nvme")):
            pass
    assert "alert" in tunnels.said, tunnels.said
    return wait_until(lambda: re.search(r"listener 'nvme': connection \S+ from \S+: TLS: in the handshake: (.*)",
                                        daemon.log()[before:]), "the log tells of it")[1]


def test_keys_that_are_not_proved(start_daemon, tmp_path):
    """The log tells which identity it was, and why, without being asked for details."""
    key, wrong = secrets.token_bytes(32), secrets.token_bytes(32)
    daemon = start_daemon(config(tmp_path, [key_line(key, host=HOST), f"alice:{key.hex()}"]))
    good, tls = derive(key, 1, HOST, NQN, 1)
    for (identity, psk), said in [
        (derive(wrong, 1, HOST, NQN, 1), "its digest is of another key than the host's in tls-psk-file"),
        (derive(wrong, 1, HOST, NQN, 0), "binder does not verify"),
        (derive(key, 1, HOST, NQN, 0, compat=True), "binder does not verify"),
        (derive(key, 1, OTHER, NQN, 1), "tls-psk-file has no key for that host"),
        (derive(key, 1, HOST, NQN, 1, cipher=2), "its hash is of another tls-cipher: 01 of aes-128-gcm"),
        ((good.replace("R01", "G01"), tls), "expected NVMe0R01 HOSTNQN SUBNQN, or NVMe1R01"),
        ((good.replace("NVMe1", "NVMe2"), tls), "expected NVMe0R01 HOSTNQN SUBNQN, or NVMe1R01"),
    ]:
        told = fails(daemon, identity, psk)
        assert told.startswith(said), told
        assert told.endswith(f"; it is {identity}") or said.startswith("expected"), told
    assert "NVMe" not in fails(daemon, "bob", wrong)
    log = daemon.log()
    assert key.hex() not in log and interchange(key, 1) not in log
    assert sessions(daemon, "nvme")["failed"] == 8 and sessions(daemon, "nvme")["handshakes"] == 0


def test_a_host_is_the_one_whose_key_it_has_proved(start_daemon, tmp_path):
    """Connect names host and subsystem again, and is refused for any others."""
    key = secrets.token_bytes(32)
    daemon = start_daemon(config(tmp_path, [key_line(key), f"alice:{key.hex()}"]))
    hostid = b"0123456789abcdef"
    for identity, named in [
        (derive(key, 1, OTHER, NQN), (NQN, HOST)),
        (derive(key, 1, HOST, DISCOVERY), (NQN, HOST)),
        (derive(key, 1, HOST, NQN), (DISCOVERY, HOST)),
        (derive(key, 1, HOST, NQN + "2", 0), (NQN, HOST)),
        (derive(key, 1, HOST, NQN, 0), (NQN, HOST[:-1])),
        (("alice", key), (NQN, HOST)),
    ]:
        with Tunnels(daemon, *identity) as tunnels, Queue(tunnels.connect("nvme")) as queue:
            with pytest.raises(Status) as failed:
                queue.connect(named[0], host=(named[1], hostid))
            assert failed.value.args[0] == REFUSED
        assert f"Connect of {named[1]} {named[0]}, but the key that it has proved is of " in daemon.log()
    for version in [0, 1]:
        with Tunnels(daemon, *derive(key, 1, HOST, NQN, version)) as tunnels, Host(tunnels, "nvme", NQN) as host:
            assert host.read(0) == bytes(4096)


def test_a_reload_replaces_the_key_of_a_host(start_daemon, tmp_path):
    old, new = secrets.token_bytes(32), secrets.token_bytes(32)
    daemon = start_daemon(config(tmp_path, [key_line(old)]))
    with Tunnels(daemon, *derive(old, 1, HOST, NQN)) as tunnels, Host(tunnels, "nvme", NQN) as host:
        config(tmp_path, [key_line(new)])
        daemon.nbctl("reload")
        assert "its digest is of another key" in fails(daemon, *derive(old, 1, HOST, NQN))
        assert host.read(0) == bytes(4096)  # an open connection goes on
    with Tunnels(daemon, *derive(new, 1, HOST, NQN)) as tunnels, Host(tunnels, "nvme", NQN) as host:
        assert host.read(0) == bytes(4096)


def test_a_host_without_tls_is_told_of_nothing(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path, [key_line(secrets.token_bytes(32))]))
    with pytest.raises((EOFError, ConnectionError)), Queue(daemon.connect("nvme")):
        pass
    wait_until(lambda: "TLS: in the handshake: " in daemon.log(), "the log tells of it")


def test_what_is_checked_before_the_start(tmp_path):
    key = secrets.token_bytes(32)
    line = key_line(key, host=HOST)
    wrong = line.replace("NVMeTLSkey-1:01:", "NVMeTLSkey-1:02:")
    assert check_config(tmp_path, config(tmp_path, [line, key_line(key)], tls_cipher="aes-256-gcm"))[0] == 0
    without = re.sub("tls-psk-file = .*\n", "", config(tmp_path, [line]))
    assert "tls: expected tls-psk-file with it, as hosts of service nvme check no certificate" in check_config(
        tmp_path, without)[1]
    for lines, said in [([wrong], "expected 32 bytes and their CRC in NVMeTLSkey-1:01:BASE64:"),
                        ([line, line], "expected each identity once, got something else in line 2"),
                        ([line[:-1]], "expected NVMeTLSkey-1:HASH:BASE64:, as `nvme gen-tls-key` prints it")]:
        said_, told = check_config(tmp_path, config(tmp_path, lines))
        assert said_ and said in told, told


def test_nvme_cli_makes_keys_that_are_taken(start_daemon, tmp_path):
    requires("nvme")
    for hash_, cipher in [(1, "aes-128-gcm"), (2, "aes-256-gcm")]:
        made = subprocess.run(["nvme", "gen-tls-key", f"--hmac={hash_}"], check=True, stdout=-1, text=True).stdout.strip()
        assert made.startswith(f"NVMeTLSkey-1:{hash_:02}:"), made
        assert check_config(tmp_path, config(tmp_path, [made], tls_cipher=cipher))[0] == 0, made
