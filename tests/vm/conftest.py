"""Boots the VM of test_rdma.py when its tests are known to come, beside the tests before them."""
from concurrent.futures import ThreadPoolExecutor


def pytest_collection_finish(session):
    modules = {item.module for item in session.items if item.fspath.basename == "test_rdma.py"}
    if modules and not session.config.option.collectonly:
        session.config.vm_boot = ThreadPoolExecutor(1).submit(modules.pop().boot)
