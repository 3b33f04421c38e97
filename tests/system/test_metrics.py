"""Metrics: `nbctl stats --openmetrics` and `nbctl metrics`, read by promtool and by a real Prometheus,
and the Grafana dashboard that queries them."""

import http.client
import http.server
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
from conftest import ENGINES, NBCTL, ROOT, TIMEOUT, Daemon, listener, wait_until

CONFIG = (
    "".join(listener(f"echo-{e}", engine=e) for e in ENGINES)
    + listener("disk", service="nbd", exports="ram")
    + "[export ram]\nstore = memory\nsize = 1M\n"
)
DASHBOARD = ROOT / "conf/grafana-nbserved.json"
RULES = ROOT / "conf/prometheus-nbserved.rules.yml"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def requires_prometheus(tool):
    path = shutil.which(tool)
    if not path:
        pytest.skip(f"{tool} is not installed (make deps DEPS=monitor)")
    return path


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
def daemon(start_daemon):
    return start_daemon(CONFIG)


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


# ---- promtool ----


def check_metrics(text):
    done = subprocess.run(
        [requires_prometheus("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_finds_no_fault(daemon, exporter):
    for engine in ENGINES:
        echo_some(daemon, f"echo-{engine}")
    check_metrics(openmetrics(daemon))
    check_metrics(exporter.request()[1])


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
    head, nothing = exporter.request("HEAD")
    assert (head.status, nothing) == (200, "")


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/metrics?a=b", 200),
        ("GET", "/", 404),
        ("HEAD", "/nothing", 404),
        ("POST", "/metrics", 405),
        ("GET", "/metrics\tx", 404),
    ],
)
def test_other_requests(exporter, method, path, status):
    if "\t" in path:
        with exporter.connect() as s:
            s.sendall(f"{method} {path} HTTP/1.1\r\n\r\n".encode())
            assert s.recv(4096).startswith(f"HTTP/1.1 {status} ".encode())
        return
    reply, body = exporter.request(method, path)
    assert reply.status == status and (body == "") == (method == "HEAD")


@pytest.mark.parametrize("data", [b"hello\r\n\r\n", b"\0" * 20000, b"GET /metrics HTTP/9\n\n"])
def test_input_other_than_http_is_refused(exporter, data):
    with exporter.connect() as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        received = b""
        while part := s.recv(4096):
            received += part
    assert received.startswith(b"HTTP/1.1 400 ")
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


# ---- A real Prometheus ----


class Prometheus:
    """Scrapes `targets`, {job: HOST:PORT}, every second."""

    def __init__(self, directory, host, port, targets):
        jobs = [
            {"job_name": job, "static_configs": [{"targets": [target]}]}
            for job, target in targets.items()
        ]
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}}
        path = directory / "prometheus.yml"
        path.write_text(json.dumps({**config, "scrape_configs": jobs}))  # JSON is YAML, too
        self.url = f"http://{host}:{port}"
        self.log_path = directory / "prometheus.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [
                    requires_prometheus("prometheus"),
                    f"--config.file={path}",
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address={host}:{port}",
                ],
                stdout=log,
                stderr=log,
            )

    def get(self, path, **parameters):
        url = f"{self.url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            pytest.fail(f"{parameters}: {error.read().decode()}")

    def query(self, text):
        return self.get("/api/v1/query", query=text)["result"]

    def is_ready(self):
        assert self.process.poll() is None, self.log_path.read_text()
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=TIMEOUT).close()
        except OSError:
            return False
        return True

    def stop(self):
        self.process.terminate()
        self.process.wait(TIMEOUT)


class OpenMetricsServer(http.server.BaseHTTPRequestHandler):
    """Serves `stats --openmetrics` as what it says that it is, so that the other parser reads it."""

    def do_GET(self):
        body = openmetrics(self.server.daemon).encode()
        self.send_response(200)
        self.send_header("Content-Type", OPENMETRICS)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def prometheus(daemon, exporter, loopback_ports, tmp_path):
    requires_prometheus("prometheus")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OpenMetricsServer)
    server.daemon = daemon
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    targets = {
        "exporter": f"127.0.0.1:{exporter.port}",
        "file": f"127.0.0.1:{server.server_port}",
    }
    one = Prometheus(tmp_path, *loopback_ports, targets)
    yield one
    one.stop()
    server.shutdown()
    thread.join()
    server.server_close()


def queries(dashboard):
    """Each query of the dashboard with its variables filled in."""
    found = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", [])]
    found += [a["expr"] for a in dashboard["annotations"]["list"]]
    for text in found:
        text = text.replace("$__rate_interval", "30s").replace("$__interval", "30s")
        yield re.sub(r"\$(instance|listener|export)\b", ".*", text)


def test_prometheus_scrapes_both_and_the_dashboard_has_data(daemon, prometheus):
    wait_until(prometheus.is_ready, "Prometheus")
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            for engine in ENGINES:
                echo_some(daemon, f"echo-{engine}", 20)

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        for job in ("exporter", "file"):
            rate = f'rate(nbserved_operations_total{{job="{job}"}}[30s])'
            wait_until(
                lambda: len([r for r in prometheus.query(f"{rate} > 0")]) == len(ENGINES),
                f"{job}: operations of each listener\n{prometheus.get('/api/v1/targets')}",
            )
            labels = f'{{job="{job}", service="echo"}}'
            buckets = f"rate(nbserved_operation_latency_seconds_bucket{labels}[30s])"
            median = f"histogram_quantile(0.5, {buckets})"
            # On a busy machine a scrape may have been too slow, or none was sampled yet.
            wait_until(lambda up=f'up{{job="{job}"}} == 1': prometheus.query(up), f"{job} is up")
            wait_until(
                lambda some=f"{median} > 0 < 10": len(prometheus.query(some)) == len(ENGINES),
                f"{job}: latencies of each listener",
            )
        types = prometheus.get("/api/v1/metadata")
        assert types["nbserved_operations_total"][0]["type"] == "counter"
        assert types["nbserved_operation_latency_seconds"][0]["type"] == "histogram"
        assert types["nbserved_connections_open"][0]["type"] == "gauge"
        for text in queries(json.loads(DASHBOARD.read_text())):
            # An annotation has something only after a restart.  On a busy machine a scrape may
            # have been too slow, and then there is nothing for a moment.
            if not text.startswith("resets("):
                wait_until(lambda query=text: prometheus.query(query), f"no data: {text}")
    finally:
        stop.set()
        thread.join()


# ---- The dashboard ----


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


def test_the_configuration_in_the_page_is_one(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "doc/lab.md").read_text(), re.S)
    (tmp_path / "prometheus.yml").write_text(text.replace(f"/usr/share/nbserved/{RULES.name}", str(RULES)))
    done = subprocess.run([requires_prometheus("promtool"), "check", "config", tmp_path / "prometheus.yml"],
                          capture_output=True, text=True, timeout=TIMEOUT)  # fmt: skip
    assert done.returncode == 0 and "6 rules found" in done.stdout, done.stdout + done.stderr


def test_every_metric_of_the_alerts_exists(start_daemon):
    lost = listener("lost", address="203.0.113.7:9", optional="yes")  # an address that no host has
    daemon = start_daemon(CONFIG + listener("udp", transport="udp") + lost)
    text = openmetrics(daemon)
    have = set(re.findall(r"(?m)^(nbserved_\w+)", text))
    used = set(re.findall(r"(?m)^ +expr: .*?(nbserved_\w+)", RULES.read_text()))
    assert len(used) == 5
    assert used <= have, used - have
    assert 'nbserved_listener_info{listener="lost"' in text and 'state="unavailable"' in text


def test_alerts_fire_for_the_host_that_is_in_trouble(tmp_path):
    cases = (ROOT / "tests/system/prometheus_rules.yml").read_text()
    (tmp_path / "cases.yml").write_text(cases.replace("[RULES]", json.dumps([str(RULES)])))
    for words in (["check", "rules", str(RULES)], ["test", "rules", str(tmp_path / "cases.yml")]):
        done = subprocess.run(
            [requires_prometheus("promtool"), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_histograms_have_few_buckets_and_always_the_same(daemon):
    """A series for each bucket, listener and operation: they must not depend on the latencies."""

    def bounds():
        found = {}
        for series, bound in re.findall(
            r'(?m)^(nbserved_\w+_bucket\{.*),le="([^"]+)"', openmetrics(daemon)
        ):
            found.setdefault(series, []).append(bound)
        return found

    before = bounds()
    echo_some(daemon, "echo-epoll", 500)
    assert bounds() == before
    assert len(before) > len(ENGINES) and all(len(b) == 23 for b in before.values())
