"""NBD inside TLS (`nbds://`): nbdinfo, nbdcopy, libnbd and qemu-img, and clients that do not keep to the order."""

import os
import random
import shutil
import socket
import ssl
import struct

import nbd_client
import pytest
from conftest import TIMEOUT, listener, make_certificate, requires, run
from nbd_client import OPT_ABORT, OPT_EXPORT_NAME, OPT_GO, OPT_LIST, OPT_STARTTLS, OPT_STRUCTURED_REPLY, REP_ACK, Raw
from test_tls import client_context, sessions

nbd = pytest.importorskip("nbd", reason="python3-libnbd is not installed (make deps)")

MIB = 1 << 20
SIZE = 8 * MIB
ERR_UNSUP, ERR_INVALID, ERR_TLS_REQD = 0x80000001, 0x80000003, 0x80000005
SMALL = {"buffers": 32, "buffer_size": "4K"}  # less than many requests are long
EXPORT = f"[export disk]\nsize = {SIZE}\nstore = memory\n"


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """The listener's file; its folder has what clients look for."""
    pem = make_certificate(tmp_path_factory.mktemp("nbds"), "lab")
    shutil.copy(pem.with_suffix(".crt"), pem.parent / "ca-cert.pem")
    return pem


@pytest.fixture
def daemon(start_daemon, engine, pem):
    daemon = start_daemon(
        EXPORT
        + listener("nbds", service="nbd", engine=engine, exports="disk", tls="user", tls_certificate=pem)
        + listener("small", service="nbd", engine=engine, exports="disk", tls="user", tls_certificate=pem, **SMALL)
        + listener("nbd", service="nbd", engine=engine, exports="disk")
    )
    yield daemon
    for name in ["nbds", "small"]:
        daemon.wait_closed(name)


def uri(daemon, pem, name="nbds"):
    return f"nbds://127.0.0.1:{daemon.port(name)}/disk?tls-certificates={pem.parent}"


def tls_client():
    client = nbd.NBD()
    client.set_uri_allow_local_file(True)
    return client


def secure(client):
    """TLS for a client that has the answer to STARTTLS."""
    client.socket = client_context().wrap_socket(client.socket, server_hostname="localhost")
    return client


def starttls(daemon):
    client = Raw(daemon, "nbds")
    client.option(OPT_STARTTLS)
    assert client.option_replies() == [(REP_ACK, b"")]
    return secure(client)


# ---- Clients ----


def check_clients(daemon, folder, size, uri, other_uri, credentials):
    """Programs that talk TLS copy to the disk and back."""
    for command in ["nbdinfo", "nbdcopy", "qemu-img"]:
        requires(command)
    disk, back = folder / "disk", folder / "back"
    disk.write_bytes(os.urandom(size))
    assert f"export-size: {size}" in run("nbdinfo", uri)
    run("nbdcopy", disk, other_uri)
    run("nbdcopy", uri, back)
    assert back.read_bytes() == disk.read_bytes()
    place = f"driver=nbd,host=127.0.0.1,port={daemon.port('nbds')},export=disk,tls-creds=lab"
    back.unlink()
    run("qemu-img", "convert", "--object", f"{credentials},id=lab,endpoint=client", "--image-opts", place, "-O", "raw", back)
    assert back.read_bytes() == disk.read_bytes()
    daemon.wait_closed("nbds")
    assert sessions(daemon, "nbds")["handshakes"] >= 4 and sessions(daemon, "nbds")["failed"] == 0


def test_nbdinfo_nbdcopy_and_qemu_img(daemon, pem, tmp_path):
    check_clients(daemon, tmp_path, SIZE, *[uri(daemon, pem)] * 2, f"tls-creds-x509,dir={pem.parent}")


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("name", ["nbds", "small"])
def test_reads_and_writes_of_all_sizes(daemon, pem, name, structured):
    client, model, choose = tls_client(), bytearray(SIZE), random.Random(30)
    client.set_request_structured_replies(structured)
    client.connect_uri(uri(daemon, pem, name))
    assert client.get_tls_negotiated()
    for size in [1, 512, 4096, 16384, 65536, 100_001, 2 * MIB]:
        for _ in range(4):
            at, data = choose.randrange(SIZE - size), choose.randbytes(size)
            client.pwrite(data, at)
            model[at : at + size] = data
    assert b"".join(client.pread(MIB, at) for at in range(0, SIZE, MIB)) == bytes(model)
    client.shutdown()


@pytest.mark.parametrize("name", ["nbds", "small"])
def test_many_requests_in_flight(daemon, pem, name):
    client = tls_client()
    client.connect_uri(uri(daemon, pem, name))
    data = os.urandom(MIB)
    pieces = [(at, nbd.Buffer.from_bytearray(bytearray(data[at : at + 16384]))) for at in range(0, MIB, 16384)]
    cookies = [client.aio_pwrite(piece, at) for at, piece in pieces]
    while cookies:
        assert client.poll(TIMEOUT * 1000) == 1
        cookies = [cookie for cookie in cookies if not client.aio_command_completed(cookie)]
    assert client.pread(MIB, 0) == data
    client.shutdown()


def test_a_client_that_trusts_another_certificate_leaves(daemon, pem, tmp_path):
    other = make_certificate(tmp_path, "other")
    shutil.copy(other.with_suffix(".crt"), tmp_path / "ca-cert.pem")
    with pytest.raises(nbd.Error, match="handshake.*certificate"):
        tls_client().connect_uri(uri(daemon, other))


# ---- The order of options ----


def test_without_tls_nothing_is_told(daemon):
    with Raw(daemon, "nbds") as client:
        for option in [OPT_LIST, OPT_GO, OPT_STRUCTURED_REPLY, 99]:
            client.option(option, bytes(10))
            assert client.option_replies() == [(ERR_TLS_REQD, b"")]
        client.option(OPT_STARTTLS, b"data")
        assert client.option_replies() == [(ERR_INVALID, b"")]
        client.option(OPT_ABORT)
        assert client.option_replies() == [(REP_ACK, b"")]
    with Raw(daemon, "nbds") as client:
        client.option(OPT_EXPORT_NAME, b"disk")
        assert client.is_closed()
    with pytest.raises(nbd.Error, match="TLS"):
        nbd.NBD().connect_uri(f"nbd://127.0.0.1:{daemon.port('nbds')}/disk")


def test_tls_begins_once_and_only_where_it_is(daemon):
    with starttls(daemon) as client:
        client.option(OPT_STARTTLS)
        assert client.option_replies() == [(ERR_INVALID, b"")]
        client.go(b"disk").request(nbd_client.READ, 0, 512)
        assert client.reply(512)[0] == 0
    with Raw(daemon, "nbd") as client:
        client.option(OPT_STARTTLS)
        assert client.option_replies() == [(ERR_UNSUP, b"")]
        client.go(b"disk")


def test_what_was_said_in_clear_does_not_hold(daemon):
    """CVE-2021-3716: somebody in between asks for structured replies before the client begins TLS."""
    client = Raw(daemon, "nbds")
    client.option(OPT_STRUCTURED_REPLY)
    assert client.option_replies() == [(ERR_TLS_REQD, b"")]
    client.option(OPT_STARTTLS)
    assert client.option_replies() == [(REP_ACK, b"")]
    with secure(client):
        client.go(b"disk").request(nbd_client.READ, 0, 512)
        assert client.reply(512)[0] == 0  # a simple one


def option(kind, data=b""):
    return b"IHAVEOPT" + struct.pack(">II", kind, len(data)) + data


@pytest.mark.parametrize("behind", [option(OPT_LIST), option(OPT_STRUCTURED_REPLY), b"I", b"\x16\x03\x01"])
def test_what_is_put_behind_starttls_is_not_answered(daemon, behind):
    """What somebody in between adds in clear must not pass for the client's."""
    with Raw(daemon, "nbds") as client:
        client.send(option(OPT_STARTTLS) + behind)
        assert client.is_closed()
    daemon.wait_closed("nbds", accepted=1)
    assert daemon.stats("nbds")["connections"]["closed"]["protocol"] == 1


def test_clear_bytes_after_the_answer_end_the_handshake(daemon):
    with Raw(daemon, "nbds") as client:
        client.option(OPT_STARTTLS)
        assert client.option_replies() == [(REP_ACK, b"")]
        client.send(option(OPT_LIST))
        client.socket.shutdown(socket.SHUT_WR)
        with pytest.raises((EOFError, ConnectionResetError)):
            client.read(1000)  # at most an alert
    daemon.wait_closed("nbds", accepted=1)
    assert sessions(daemon, "nbds")["failed"] == 1
    with starttls(daemon) as client:  # the others are served
        client.go(b"disk")


def test_starttls_may_come_in_pieces(daemon):
    client = Raw(daemon, "nbds")
    for byte in option(OPT_STARTTLS):
        client.send(bytes([byte]))
    assert client.option_replies() == [(REP_ACK, b"")]
    with secure(client):
        client.go(b"disk")


def test_a_client_goes_within_each_step(daemon):
    for bytes_sent in [0, 4, 16, 17]:
        with Raw(daemon, "nbds") as client:
            client.send((option(OPT_STARTTLS) + b"\x16")[:bytes_sent])
    client = starttls(daemon)
    client.option(OPT_LIST)
    nbd_client.reset(client)
    daemon.wait_closed("nbds", accepted=5)
    with pytest.raises((ssl.SSLError, OSError)):
        secure(Raw(daemon, "nbds"))  # TLS from the first byte is not NBD
