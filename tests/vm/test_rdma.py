"""RDMA on the kernel's software devices."""
import pytest

from virtual import boot, check, files, names_in

INSIDE = files("rdma", "faults", "remote")


@pytest.fixture(scope="module")
def results():
    return boot(INSIDE)


@pytest.mark.parametrize("name", names_in(INSIDE))
def test_in_vm(results, name):
    check(results, name)
