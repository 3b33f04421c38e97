"""The kernel's NBD client and NVMe initiator, losses of power, and TLS in the kernel."""
import shutil

import pytest

from virtual import check, files, names_in, results  # noqa: F401

MINUTES = 7

INSIDE = files("nbd", "nvme", "nvme_tls", "tls", "power")


@pytest.mark.parametrize("name", names_in(INSIDE))
def test_in_vm(results, name):
    if name.startswith("inside_nvme_tls::") and not shutil.which("tlshd"):
        pytest.skip("tlshd is missing: ktls-utils, which Debian 12 does not have")
    check(results, name)
