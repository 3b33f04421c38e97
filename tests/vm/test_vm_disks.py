"""The kernel's NBD client and NVMe initiator, losses of power, and TLS in the kernel."""
import pytest

from virtual import check, files, names_in, results  # noqa: F401

MINUTES = 7

INSIDE = files("nbd", "nvme", "nvme_tls", "tls", "power")


@pytest.mark.parametrize("name", names_in(INSIDE))
def test_in_vm(results, name):
    check(results, name)
