"""Keys that clients share with a listener of TLS (`tls-psk-file`): nbdinfo, nbdcopy, qemu-img, openssl s_client."""

import json
import secrets
import subprocess

import pytest
from conftest import TIMEOUT, check_config, failed_start, listener, wait_until
from test_nbd_tls import check_clients
from test_tls import Client, sessions, write

nbd = pytest.importorskip("nbd", reason="python3-libnbd is not installed (make deps)")

SIZE = 4 << 20
EXPORT = f"[export disk]\nsize = {SIZE}\nstore = memory\n"


class Keys:
    """A file of keys, in a folder as qemu wants it."""

    def __init__(self, folder, *names):
        self.folder, self.path = folder, folder / "keys.psk"
        self.change(*names)

    def change(self, *names):
        self.keys = {name: secrets.token_hex(32) for name in names}
        write(self.path, "".join(f"{name}:{key}\n" for name, key in self.keys.items()).encode()).chmod(0o600)


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path, "alice", "bob@lab")


def start(start_daemon, keys, engine="epoll", **more):
    more |= {"engine": engine, "tls": "user", "tls_psk_file": keys.path}
    return start_daemon(EXPORT + listener("nbds", service="nbd", exports="disk", **more) + listener("echo", **more))


def uri(daemon, keys, name="alice"):
    return f"nbds://{name}@127.0.0.1:{daemon.port('nbds')}/disk?tls-psk-file={keys.path}"


def connect(daemon, keys, name="alice"):
    client = nbd.NBD()
    client.set_uri_allow_local_file(True)
    client.connect_uri(uri(daemon, keys, name))
    return client


def s_client_fails(daemon, *options):
    """The output of an s_client that fails."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{daemon.port('echo')}", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=-1, stderr=subprocess.STDOUT, timeout=TIMEOUT, text=True)
    assert done.returncode, done.stdout
    return done.stdout


def test_nbdinfo_nbdcopy_and_qemu_img(start_daemon, engine, keys):
    daemon = start(start_daemon, keys, engine)
    check_clients(daemon, keys.folder, SIZE, uri(daemon, keys), uri(daemon, keys, "bob%40lab"),
                  f"tls-creds-psk,dir={keys.folder},username=alice")


@pytest.mark.parametrize("cipher", ["aes-128-gcm", "chacha20-poly1305"])
def test_s_client(start_daemon, keys, cipher):
    daemon = start(start_daemon, keys, tls_cipher=cipher)
    client = Client(daemon, "echo", "-psk_identity", "alice", "-psk", keys.keys["alice"])
    client.say(b"hello", b"hello")
    client.end()
    daemon.wait_closed("echo", accepted=1)
    assert sessions(daemon, "echo")["handshakes"] == 1


def test_other_clients_are_refused(start_daemon, engine, keys, tmp_path):
    daemon = start(start_daemon, keys, engine)
    (tmp_path / "other").mkdir()
    other = Keys(tmp_path / "other", "alice", "eve")
    for name in ["alice", "eve"]:  # another key, and none with that name
        with pytest.raises(nbd.Error, match="handshake"):
            connect(daemon, other, name)
    assert "alert" in s_client_fails(daemon)  # without a key
    for name in ["nbds", "echo"]:
        daemon.wait_closed(name)
    assert sessions(daemon, "nbds")["failed"] == 2 and sessions(daemon, "echo")["failed"] == 1
    assert connect(daemon, keys).get_size() == SIZE


def test_a_reload_replaces_the_keys(start_daemon, keys):
    daemon = start(start_daemon, keys)
    client, old = connect(daemon, keys), dict(keys.keys)
    keys.change("alice", "carol", "dave")
    daemon.nbctl("reload")
    assert connect(daemon, keys, "carol").get_size() == SIZE
    assert "alert" in s_client_fails(daemon, "-psk_identity", "alice", "-psk", old["alice"])
    assert client.pread(512, 0) == bytes(512)  # an open connection goes on
    assert "listener 'nbds': new TLS clients need one of 3 pre-shared keys" in daemon.log()
    good = keys.path.read_bytes()
    write(keys.path, b"alice\n")
    assert daemon.nbctl("reload", check=False).returncode
    write(keys.path, good)
    assert connect(daemon, keys, "carol").get_size() == SIZE


def test_what_is_shown_of_them(start_daemon, keys):
    daemon = start(start_daemon, keys)
    tls = daemon.status("nbds")["tls"]
    assert tls["shared_keys"] == 2 and "subject" not in tls
    assert daemon.status("nbds")["example"].startswith("nbdinfo 'nbds://NAME@127.0.0.1:")
    assert "openssl s_client" in daemon.status("echo")["example"]
    assert "aes-128-gcm; 2 keys shared with clients" in daemon.nbctl("status").stdout


def test_keys_that_cannot_be_used(start_daemon, tmp_path, keys, pem):
    good = keys.path.read_text()
    for name, text, mode, said in [
        ("none", None, 0o600, "No such file or directory; make it: `psktool -u NAME -p FILE`"),
        ("open", good, 0o644, "may be read by others; `chmod g-w,o-rwx"),
        ("writable", good, 0o660, "may be written by others"),
        ("empty", "", 0o600, "expected lines IDENTITY:KEY, the key in hexadecimal digits, got something else in '"),
        ("wrong", good + "carol\n", 0o600, "got something else in line 3 of '"),
        ("short", "alice:abcd\n", 0o600, "expected a key of 16 to 64 bytes in hexadecimal digits"),
        ("twice", good + good, 0o600, "expected each identity once, got something else in line 3"),
    ]:
        path = tmp_path / name
        if text is not None:
            write(path, text.encode()).chmod(mode)
        config = listener("x", tls="user", tls_psk_file=path)
        log = failed_start(start_daemon, config, 1)
        assert "listener 'x' (" in log and ": tls-psk-file: " in log and said in log, log
        assert not any(key in log for key in keys.keys.values())
        checked = check_config(tmp_path, config)[1]
        assert "/check.ini:5: [listener x] tls-psk-file: " in checked and said in checked, checked
    for more, said in [({"tls_cipher": "aes-256-gcm"}, "tls-cipher: expected one with SHA-256"),
                       ({"tls_certificate": pem}, "tls-certificate: expected none with tls-psk-file")]:
        assert said in check_config(tmp_path, listener("x", tls="user", tls_psk_file=keys.path, **more))[1]
    assert "requires tls = user" in check_config(tmp_path, listener("x", tls_psk_file=keys.path))[1]


def writable_memory(pid):
    """The daemon's data, piece by piece; a sanitizer's reservations of terabytes are left out."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            begin, end = (int(address, 16) for address in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - begin <= 256 << 20:
                try:
                    memory.seek(begin)
                    yield memory.read(end - begin)
                except OSError:  # a device's, or gone since
                    pass


def test_the_keys_are_told_nowhere(start_daemon, keys, tmp_path):
    """Neither by the log, at its most talkative, nor by the control socket; and the text of the file was wiped."""
    daemon = start(start_daemon, keys)
    daemon.nbctl("log-level", "debug")
    assert connect(daemon, keys).get_size() == SIZE
    (tmp_path / "other").mkdir()
    with pytest.raises(nbd.Error):
        connect(daemon, Keys(tmp_path / "other", "alice"))
    wait_until(lambda: "TLS: in the handshake: " in daemon.log(), "the failure is logged")
    told = daemon.log() + json.dumps([daemon.call(f"Get{what}") for what in ["Status", "Stats", "Config"]])
    assert "alice" not in told
    for key in keys.keys.values():
        assert key not in told and key.upper() not in told
    with open(f"/proc/{daemon.pid}/coredump_filter", encoding="ascii") as mask:
        assert int(mask.read(), 16) == 0  # and a core file has no memory at all
    try:
        found = [key for data in writable_memory(daemon.pid) for key in keys.keys.values() if key.encode() in data]
    except PermissionError as error:
        pytest.skip(f"the daemon's memory cannot be read here: {error}")
    assert not found
