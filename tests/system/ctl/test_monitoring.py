"""Metrics, read by promtool and by a real Prometheus, with the alerts and the page that configures it.

In `make check-long`: Debian's package of Prometheus starts a server where it is installed.
"""

import http.server
import json
import re
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
import test_metrics
from conftest import ENGINES, ROOT, TIMEOUT, requires, wait_until
from test_metrics import DASHBOARD, OPENMETRICS, RULES, echo_some, openmetrics, queries

CONFIG, exporter = test_metrics.CONFIG, test_metrics.exporter

# ---- promtool ----


def check_metrics(text):
    done = subprocess.run([requires("promtool"), "check", "metrics"], input=text, capture_output=True, text=True,
                          check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_finds_no_fault(daemon, exporter):
    for engine in ENGINES:
        echo_some(daemon, f"echo-{engine}")
    check_metrics(openmetrics(daemon))
    check_metrics(exporter.request()[1])


# ---- A real Prometheus ----


class Prometheus:
    """Scrapes `targets`, {job: HOST:PORT}, every second."""

    def __init__(self, directory, host, port, targets):
        jobs = [{"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()]
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}}
        path = directory / "prometheus.yml"
        path.write_text(json.dumps({**config, "scrape_configs": jobs}))  # JSON is YAML, too
        self.url = f"http://{host}:{port}"
        self.log_path = directory / "prometheus.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [
                    requires("prometheus"),
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
    requires("prometheus")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OpenMetricsServer)
    server.daemon = daemon
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    targets = {"exporter": f"127.0.0.1:{exporter.port}", "file": f"127.0.0.1:{server.server_port}"}
    one = Prometheus(tmp_path, *loopback_ports, targets)
    yield one
    one.stop()
    server.shutdown()
    thread.join()
    server.server_close()


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
            wait_until(lambda: len([r for r in prometheus.query(f"{rate} > 0")]) == len(ENGINES),
                       f"{job}: operations of each listener\n{prometheus.get('/api/v1/targets')}")
            labels = f'{{job="{job}", service="echo"}}'
            buckets = f"rate(nbserved_operation_latency_seconds_bucket{labels}[30s])"
            median = f"histogram_quantile(0.5, {buckets})"
            # On a busy machine a scrape may have been too slow, or none was sampled yet.
            wait_until(lambda up=f'up{{job="{job}"}} == 1': prometheus.query(up), f"{job} is up")
            wait_until(lambda some=f"{median} > 0 < 10": len(prometheus.query(some)) == len(ENGINES),
                       f"{job}: latencies of each listener")
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


# ---- The alerts ----


def test_the_configuration_in_the_page_is_one(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "doc/lab.md").read_text(), re.S)
    (tmp_path / "prometheus.yml").write_text(text.replace(f"/usr/share/nbserved/{RULES.name}", str(RULES)))
    done = subprocess.run([requires("promtool"), "check", "config", tmp_path / "prometheus.yml"],
                          capture_output=True, text=True, timeout=TIMEOUT)  # fmt: skip
    assert done.returncode == 0 and "6 rules found" in done.stdout, done.stdout + done.stderr


def test_alerts_fire_for_the_host_that_is_in_trouble(tmp_path):
    cases = (ROOT / "tests/system/ctl/prometheus_rules.yml").read_text()
    (tmp_path / "cases.yml").write_text(cases.replace("[RULES]", json.dumps([str(RULES)])))
    for words in (["check", "rules", str(RULES)], ["test", "rules", str(tmp_path / "cases.yml")]):
        done = subprocess.run([requires("promtool"), *words], capture_output=True, text=True, check=False,
                              timeout=TIMEOUT)
        assert done.returncode == 0, done.stdout + done.stderr
