#!/usr/bin/python3
"""What TLS costs: http, nbd and echo with `tls = user`, over each engine, beside other servers.

    tls.py [--help]

nginx, haproxy, h2o, nbdkit, and stunnel before an echo without TLS, as far as they are installed; all have TLS 1.3,
TLS_AES_128_GCM_SHA256, a certificate of P-256, no tickets, and one CPU; those that took another cipher are left out.
CPU time is that of the server's process (of stunnel also of the echo behind it).

What differs besides: nginx and h2o say more in each reply, and have /bytes/1M as a file in the page cache; haproxy
has no 1 MiB to send.  nbdcopy reads through GnuTLS, wrk and redis-benchmark through OpenSSL.
"""

import contextlib
import functools
import getpass
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time

from report import compare, is_wanted, options_of
from servers import Daemon, Server, free_port, run

CIPHER = "TLS_AES_128_GCM_SHA256"
MIB = 1 << 20
DISK = 256 * MIB
ECHOES = 50_000
ENGINES = ["epoll", "io_uring", "io_uring-poll"]
NGINX = """
daemon off; master_process off; pid {dir}/pid; error_log {dir}/error;
events {{ worker_connections 1024; use epoll; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 3600s; sendfile off;
  client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};
  uwsgi_temp_path {dir}; scgi_temp_path {dir};
  ssl_certificate {pem}; ssl_certificate_key {pem}; ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites {cipher};
  ssl_session_tickets off; ssl_session_cache off;
  server {{ listen 127.0.0.1:{port} ssl; default_type text/plain; root {dir}/www;
            location = / {{ return 200 "nbserved\\n"; }} }}
}}
"""
HAPROXY = """
global
  nbthread 1
  ssl-default-bind-ciphersuites {cipher}
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 60s
frontend http
  bind 127.0.0.1:{port} ssl crt {pem} ssl-min-ver TLSv1.3 no-tls-tickets
  http-request return status 200 content-type text/plain string "nbserved "
"""
H2O = """
user: {user}
num-threads: 1
error-log: {dir}/error
pid-file: {dir}/pid
listen: {{host: 127.0.0.1, port: {port}, ssl: {{certificate-file: {pem}, key-file: {pem}, minimum-version: TLSv1.3}}}}
hosts: {{default: {{paths: {{/: {{file.dir: {dir}/www}}}}}}}}
"""
STUNNEL = """
foreground = yes
pid =
syslog = no
output = {dir}/log
[echo]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{behind}
cert = {pem}
sslVersionMin = TLSv1.3
ciphersuites = {cipher}
options = NO_TICKET
"""
NBDKIT = "nbdkit -f -p {port} -i 127.0.0.1 --tls=require --tls-certificates={dir} memory {disk}"
PEERS = {  # by kind: name, command, configuration; others are compared with the first
    "http": [
        ("nginx", "nginx -p {dir} -c {config}", NGINX),
        ("haproxy", "haproxy -db -q -f {config}", HAPROXY),
        ("h2o", "h2o -c {config}", H2O),
    ],
    "nbd": [("nbdkit", NBDKIT, "")],
    "echo": [("stunnel", "stunnel {config}", STUNNEL)],
}
# The libraries' own configuration, of servers and clients, leaves them no other cipher.
RULES = {
    "OPENSSL_CONF": "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = rules\n"
                    f"[rules]\nCiphersuites = {CIPHER}\n",
    "GNUTLS_SYSTEM_PRIORITY_FILE": "[overrides]\n" + "".join(
        f"tls-disabled-cipher = {name}\n" for name in ["aes-256-gcm", "chacha20-poly1305", "aes-128-ccm", "aes-256-ccm"]
    ),
}


# ---- Servers ----


class Peer(Server):
    """Somebody else's server, with the port of an echo that it may pass everything on to."""

    def __init__(self, folder, name, command, config, behind):
        port, path = free_port(), folder / f"{name}.conf"
        values = {"dir": folder, "port": port, "config": path, "behind": behind.port, "cipher": CIPHER,
                  "pem": folder / "lab.pem", "disk": DISK, "user": getpass.getuser()}
        path.write_text(config.format(**values))
        super().__init__(name, command.format(**values).split(), stdout=subprocess.DEVNULL)
        self.port = port
        self.pids = [self.pid, behind.pid] if "{behind}" in config else [self.pid]
        try:
            self.wait_port()
        except BaseException:
            self.__exit__()
            raise


def make_files(folder):
    """A certificate with its key, also as nbdkit wants them, and what nginx, h2o and nbdcopy read."""
    key, certificate = folder / "server-key.pem", folder / "server-cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
         "-subj", "/CN=lab", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, stderr=subprocess.DEVNULL,
    )
    (folder / "lab.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    (folder / "lab.pem").chmod(0o600)
    shutil.copy(certificate, folder / "ca-cert.pem")
    for variable, rules in RULES.items():
        os.environ[variable] = str(folder / variable)
        (folder / variable).write_text(rules)
    (folder / "www/bytes").mkdir(parents=True)
    (folder / "www/index.html").write_text("nbserved\n")
    (folder / "www/bytes/1M").write_bytes(bytes(MIB))
    (folder / "data").write_bytes(os.urandom(MIB) * (DISK // MIB))
    folder.chmod(0o755)


def makers(options, kind):
    """Functions that start the servers of a kind, the peers first."""
    program = options.build / "nbserved"
    behind = options.stack.enter_context(Daemon("plain", program, service="echo", engine="epoll"))
    for peer in PEERS[kind]:
        if shutil.which(peer[1].split()[0]):
            yield lambda peer=peer: Peer(options.folder, *peer, behind)
        else:
            print(f"({peer[0]} is not installed)")
    disk = {"sections": f"[export disk]\nsize = {DISK}\nstore = memory\n", "exports": "disk"} if kind == "nbd" else {}
    for engine in ENGINES:
        keys = {"service": kind, "engine": engine, "tls": "user", "tls-certificate": options.folder / "lab.pem", **disk}
        yield lambda name=engine, keys=keys: Daemon(name, program, **keys)


def start(options, kind):
    """The servers that start and take the cipher."""
    servers = []
    for make in makers(options, kind):
        try:
            server = options.stack.enter_context(make())
        except RuntimeError as error:
            print(f"({error})")
            continue
        if kind == "nbd":
            run(["nbdcopy", options.folder / "data", uri(server, options)])  # holes would be read in no time
        elif (cipher := cipher_of(server)) != CIPHER:
            print(f"({server.name} has {cipher})")
            continue
        servers.append(server)
    return servers


def cipher_of(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(("127.0.0.1", server.port))) as s:
        return s.cipher()[0]


# ---- Loads: how many operations, or GB, and in how many seconds ----


def wrk(path, connections, *headers):
    def visit(server, options):
        said = run(["wrk", "-t1", f"-c{connections}", f"-d{round(options.seconds)}", *headers,
                    f"https://127.0.0.1:{server.port}{path}"])
        if "Non-2xx" in said:
            raise RuntimeError(f"{server.name}: {said}")
        count, seconds = re.search(r"(\d+) requests in ([\d.]+)s", said).groups()
        return int(count), float(seconds)

    return visit


def timed(count, argv):
    begin = time.monotonic()
    run(argv)
    return count, time.monotonic() - begin


def uri(server, options):
    export = "" if server.name == "nbdkit" else "disk"
    return f"nbds://127.0.0.1:{server.port}/{export}?tls-certificates={options.folder}"


def nbdcopy(server, options):
    return timed(DISK / 1e9, ["nbdcopy", "--connections=1", "--requests=16", uri(server, options), "null:"])


def redis(server, _options):
    return timed(ECHOES, ["redis-benchmark", "--tls", "--insecure", "-p", server.port, "-t", "set", "-d", "512",
                          "-c", "50", "-n", ECHOES, "-q"])


LOADS = {  # title: kind, what is counted, the load, who cannot
    "http: GET /, 50 connections": ("http", "request", wrk("/", 50), ()),
    "http: GET /bytes/1M, 8 connections": ("http", "request", wrk("/bytes/1M", 8), ("haproxy",)),
    "http: GET / on a new connection each": ("http", "request", wrk("/", 16, "-H", "Connection: close"), ()),
    "nbd: nbdcopy of 256 MiB": ("nbd", "GB", nbdcopy, ()),
    "echo: SET of 512 bytes, 50 connections": ("echo", "request", redis, ()),
}


def visit(load, options, server):
    before = server.cpu_ns()
    count, seconds = load(server, options)
    return count / seconds, (server.cpu_ns() - before) / count, {}


def main():
    options = options_of(__doc__, 11, 1)
    with tempfile.TemporaryDirectory(prefix="nbserved-tls-") as folder:
        options.folder = pathlib.Path(folder)
        make_files(options.folder)
        for title, (kind, unit, load, without) in LOADS.items():
            if is_wanted(title, options):
                with contextlib.ExitStack() as options.stack:
                    servers = [s for s in start(options, kind) if s.name not in without]
                    compare(title, servers, options, functools.partial(visit, load, options), unit)


if __name__ == "__main__":
    main()
