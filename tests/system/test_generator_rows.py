"""Each row of the table in doc/generators.md has a test that runs its generator."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
# Words of a row's first command, the generator's name first: the test that runs it, in tests/.
TESTS = {
    "redis-benchmark": "system/daemon/test_clients.py::test_redis_benchmark",
    "fio --rw=write --pingpong=1": "system/daemon/test_clients.py::test_fio_pingpong_on_echo",
    "fio --name=in": "system/daemon/test_clients.py::test_fio_writes_to_discard",
    "fio --name=out": "system/daemon/test_clients.py::test_fio_reads_from_chargen",
    "iperf 127.0.0.1 -P": "system/daemon/test_clients.py::test_iperf_to_discard",
    "iperf --full-duplex": "system/daemon/test_clients.py::test_iperf_full_duplex_to_echo",
    "iperf --bounceback": "system/daemon/test_clients.py::test_iperf_bounceback_on_echo",
    "socat TCP:127.0.0.1:7008": "system/daemon/test_clients.py::test_socat",
    "socat -u": "system/daemon/test_clients.py::test_socat_reads_from_chargen",
    "socat UDP:127.0.0.1:7008": "system/daemon/test_clients.py::test_fio_and_socat_with_datagrams",
    "sockperf --tcp ping-pong -i": "system/daemon/test_sockperf.py::test_ping_pong",
    "sockperf ping-pong 127.0.0.1": "system/daemon/test_udp.py::test_sockperf",
    "iperf3 -P": "system/daemon/test_iperf3.py::test_many_streams",
    "iperf3 -u": "system/daemon/test_iperf3_udp.py::test_iperf3s_options",
    "wrk": "system/daemon/test_http.py::test_wrk",
    "h2load": "system/daemon/test_http.py::test_h2load",
    "ab": "system/daemon/test_http.py::test_ab",
    "hey": "system/daemon/test_http.py::test_hey",
    "curl": "system/daemon/test_http.py::test_curl",
    "fio --ioengine=nbd": "system/daemon/test_nbd.py::test_fio_verifies_what_it_wrote",
    "nbdinfo": "system/daemon/test_nbd.py::test_nbdinfo_lists_the_abilities_of_the_export",
    "nbdcopy": "system/daemon/test_nbd.py::test_nbdcopy_both_ways_keeps_every_byte",
    "qemu-img bench": "system/daemon/test_nbd.py::test_qemu_reads_what_it_wrote",
    "netperf TCP_RR": "system/daemon/test_netperf.py::test_netperf",
    "netperf UDP_RR": "system/daemon/test_netperf.py::test_netperf",
    "nvme tcp": "vm/inside_nvme.py::test_connect_all",
    "nvme rdma": "vm/inside_nvme.py::test_connect_all",
    "rping": "vm/inside_remote.py::test_rping_in_all_its_modes",
    "fio --ioengine=rdma": "vm/inside_remote.py::test_fio_of_some_sizes",
    "ib_send_bw -F": "vm/inside_exchange.py::test_perftest_over_tcp",
    "ib_send_lat -F": "vm/inside_exchange.py::test_perftest_over_tcp",
    "ib_send_lat -c UD": "vm/inside_exchange.py::test_perftest_over_tcp_with_other_queue_pairs",
    "rdma_client": "vm/inside_rdma.py::test_rdma_core_client",
    "rdma_xclient": "vm/inside_far.py::test_rdma_xclient_sends_its_message",
    "ucmatose": "vm/inside_far.py::test_ucmatose_connects_and_waits_for_the_server_to_leave",
    "cmtime": "vm/inside_far.py::test_cmtime_times_connections",
}


def test_each_row_has_a_test():
    """That of TESTS that fits, of several the one with most words."""
    table = (ROOT / "doc/generators.md").read_text().split("| generator | service | command |", 1)[1].split("\n\n", 1)[0]
    found = set()
    for row in (line for line in table.splitlines()[2:] if line.startswith("|")):
        words = re.search("`([^`]+)`", re.split(r"(?<!\\)\|", row)[3])[1].split()
        fit = [key for key in TESTS if set(key.split()) <= set(words)]
        assert fit, f"no test in TESTS runs: {row}"
        found.add(max(fit, key=lambda key: len(key.split())))
    assert set(TESTS) == found, "no row has some of TESTS any more"
    for key, (name, function) in ((key, test.split("::")) for key, test in TESTS.items()):
        text = (ROOT / "tests" / name).read_text()
        assert f"def {function}(" in text, key
        assert re.search(rf"(?<![\w-]){re.escape(key.split()[0])}(?![\w-])", text), f"{name} does not name {key}"
