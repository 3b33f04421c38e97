"""Metrics: `nbctl stats --openmetrics` and `nbctl metrics`, and the Grafana dashboard that queries them.

test_monitoring.py has Prometheus read them."""

import http.client
import http.server
import json
import re
import signal
import socket
import subprocess

import pytest
from conftest import ENGINES, NBCTL, ROOT, TIMEOUT, Daemon, listener, wait_until

CONFIG = ("".join(listener(f"echo-{e}", engine=e) for e in ENGINES) + listener("disk", service="nbd", exports="ram")
          + "[export ram]\nstore = memory\nsize = 1M\n")
DASHBOARD = ROOT / "conf/grafana-nbserved.json"
RULES = ROOT / "conf/prometheus-nbserved.rules.yml"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Exporter:
    """`nbctl metrics` on a port that the kernel chooses."""

    def __init__(self, daemon, *arguments):
        self.process = subprocess.Popen(
            [str(NBCTL), "-s", daemon.control, "metrics", "--listen", "127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/metrics", self.url)
        assert match, self.url
        self.port = int(match[1])

    def request(self, method="GET", path="/metrics"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.request(method, path)
        reply = connection.getresponse()
        body = reply.read().decode()
        connection.close()
        return reply, body

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=TIMEOUT)
        assert errors == ""


@pytest.fixture
def exporter(daemon):
    one = Exporter(daemon)
    yield one
    one.stop()


def echo_some(daemon, name, count=100):
    with daemon.connect(name) as s:
        for _ in range(count):
            s.sendall(b"x" * 100)
            assert len(s.recv(100, socket.MSG_WAITALL)) == 100


def openmetrics(daemon):
    return daemon.nbctl("stats", "--openmetrics").stdout


# ---- The exporter ----


def without_what_changes(text):
    return re.sub(r"(?m)^nbserved_(uptime|cpu|context|syscalls|turns|kernel).*\n", "", text)


def test_serves_what_stats_prints(daemon, exporter):
    echo_some(daemon, "echo-epoll")
    daemon.wait_closed("echo-epoll")
    reply, body = exporter.request()
    assert reply.status == 200
    assert reply.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert int(reply.getheader("Content-Length")) == len(body)
    assert without_what_changes(body) == without_what_changes(openmetrics(daemon))


def answer_to(exporter, data):
    with exporter.connect() as s:
        s.sendall(data)
        received = b""
        while part := s.recv(4096):
            received += part
    return received


def test_a_query_is_ignored(exporter):
    assert exporter.request("GET", "/metrics?a=b")[0].status == 200


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"HEAD /metrics HTTP/1.1\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n", b"GET /metricsx HTTP/1.1\n\n",
                                  b"hello\r\n\r\n", b"\0" * 20000])  # fmt: skip
def test_other_requests_are_refused(exporter, data):
    answer = answer_to(exporter, data)
    assert answer.startswith(b"HTTP/1.1 404 ") and answer.endswith(b"\r\n\r\n")
    assert exporter.request()[0].status == 200


def test_stalled_clients_delay_no_other(exporter):
    stalled = [exporter.connect() for _ in range(5)]
    stalled[0].sendall(b"GET /metrics HT")
    assert exporter.request()[0].status == 200
    for s in stalled:
        s.close()


def test_many_scrapes_leave_nothing_behind(exporter):
    for _ in range(50):
        assert exporter.request()[0].status == 200
    # One that ended just before accept() is reaped after the next.
    wait_until(lambda: len(children(exporter.process.pid)) <= 1, "children are reaped")


def children(pid):
    return open(f"/proc/{pid}/task/{pid}/children").read().split()


def test_metrics_answer_503_while_the_daemon_is_away(daemon, exporter):
    daemon.process.kill()
    daemon.process.wait()
    reply, body = exporter.request()
    assert reply.status == 503
    assert "cannot reach the daemon" in body and daemon.control in body
    for name in ("control.sock", "notify.sock"):
        (daemon.directory / name).unlink()
    again = Daemon(CONFIG, daemon.directory)
    try:
        assert exporter.request()[0].status == 200
    finally:
        assert again.stop() == 0


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1", "127.0.0.1:1-2", "300.0.0.1:5"])
def test_a_wrong_address_exits_2(daemon, address):
    done = daemon.nbctl("metrics", "--listen", address, check=False)
    assert done.returncode == 2 and f"got '{address}'" in done.stdout


def test_an_address_in_use_exits_2(daemon, exporter):
    done = daemon.nbctl("metrics", "--listen", f"127.0.0.1:{exporter.port}", check=False)
    assert done.returncode == 2 and "Address already in use" in done.stdout


# ---- The dashboard ----


def queries(dashboard):
    """Each query of the dashboard with its variables filled in."""
    found = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", [])]
    found += [a["expr"] for a in dashboard["annotations"]["list"]]
    for text in found:
        text = text.replace("$__rate_interval", "30s").replace("$__interval", "30s")
        yield re.sub(r"\$(instance|listener|export)\b", ".*", text)


def test_every_metric_of_the_dashboard_exists(daemon):
    echo_some(daemon, "echo-epoll")
    have = set(re.findall(r"(?m)^(nbserved_\w+)", openmetrics(daemon)))
    dashboard = json.loads(DASHBOARD.read_text())
    texts = [*queries(dashboard), *(v.get("definition", "") for v in dashboard["templating"]["list"])]
    used = {name for text in texts for name in re.findall(r"\bnbserved_\w+", text)}
    assert len(used) > 15
    assert used <= have, used - have


def test_the_dashboard_is_well_formed():
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    cells = set()
    for panel in panels:
        at = panel["gridPos"]
        columns, lines = range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
        area = {(x, y) for x in columns for y in lines}
        assert at["x"] + at["w"] <= 24 and not area & cells, panel["title"]
        cells |= area
        assert panel["type"] == "row" or panel["description"]


def test_lines_of_several_hosts_are_apart():
    dashboard = json.loads(DASHBOARD.read_text())
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert targets
    for target in targets:
        assert "{{instance}}" in target["legendFormat"], target
        assert all(labels.startswith("instance, ") for labels in re.findall(r"sum by \((.*?)\)", target["expr"])), target


# ---- The alerts ----


def test_every_metric_of_the_alerts_exists(start_daemon):
    lost = listener("lost", address="203.0.113.7:9", optional="yes")  # an address that no host has
    daemon = start_daemon(CONFIG + listener("udp", transport="udp") + lost)
    text = openmetrics(daemon)
    have = set(re.findall(r"(?m)^(nbserved_\w+)", text))
    used = set(re.findall(r"(?m)^ +expr: .*?(nbserved_\w+)", RULES.read_text()))
    assert len(used) == 5
    assert used <= have, used - have
    assert 'nbserved_listener_info{listener="lost"' in text and 'state="unavailable"' in text


def test_histograms_have_few_buckets_and_always_the_same(daemon):
    """A series for each bucket, listener and operation: they must not depend on the latencies."""

    def bounds():
        found = {}
        for series, bound in re.findall(r'(?m)^(nbserved_\w+_bucket\{.*),le="([^"]+)"', openmetrics(daemon)):
            found.setdefault(series, []).append(bound)
        return found

    before = bounds()
    echo_some(daemon, "echo-epoll", 500)
    assert bounds() == before
    assert len(before) > len(ENGINES) and all(len(b) == 23 for b in before.values())
