"""Clients of perftest and of rdma-core, on the kernel's software devices."""
import pytest

from virtual import check, files, names_in, results  # noqa: F401

MINUTES = 5

INSIDE = files("far", "exchange")


@pytest.mark.parametrize("name", names_in(INSIDE))
def test_in_vm(results, name):
    check(results, name)
