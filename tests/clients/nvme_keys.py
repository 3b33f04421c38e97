"""Keys of NVMe/TCP over TLS as a host derives them (TCP Transport Specification 1.0c, 3.6.1), with nothing but HMAC."""

import base64
import hashlib
import hmac
import struct
import zlib

HASHES = {0: hashlib.sha256, 1: hashlib.sha256, 2: hashlib.sha384}


def interchange(key, hash_):
    """As `nvme gen-tls-key` prints a configured PSK."""
    return f"NVMeTLSkey-1:{hash_:02}:{base64.b64encode(key + struct.pack('<I', zlib.crc32(key))).decode()}:"


def _expand(digest, secret, label, context, size, compat):
    """HKDF-Expand-Label(HKDF-Extract(0, secret), ...), of which one block is enough."""
    extracted = hmac.digest(bytes(digest().digest_size), secret, digest)
    label = b"tls13 " + label
    if compat:  # libnvme before 1.16
        info = struct.pack("<H", size) + label + context
    else:
        info = struct.pack(">HB", size, len(label)) + label + bytes([len(context)]) + context
    return hmac.digest(extracted, info + b"\1", digest)[:size]


def derive(key, hash_, host, subsystem, version=1, cipher=None, compat=False):
    """(identity, key of TLS) for a configured PSK; cipher: 1 or 2, of the cipher's hash."""
    cipher = cipher or hash_ or (1 if len(key) == 32 else 2)
    digest = HASHES[cipher]
    retained = _expand(HASHES[hash_], key, b"HostNQN", host.encode(), len(key), compat) if hash_ else key
    identity = f"NVMe{version}R{cipher:02} {host} {subsystem}"
    context = identity
    if version:
        said = base64.b64encode(hmac.digest(retained, f"{host} {subsystem} NVMe-over-Fabrics".encode(), digest)).decode()
        identity += f" {said}"
        context = f"{cipher:02} {said}"
    return identity, _expand(digest, retained, b"nvme-tls-psk", context.encode(), digest().digest_size, compat)
