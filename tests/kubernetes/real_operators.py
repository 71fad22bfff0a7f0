"""Operators from their Go modules, and how to run one beside a cluster.

    python tests/kubernetes/real_operators.py              # build what is missing
    python tests/kubernetes/real_operators.py jobset lws   # of these
    with running_operator("jobset", kubectl, cluster, home, ports): ...

The binaries are in `$XDG_CACHE_HOME/kilauea/operators/<name>-<version>`; XDG_CACHE_HOME is ~/.cache unless set. An
operator comes with its own definitions, rights and webhooks; they are read from its module.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
    """An operator as its authors publish it; `flags` and `config` may name the ports as %(webhooks)d and so on.

    Attributes:
        module: of Go.
        version: of the module.
        hash: of its content, as go.sum writes it; empty if only Go's checksum database vouches for it.
        package: the main package, from the folder of the module.
        trouble: why it could not be had when that was last tried.
        private: True if it needs a /tmp of its own.
        manifests: folders of the module that kustomize reads.
        namespace: where it is installed.
        account: its service account.
        role: rules of one more ClusterRole, for what its manifests do not grant.
        service: of its webhooks; empty if it has none.
        secret: where it writes the certificate of its webhooks; empty if it has none.
        flags: that it always gets.
        config: what is in its /tmp/config.yaml.
        environment: that it always gets.
        says: what it logs when it works; empty if a probe at the health port tells.
        fixed: a port at which it listens whatever one says, which must be free.
    """

    module: str
    version: str
    hash: str
    package: str
    trouble: str = ""
    private: bool = False
    manifests: tuple[str, ...] = ()
    namespace: str = ""
    account: str = ""
    role: tuple[Obj, ...] = ()
    service: str = ""
    secret: str = ""
    flags: tuple[str, ...] = ()
    config: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    says: str = ""
    fixed: int = 0


VOLCANO = ("volcano.sh/volcano", "v1.14.0", "")
REFUSED = "on 2026-11-24 Go's module proxy refused volcano.sh/volcano: 403, this module version is not available"
PROBES = "--health-probe-bind-address=127.0.0.1:%(health)d"
METRICS = "--metrics-bind-address=127.0.0.1:%(metrics)d"
CONFIGURATION = """
apiVersion: config.{group}/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
health: {{healthProbeBindAddress: "127.0.0.1:%(health)d"}}
metrics: {{bindAddress: "127.0.0.1:%(metrics)d"}}
webhook: {{port: %(webhooks)d}}
"""
GROUP_RIGHTS = {
    "apiGroups": ["scheduling.volcano.sh"],
    "resources": ["podgroups"],
    "verbs": ["get", "list", "watch", "create", "update", "delete"],
}
OPERATORS = {
    "training-operator": Operator(
        "github.com/kubeflow/training-operator",
        "v1.8.1",
        "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc=",
        "./cmd/training-operator.v1",
        private=True,
        manifests=("manifests/base",),
        namespace="kubeflow",
        account="training-operator",
        service="training-operator",
        secret="training-operator-webhook-cert",
        flags=("--webhook-server-port=%(webhooks)d", PROBES, METRICS),
    ),
    "jobset": Operator(
        "sigs.k8s.io/jobset",
        "v0.8.0",
        "h1:80cJcPld+IMdKFOqzEW4et3Y6lGAPcP8YmBZ+aiKGYA=",
        ".",
        private=True,
        manifests=("config/default",),
        namespace="jobset-system",
        account="jobset-controller-manager",
        service="jobset-webhook-service",
        secret="jobset-webhook-server-cert",
        flags=("--config=/tmp/config.yaml",),
        config=CONFIGURATION.format(group="jobset.x-k8s.io"),
    ),
    "lws": Operator(
        "sigs.k8s.io/lws",
        "v0.6.0",
        "h1:qHvhm54daBzL1S/+e8bafp7BKRC3jhrqY+EgpDGf41o=",
        "./cmd",
        private=True,
        manifests=("config/default",),
        namespace="lws-system",
        account="lws-controller-manager",
        service="lws-webhook-service",
        secret="lws-webhook-server-cert",
        flags=("--config=/tmp/config.yaml",),
        config=CONFIGURATION.format(group="lws.x-k8s.io"),
    ),
    "mpi-operator": Operator(
        "github.com/kubeflow/mpi-operator",
        "v0.6.0",
        "h1:RzzG03oyQIiHe/SH2k19N+Hp4QkxEsG2l9G1T7US+ys=",
        "./cmd/mpi-operator",
        private=True,
        manifests=("manifests/base",),
        namespace="mpi-operator",
        account="mpi-operator",
        flags=("-alsologtostderr", "--lock-namespace=mpi-operator"),
        says="Started workers",
        fixed=8080,
    ),
    "kuberay": Operator(
        "github.com/ray-project/kuberay/ray-operator",
        "v1.5.0",
        "h1:KCjCQ7PSsvs9Ke+90CZbbs498nuaIJ/JkXk4vd54EVg=",
        ".",
        private=True,
        manifests=("config/default",),
        namespace="ray-system",
        account="kuberay-operator",
        role=(GROUP_RIGHTS,),  # for --batch-scheduler=volcano
        flags=(
            PROBES,
            "--metrics-addr=127.0.0.1:%(metrics)d",
            "--enable-leader-election=false",
        ),
    ),
    "argo": Operator(
        "github.com/argoproj/argo-workflows/v4",
        "v4.0.5",
        "h1:/1lru5oXUd+k6KEDUps6rLX5OKfi1jTfabgXTly/VFU=",
        "./cmd/workflow-controller",
        private=True,
        # The full definitions are 11 MB; Argo's controller checks workflows itself.
        manifests=("manifests/base/crds/minimal", "manifests/cluster-install-no-crds"),
        namespace="argo",
        account="argo",
        environment={"LEADER_ELECTION_DISABLE": "true"},
        fixed=9090,
        says="starting leading",
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
        reason = f"no {folder(name) / name}: run `make test-operators`, which needs Go"
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
    command.append("-gcflags=all=-l")  # inlining takes a large part of the time to build; no test needs what it saves
    environment = os.environ | {"CGO_ENABLED": "0"}
    subprocess.run([*command, "-o", str(unfinished), operator.package], cwd=found["Dir"], check=True, env=environment)
    unfinished.rename(place / name)


# --- running one

CERTIFICATES = "k8s-webhook-server/serving-certs"
"""Where operators look for the certificate of their webhooks, below /tmp."""
LEFT_OUT = {"APIService", "Deployment", "PriorityClass", "ServiceMonitor"}
"""What is not installed: the process stands for the Deployment, and nothing here reads the rest."""


@contextmanager
def running_operator(
    name: str, kubectl: Kubectl, server: Obj, home: Path, ports: Sequence[int], *options: str
) -> Iterator[Path]:
    """An operator for the length of a block, installed before, with the rights of its service account; gives its log.

    It runs with a /tmp of its own, which needs root: its kubeconfig, its configuration and its certificate are there.

    Args:
        name: a key of OPERATORS.
        kubectl: at the cluster.
        server: `cluster` of a kubeconfig.
        home: folder for its files.
        ports: three free ports: webhooks, health, metrics.
        options: its flags, beside those it always has.

    Raises:
        RuntimeError: it does not become ready.
    """
    operator, private = OPERATORS[name], home / "tmp"
    (private / CERTIFICATES).mkdir(parents=True, exist_ok=True)
    named = dict(zip(("webhooks", "health", "metrics"), ports, strict=True))
    objects = list(_manifests(folder(name) / "module", operator, ports[0]))
    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    _apply(kubectl, definitions)
    _until_established(kubectl, {each["metadata"]["name"] for each in definitions})
    _apply(kubectl, [each for each in objects if each not in definitions])
    token = kubectl("create", "token", operator.account, "-n", operator.namespace).strip()
    (private / "kubeconfig").write_text(_kubeconfig(server, token, operator.namespace))
    (private / "config.yaml").write_text(operator.config % named)
    log, words = home / f"{name}.log", ["unshare", "--mount", "sh", "-c", PRIVATE, str(private)]
    command = [*words, str(folder(name) / name), *(flag % named for flag in operator.flags), *options]
    environment = os.environ | {"KUBECONFIG": "/tmp/kubeconfig"} | operator.environment
    _until_free(operator.fixed)
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        _wait(process, lambda: _mounted(kubectl, operator, private) and _ready(operator, ports, log), log)
        yield log
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


PRIVATE = 'mount --bind "$0" /tmp && exec "$@"'


def _until_free(port: int) -> None:
    """Wait until nothing else listens on a port of this machine; 0 is none.

    Raises:
        RuntimeError: it stays taken.
    """
    deadline = time.monotonic() + START_SECONDS
    while port and _listens(port):
        if time.monotonic() > deadline:
            raise RuntimeError(f"port {port}, which the operator needs, is taken by another program")
        time.sleep(0.2)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def _manifests(module: Path, operator: Operator, port: int) -> Iterator[Obj]:
    """What the authors install, without the Deployment; the service of the webhooks leads to this machine."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": operator.namespace}}
    if operator.secret:
        about = {"name": operator.secret, "namespace": operator.namespace}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": about}
    if operator.role:
        name, group = {"name": f"{operator.account}-more"}, "rbac.authorization.k8s.io"
        yield {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": name, "rules": list(operator.role)}
        subject = {"kind": "ServiceAccount", "name": operator.account, "namespace": operator.namespace}
        role = {"apiGroup": group, "kind": "ClusterRole", **name}
        binding = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": name}
        yield binding | {"subjects": [subject], "roleRef": role}
    for each in _rendered(module, operator):
        for hook in _clients(each):
            hook["service"]["port"] = port
        if each["kind"] == "Service" and each["metadata"]["name"] == operator.service:
            ports = [{"name": "webhooks", "port": port}]
            each["spec"] = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
        if each["kind"] not in LEFT_OUT | {"Namespace", "Secret"}:
            yield each


def _rendered(module: Path, operator: Operator) -> list[Obj]:
    """The objects of the module's folders as kustomize makes them, in the operator's namespace."""
    # A path of kustomize that holds "github.com" is fetched from there, so the module has another name here.
    with tempfile.TemporaryDirectory() as outside:
        (Path(outside) / "module").symlink_to(module.resolve())
        resources = [f"module/{each}" for each in operator.manifests]
        text = yaml.safe_dump({"namespace": operator.namespace, "resources": resources})
        (Path(outside) / "kustomization.yaml").write_text(text)
        done = subprocess.run(
            ["kubectl", "kustomize", "."], cwd=outside, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    return [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]


def _clients(item: Obj) -> Iterator[Obj]:
    """The `clientConfig` of each webhook of an object."""
    yield from (hook["clientConfig"] for hook in item.get("webhooks", ()))
    if conversion := item.get("spec", {}).get("conversion", {}).get("webhook"):
        yield conversion["clientConfig"]


def _apply(kubectl: Kubectl, objects: list[Obj]) -> None:
    # On the server's side: the definitions are larger than an annotation may be.
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=given)


def _until_established(kubectl: Kubectl, names: set[str]) -> None:
    """Wait until definitions are served; `kubectl wait` fails for one whose conditions are null, as at first."""
    deadline = time.monotonic() + START_SECONDS
    while late := names - _established(kubectl):
        if time.monotonic() > deadline:
            raise RuntimeError(f"not established: {', '.join(sorted(late))}")
        time.sleep(0.2)


def _established(kubectl: Kubectl) -> set[str]:
    """The definitions that the server serves."""
    found = json.loads(kubectl("get", "crd", "-o", "json"))["items"]
    served = ("Established", "True")
    return {
        each["metadata"]["name"]
        for each in found
        if served in ((one["type"], one["status"]) for one in each.get("status", {}).get("conditions") or ())
    }


def _kubeconfig(server: Obj, token: str, namespace: str) -> str:
    if authority := server.get("certificate-authority"):  # a file that may be in the /tmp of others
        data = base64.b64encode(Path(authority).read_bytes()).decode()
        server = {"server": server["server"], "certificate-authority-data": data}
    document = {
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        "current-context": "x",
    }
    return yaml.safe_dump(document)


def _mounted(kubectl: Kubectl, operator: Operator, private: Path) -> bool:
    """Write the Secret with the certificate as files, as a kubelet does; True once the operator has made it."""
    if not operator.secret:
        return True
    found = kubectl("get", "secret", operator.secret, "-n", operator.namespace, "-o", "json")
    data = json.loads(found).get("data") or {}
    for name, text in data.items():
        path = private / CERTIFICATES / name
        if not path.exists():  # whole or not at all: an operator that finds half a certificate ends
            unfinished = private / name
            unfinished.write_bytes(base64.b64decode(text))
            unfinished.rename(path)
    return bool(data)


def _ready(operator: Operator, ports: Sequence[int], log: Path) -> bool:
    """True if its webhooks listen and its probe, or its log if it has none at a port of our choice, says so."""
    if operator.service and not _listens(ports[0]):  # probes of some say nothing about webhooks
        return False
    return operator.says in log.read_text() if operator.says else _answers(f"http://127.0.0.1:{ports[1]}/readyz")


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


def main(arguments: Sequence[str]) -> int:
    """Build what is missing, of some or of all; an operator that cannot be had is named, and its tests are skipped."""
    if unknown := [name for name in arguments if name not in OPERATORS]:
        print(f"operators: {unknown[0]} is not one of {', '.join(OPERATORS)}", file=sys.stderr)
        return 2
    for name in arguments or OPERATORS:
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
    sys.exit(main(sys.argv[1:]))
