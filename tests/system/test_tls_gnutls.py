"""Listeners with `tls-library = gnutls`: what those of OpenSSL are tested with, and both side by side."""

import json
import shutil

import pytest
import test_tls
from conftest import listener
from test_tls import (  # noqa: F401 (run here with the other library)
    check_config,
    connect,
    make_certificate,
    pem,
    secured,
    sessions,
    test_a_client_that_does_not_read,
    test_a_fin_without_close_notify,
    test_a_reload_replaces_the_certificate,
    test_a_reset_within_a_record,
    test_alpn,
    test_an_older_version_is_refused_with_an_alert,
    test_changed_records,
    test_close_notify_is_answered_after_all_output,
    test_discard_and_chargen,
    test_echo_of_records_of_all_sizes,
    test_ends_within_each_flight,
    test_files_that_cannot_be_used,
    test_https_to_curl_wrk_and_h2load,
    test_many_connections_share_a_small_pool,
    test_no_tls_at_all,
    test_reloads_under_load,
    test_rsa_and_a_key_in_another_file,
    test_single_bytes,
    test_the_cipher_is_the_only_one,
    test_the_service_ends_with_close_notify,
    test_what_follows_close_notify_is_dropped,
)
from test_tls_psk import (  # noqa: F401
    keys,
    test_a_reload_replaces_the_keys,
    test_nbdinfo_nbdcopy_and_qemu_img,
    test_other_clients_are_refused,
    test_s_client,
)

nbd = pytest.importorskip("nbd", reason="python3-libnbd is not installed (make deps)")


@pytest.fixture(autouse=True)
def library(monkeypatch, tmp_path):
    monkeypatch.setattr(test_tls, "LIBRARY", {"tls_library": "gnutls"})
    wrong = secured("x", "/nowhere/x.pem")
    if "has no GnuTLS" in check_config(tmp_path, wrong):
        pytest.skip("this build has no GnuTLS")


def test_a_certificate_is_made(start_daemon, engine):
    daemon = start_daemon(listener("http", service="http", engine=engine, tls="user", **test_tls.LIBRARY))
    with connect(daemon, "http") as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert test_tls.receive_all(s).endswith(b"\r\n\r\nnbserved\n")
    tls = daemon.status("http")["tls"]
    assert tls["library"].startswith("GnuTLS 3.") and tls["subject"] == tls["issuer"] == "CN=nbserved"
    assert tls["days_left"] >= 3649 and "tls user, GnuTLS 3." in daemon.nbctl("status").stdout


def test_nbd_with_a_certificate(start_daemon, engine, tmp_path):
    lab = make_certificate(tmp_path, "lab")
    shutil.copy(lab.with_suffix(".crt"), tmp_path / "ca-cert.pem")
    export = "[export disk]\nsize = 4M\nstore = memory\n"
    daemon = start_daemon(export + secured("nbds", lab, service="nbd", engine=engine, exports="disk"))
    client = nbd.NBD()
    client.set_uri_allow_local_file(True)
    client.connect_uri(f"nbds://127.0.0.1:{daemon.port('nbds')}/disk?tls-certificates={tmp_path}")
    client.pwrite(b"data" * 250_000, 1000)
    assert client.pread(1_000_000, 1000) == b"data" * 250_000
    client.shutdown()
    daemon.wait_closed("nbds", accepted=1)
    assert sessions(daemon, "nbds")["failed"] == 0


def test_updates_of_keys(start_daemon, pem):  # noqa: F811
    """GnuTLS takes eight in a second; both sides go on with the new keys."""
    daemon = start_daemon(test_tls.both("epoll", pem))
    client = test_tls.Client(daemon, "echo")
    for i in range(6):
        client.say(b"line %d" % i, b"line %d" % i)
        client.say(b"K" if i % 2 else b"k", b"KEYUPDATE")
    client.say(b"last", b"last")
    client.end()
    daemon.wait_closed("echo", accepted=1)
    assert sessions(daemon, "echo")["failed"] == 0


def test_compare_names_both_libraries(start_daemon, pem, tmp_path):  # noqa: F811
    one = {"service": "http", "tls": "user", "tls_certificate": pem}
    daemon = start_daemon(listener("a", **one) + listener("b", **one, tls_library="gnutls"))
    rows, curl = tmp_path / "rows.jsonl", ["curl", "-skf", "{uri}bytes/64K", "-o", tmp_path / "body"]
    daemon.nbctl("compare", "--repeat", "2", "--save", rows, "a", "b", "--", *curl)
    shown = daemon.nbctl("compare", "--load", rows, "--wide").stdout
    for name in "ab":
        assert f"tls by {daemon.status(name)['tls']['library']} with aes-128-gcm" in shown
    libraries = {json.loads(line)["tls"]["library"].split()[0] for line in rows.read_text().splitlines()}
    assert libraries == {"OpenSSL", "GnuTLS"}
