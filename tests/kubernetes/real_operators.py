"""Operators from their Go modules, and how to run one beside a cluster.

    python tests/kubernetes/real_operators.py       # build what is missing
    with training_operator(kubeconfig, folder, "--gang-scheduler-name=volcano"): ...

The binaries are in `$XDG_CACHE_HOME/kilauea/operators/<name>-<version>`; XDG_CACHE_HOME is ~/.cache unless set. An
operator comes with its own definitions, rights and webhooks; they are read from its module.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

START_SECONDS = 120
STOP_SECONDS = 20
Obj = dict[str, Any]
Kubectl = Callable[..., str]
"""Runs kubectl with words and `given` as its input, and returns what it prints."""


@dataclass(frozen=True)
class Operator:
    """An operator as its authors publish it.

    Attributes:
        module: of Go.
        version: of the module.
        hash: of its content, as go.sum writes it; empty if only Go's checksum database vouches for it.
        package: the main package, from the folder of the module.
        trouble: why it could not be had when that was last tried.
        private: True if it needs a /tmp of its own.
    """

    module: str
    version: str
    hash: str
    package: str
    trouble: str = ""
    private: bool = False


VOLCANO = ("volcano.sh/volcano", "v1.14.0", "")
REFUSED = "on 2026-11-24 Go's module proxy refused volcano.sh/volcano: 403, this module version is not available"
OPERATORS = {
    "training-operator": Operator(
        "github.com/kubeflow/training-operator",
        "v1.8.1",
        "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc=",
        "./cmd/training-operator.v1",
        private=True,
    ),
    "vc-controller-manager": Operator(*VOLCANO, "./cmd/controller-manager", REFUSED),
    "vc-scheduler": Operator(*VOLCANO, "./cmd/scheduler", REFUSED),
}


def folder(name: str) -> Path:
    """The folder of an operator: its binary and, in `module`, its files."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "kilauea" / "operators" / f"{name}-{OPERATORS[name].version}"


def is_built(name: str) -> bool:
    """True if the binary is there."""
    return os.access(folder(name) / name, os.X_OK) and (folder(name) / "module" / "go.mod").exists()


def lacks(name: str) -> str:
    """What an operator needs and does not find here; empty if it can run."""
    if not is_built(name):
        reason = f"no {folder(name) / name}: run `python tests/kubernetes/real_operators.py`, which needs Go"
        return f"{reason}; {trouble}" if (trouble := OPERATORS[name].trouble) else reason
    mounts = ["unshare", "--mount", "true"]
    if OPERATORS[name].private and subprocess.run(mounts, check=False, capture_output=True).returncode:
        return "this user may not mount: the operator needs a /tmp of its own"
    return ""


def build(name: str) -> None:
    """Build an operator; the binary appears under its name only when it is complete.

    Raises:
        ValueError: the module cannot be had, or has another content than expected.
        subprocess.CalledProcessError: it cannot be built.
    """
    operator, place = OPERATORS[name], folder(name)
    download = ["go", "mod", "download", "-json", f"{operator.module}@{operator.version}"]
    with tempfile.TemporaryDirectory() as outside:
        done = subprocess.run(download, check=False, stdout=subprocess.PIPE, cwd=outside)
    found = json.loads(done.stdout)
    if error := found.get("Error"):
        raise ValueError(error)
    if operator.hash and found["Sum"] != operator.hash:
        raise ValueError(f"{operator.module}: hash {found['Sum']}, expected {operator.hash}")
    place.mkdir(parents=True, exist_ok=True)
    module, unfinished = place / "module", place / f"{name}.unfinished"
    module.unlink(missing_ok=True)
    module.symlink_to(found["Dir"])
    command = ["go", "build", "-p", "2", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", "-s -w"]
    environment = os.environ | {"CGO_ENABLED": "0"}
    subprocess.run([*command, "-o", str(unfinished), operator.package], cwd=found["Dir"], check=True, env=environment)
    unfinished.rename(place / name)


# --- Kubeflow's training operator

NAMESPACE = "kubeflow"
WEBHOOK_SECRET = "training-operator-webhook-cert"
CERTIFICATES = "k8s-webhook-server/serving-certs"
"""Where the operator looks for its certificate, below /tmp."""


def _manifests(module: Path, port: int) -> Iterator[Obj]:
    """What `kubectl apply -k` of the module installs, except the Deployment; its service leads to this machine."""
    base = module / "manifests" / "base"
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for path in sorted(base.glob("rbac/*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            if each["kind"] == "ClusterRoleBinding":
                each["subjects"][0]["namespace"] = NAMESPACE
            if each["kind"] == "ServiceAccount":
                each["metadata"]["namespace"] = NAMESPACE
            yield each
    about = {"name": WEBHOOK_SECRET, "namespace": NAMESPACE}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": about}
    about = {"name": "training-operator", "namespace": NAMESPACE}
    ports = [{"name": "webhook-server", "port": port}]
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec}
    hooks = yaml.safe_load((base / "webhook/manifests.yaml").read_text())
    hooks["metadata"]["name"] = "validator.training-operator.kubeflow.org"
    for each in hooks["webhooks"]:
        each["clientConfig"]["service"] |= {"namespace": NAMESPACE, "name": "training-operator", "port": port}
    yield hooks


@contextmanager
def training_operator(kubectl: Kubectl, server: Obj, home: Path, ports: Sequence[int], *options: str) -> Iterator[Path]:
    """Kubeflow's training operator for the length of a block, installed before; gives its log.

    It runs with a /tmp of its own, where it finds its certificate, which needs root.

    Args:
        kubectl: at the cluster.
        server: `cluster` of a kubeconfig.
        home: folder for its files.
        ports: three free ports: webhooks, health, metrics.
        options: its flags.

    Raises:
        RuntimeError: it does not become ready.
    """
    name, private = "training-operator", home / "tmp"
    (private / CERTIFICATES).mkdir(parents=True, exist_ok=True)
    module = folder(name) / "module"
    definitions = [str(path) for path in sorted((module / "manifests/base/crds").glob("kubeflow.org_*.yaml"))]
    kubectl("apply", "--server-side", *(word for path in definitions for word in ("-f", path)))
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    kubectl("apply", "-f", "-", given=yaml.safe_dump_all(_manifests(module, ports[0])))
    token = kubectl("create", "token", name, "-n", NAMESPACE).strip()
    if authority := server.get("certificate-authority"):  # a file that may be in the /tmp of others
        data = base64.b64encode(Path(authority).read_bytes()).decode()
        server = {"server": server["server"], "certificate-authority-data": data}
    document = {
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (private / "kubeconfig").write_text(yaml.safe_dump(document))
    flags = [f"--webhook-server-port={ports[0]}", f"--health-probe-bind-address=127.0.0.1:{ports[1]}"]
    flags += [f"--metrics-bind-address=127.0.0.1:{ports[2]}", "--kubeconfig=/tmp/kubeconfig", *options]
    words = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /tmp && exec "$@"', str(private)]
    log = home / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen([*words, folder(name) / name, *flags], stdout=out, stderr=out)
    try:
        ready = f"http://127.0.0.1:{ports[1]}/readyz"
        _wait(process, lambda: _mount(kubectl, private / CERTIFICATES) and _answers(ready), log)
        yield log
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _mount(kubectl: Kubectl, place: Path) -> bool:
    """Write the Secret with the certificate as files, as a kubelet does; True once the operator has made it."""
    data = json.loads(kubectl("get", "secret", WEBHOOK_SECRET, "-n", NAMESPACE, "-o", "json")).get("data") or {}
    for name, text in data.items():
        (place / name).write_bytes(base64.b64decode(text))
    return bool(data)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _wait(process: subprocess.Popen[bytes], holds: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not holds():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the operator is not ready:\n{log.read_text()[-3000:]}")
        time.sleep(0.2)


def main() -> int:
    """Build what is missing; an operator that cannot be had is named, and its tests are skipped."""
    for name in OPERATORS:
        if is_built(name):
            continue
        print(f"operators: {folder(name) / name}", flush=True)
        try:
            if shutil.which("go") is None:
                raise FileNotFoundError("Go is not installed")
            build(name)
        except (OSError, ValueError, subprocess.CalledProcessError) as failure:
            print(f"operators: {name} cannot be had: {failure}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
