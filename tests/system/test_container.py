"""How the container image is run: the manifest for Kubernetes and the unit for Podman, read by their own programs."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import NBSERVED, ROOT, TIMEOUT

MANIFEST, UNIT = ROOT / "packaging/kubernetes.yaml", ROOT / "packaging/nbserved.container"
IMAGE = f"localhost/nbserved:{(ROOT / 'VERSION').read_text().strip()}"
QUADLET = next(filter(os.path.exists, ("/usr/libexec/podman/quadlet", "/usr/lib/podman/quadlet")), None)


@pytest.fixture(scope="module")
def manifest():
    """{kind: object}, as kubectl reads them: it refuses a field of the wrong type."""
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    done = subprocess.run(["kubectl", "annotate", "--local", "-o", "json", "-f", MANIFEST, "read=yes"],
                          capture_output=True, text=True, timeout=TIMEOUT)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    decoder, at, found = json.JSONDecoder(), 0, {}
    while at < len(done.stdout.rstrip()):
        document, end = decoder.raw_decode(done.stdout[at:].lstrip())
        at += end + len(done.stdout[at:]) - len(done.stdout[at:].lstrip())
        for item in document.get("items", [document]):
            found[item["kind"]] = item
    return found


def test_the_listeners_of_the_manifest_are_valid(manifest, tmp_path):
    """And their ports those of the container, whose image and mounts are there."""
    text = manifest["ConfigMap"]["data"]["lab.ini"]
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    serving, metrics = pod["containers"]
    installed = (ROOT / "conf/nbserved.ini").read_text()
    (tmp_path / "nbserved.ini").write_text(installed.replace("/var/lib/nbserved", str(tmp_path)))
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/lab.ini").write_text(text)
    done = subprocess.run([NBSERVED, "--check-config", "-c", tmp_path / "nbserved.ini"], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [port["containerPort"] for port in serving["ports"]] == list(map(int, re.findall(r":(\d+)\n", text)))
    assert serving["image"] == metrics["image"] == IMAGE
    for name in re.findall(r"listener (\S+)\]", text):
        assert f"[listener {name}]" in installed, "the drop-in changes what is installed"
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for one in pod["containers"] for mount in one["volumeMounts"]} == volumes
    user = re.search(r"useradd --system --uid (\d+)", (ROOT / "packaging/Containerfile").read_text())[1]
    assert pod["securityContext"]["runAsUser"] == int(user)


def test_the_unit_is_one_for_podman(tmp_path):
    assert f"\nImage={IMAGE}\n" in UNIT.read_text()
    if not QUADLET:
        pytest.skip("Podman with its generator of units is not installed")
    shutil.copy(UNIT, tmp_path)
    done = subprocess.run([QUADLET, "-dryrun"], env={**os.environ, "QUADLET_UNIT_DIRS": str(tmp_path)},
                          capture_output=True, text=True, timeout=TIMEOUT)  # fmt: skip
    assert done.returncode == 0 and "nbserved.service" in done.stdout, done.stdout + done.stderr
    for words in ("podman run", "--network host", "--read-only", "--security-opt seccomp=unconfined", "Type=notify", IMAGE):
        assert words in done.stdout, done.stdout
