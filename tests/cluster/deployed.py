"""The chart at the real Kubernetes API server: Helm and kubectl install it, and its Deployments run as processes.

with real_site(folder) as site:
    site.helm("install", "volcano", str(CHART), "--namespace", NAMESPACE, "--create-namespace")
    site.start("volcano-scheduler")

A process has the command line, environment, service account and mounted files that the Deployment on the server says.
Where this machine allows it, it also has the user and no capabilities, and can write nowhere but in its empty volumes.
Only paths and ports are others, because all processes share this machine.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import sources
from cluster.real_product import recorded_nodes
from cluster.up_process import until

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/kilauea"
NAMESPACE = "volcano-system"
COMPONENTS = ("volcano-scheduler", "volcano-controllers", "volcano-admission")
WEBHOOKS = "volcano-admission"
SECONDS = 120.0
_GIVEN: set[int] = set()
Obj = dict[str, Any]


@dataclass
class Pod:
    """A process in the place of a pod.

    Attributes:
        name: of the Deployment, and which copy it is.
        process: the process.
        folder: its files.
        container: the container of the Deployment.
        ports: the port of this machine for each of the container.
    """

    name: str
    process: subprocess.Popen[bytes]
    folder: Path
    container: Obj
    ports: dict[int, int]

    def log(self) -> str:
        """What it has said."""
        return (self.folder / "log").read_text(errors="replace")

    def metric(self, name: str) -> float:
        """The value of a metric of a scheduler; 0 if it has none yet."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[8080]}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == name)

    def wait(self) -> None:
        """Wait until all probes succeed."""
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            end = time.monotonic() + SECONDS
            while not self.passes(probe):
                alive = self.process.poll() is None and time.monotonic() < end
                assert alive, f"{self.name}: {probe} fails: {self.log()}"
                time.sleep(0.05)

    def passes(self, probe: str) -> bool:
        """Return True if a probe of the container succeeds now."""
        get, seconds = self.container[probe]["httpGet"], self.container[probe].get("timeoutSeconds", 1)
        names = {each["name"]: each["containerPort"] for each in self.container["ports"]}
        port = self.ports[names[get["port"]]]
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        url = f"{get['scheme'].lower()}://127.0.0.1:{port}{get['path']}"
        try:
            with urllib.request.urlopen(url, timeout=seconds, context=trust):
                return True
        except (urllib.error.URLError, OSError):
            return False


@dataclass
class Site:
    """A cluster: the real API server with its controllers, simulated nodes, and our components.

    Attributes:
        kubeconfig: of the administrator.
        url: of the API server.
        certificate: file of its authority.
        folder: for everything that is written.
        pods: those that run, by name.
    """

    kubeconfig: Path
    url: str
    certificate: Path
    folder: Path
    pods: dict[str, Pod] = field(default_factory=dict)

    # --- programs

    def run(self, program: str | Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program at the cluster, whatever comes of it."""
        home = {f"HELM_{name}_HOME": str(self.folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        environment = os.environ | home | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        return subprocess.run(
            [program, *words], input=given, capture_output=True, text=True, timeout=300, env=environment, check=False
        )

    def kubectl(self, *words: str, given: str = "") -> str:
        """What kubectl prints; it must not fail."""
        done = self.run("kubectl", *words, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def helm(self, *words: str) -> str:
        """What Helm prints; it must not fail."""
        done = self.run(sources.helm(), *words)
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
        return done.stdout

    def get(self, *words: str) -> Any:
        """Objects, decoded."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, *objects: Obj) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(objects))

    # --- components

    def start(self, deployment: str, copy: int = 0, namespace: str = NAMESPACE) -> Pod:
        """Run a copy of a Deployment, and wait until its probes succeed."""
        pod = self._launch(deployment, copy, namespace)
        pod.wait()
        return pod

    def _launch(self, deployment: str, copy: int = 0, namespace: str = NAMESPACE) -> Pod:
        spec = self.get("deployment", deployment, "-n", namespace)["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        name = f"{deployment}-{copy}"
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        ports = {each["containerPort"]: free_port() for each in container["ports"]}
        command = _command(container, folder, ports)
        for volume in spec["volumes"]:
            self._mount(volume, container, folder, namespace)
        environment = self._environment(container, spec["serviceAccountName"], folder, namespace)
        writable = [
            _inside(folder, mount["mountPath"])
            for volume in spec["volumes"]
            for mount in container["volumeMounts"]
            if "emptyDir" in volume and mount["name"] == volume["name"]
        ]
        command = [*confinement(spec["securityContext"], container["securityContext"], writable), *command]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
        pod = self.pods[name] = Pod(name, process, folder, container, ports)
        if deployment == WEBHOOKS:
            self._route(pod, ready=True)
        return pod

    def _mount(self, volume: Obj, container: Obj, folder: Path, namespace: str = NAMESPACE) -> None:
        """Write the files of a volume where the container has it."""
        (path,) = (each["mountPath"] for each in container["volumeMounts"] if each["name"] == volume["name"])
        place = _inside(folder, path)
        place.mkdir(parents=True, exist_ok=True)
        if given := volume.get("configMap"):
            for name, text in self.get("configmap", given["name"], "-n", namespace)["data"].items():
                _replace(place / name, text.encode())
        elif given := volume.get("secret"):
            for name, text in self.get("secret", given["secretName"], "-n", namespace)["data"].items():
                _replace(place / name, base64.b64decode(text))

    def sync(self, pod: Pod, deployment: str) -> None:
        """Bring mounted files up to date, as a kubelet does."""
        spec = self.get("deployment", deployment, "-n", NAMESPACE)["spec"]["template"]["spec"]
        for volume in spec["volumes"]:
            self._mount(volume, pod.container, pod.folder)

    def _environment(self, container: Obj, account: str, folder: Path, namespace: str) -> dict[str, str]:
        """The environment of a container, with the credentials of its service account in a kubeconfig."""
        token = self.kubectl("create", "token", account, "-n", namespace).strip()
        access = folder / "kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        content = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        access.write_text(yaml.safe_dump(content))
        own = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        own |= {"KUBECONFIG": str(access), "HOME": str(folder), "TMPDIR": str(_inside(folder, "/tmp"))}
        for each in container.get("env", ()):
            if "value" in each:
                own[each["name"]] = each["value"]
            else:
                assert each["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace", each
                own[each["name"]] = namespace
        return own

    def _route(self, pod: Pod, *, ready: bool) -> None:
        """Lead the Service of the webhooks to a process of this machine, whose pods have no address on the network."""
        labels = {"kubernetes.io/service-name": f"{WEBHOOKS}-service"}
        about = {"name": pod.name, "namespace": NAMESPACE, "labels": labels}
        port = next(iter(pod.ports.values()))
        self.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": about,
                "addressType": "IPv4",
                "endpoints": [{"addresses": [own_address()], "conditions": {"ready": ready}}],
                "ports": [{"name": "webhooks", "port": port, "protocol": "TCP"}],
            }
        )

    @contextmanager
    def probed(self, pod: Pod) -> Iterator[None]:
        """Let the Service lead to a pod for as long as its readiness probe says, as kubelets and controllers do."""
        probe, over = pod.container["readinessProbe"], threading.Event()

        def run() -> None:
            failures, ready = 0, True
            while not over.wait(probe["periodSeconds"] if pod.process.poll() is None else 0.1):
                failures = 0 if pod.passes("readinessProbe") else failures + 1
                now = pod.process.poll() is None and failures < probe["failureThreshold"]
                if now != ready:
                    self._route(pod, ready=now)
                ready = now

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._route(pod, ready=pod.process.poll() is None)

    def start_all(self) -> None:
        """Start one copy of each component, and wait for the queues that controllers make."""
        for pod in [self._launch(each) for each in COMPONENTS]:
            pod.wait()
        for queue in ("root", "default"):
            until(partial(self.is_open, queue), f"queue {queue} to be open", SECONDS)

    def is_open(self, queue: str) -> bool:
        """Return True if a queue takes jobs."""
        return "Open" in self.run("kubectl", "get", "queue", queue, "-o", "jsonpath={.status.state}").stdout

    def stop(self, name: str, *, kill: bool = False) -> None:
        """End a process; without `kill` it must end cleanly."""
        pod = self.pods.pop(name)
        if name.startswith(WEBHOOKS):
            self.run("kubectl", "delete", "endpointslice", name, "-n", NAMESPACE)
        if kill:
            pod.process.kill()
            pod.process.wait()
            return
        assert pod.process.poll() is None, pod.log()
        pod.process.terminate()
        assert pod.process.wait(60) == 0, pod.log()
        assert "Traceback" not in pod.log(), pod.log()

    def end(self) -> None:
        """Kill what still runs."""
        for name in list(self.pods):
            self.stop(name, kill=True)

    # --- jobs

    def wait_for(self, job: str, phase: str) -> None:
        """Wait until a job is in a phase."""
        words = ["get", "vcjob", job, "-o", "jsonpath={.status.state.phase}"]
        until(lambda: self.run("kubectl", *words).stdout == phase, f"job {job} to be {phase}", SECONDS)


def confinement(pod: Obj, container: Obj, writable: list[Path]) -> list[str]:
    """Words before a command that give it the rights of its security contexts; none if this machine does not allow it.

    Args:
        pod: security context of the pod.
        container: that of the container.
        writable: folders to which it may write, although its root is read-only.
    """
    if not may_confine():
        return []
    assert container["readOnlyRootFilesystem"], container
    assert not container["allowPrivilegeEscalation"], container
    assert container["capabilities"] == {"drop": ["ALL"]}, container
    user = [f"--map-user={pod['runAsUser']}", f"--map-group={pod['runAsGroup']}"]
    binds = "".join(f"mount --bind '{path}' '{path}' && " for path in writable)
    mounts = f'{binds}mount -o remount,bind,ro / && exec setpriv "$@"'
    without = ["--no-new-privs", *(f"--{kind}=-all" for kind in ("inh-caps", "ambient-caps", "bounding-set"))]
    return ["unshare", "--user", *user, "--mount", "--keep-caps", "sh", "-c", mounts, "sh", *without]


@cache
def may_confine() -> bool:
    """True if this user may make user and mount namespaces, and the programs for it are here."""
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    words = ["unshare", "--user", "--map-user=1", "--mount", "--keep-caps", "mount", "-o", "remount,bind,ro", "/"]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def _inside(folder: Path, path: str) -> Path:
    return folder / "root" / path.removeprefix("/")


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that no reader sees a part of it, as kubelets do."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.rename(path)


def _command(container: Obj, folder: Path, ports: dict[int, int]) -> list[str]:
    """The command line of a container, with paths and ports of this machine."""
    assert container["command"][0] == "kilauea", container["command"]
    words: list[str] = [*container["command"][1:], *container["args"]]
    mounts = tuple(f"={each['mountPath']}/" for each in container["volumeMounts"])
    words = [
        word.replace("=/", f"={folder}/root/", 1) if any(map(word.__contains__, mounts)) else word for word in words
    ]
    for port, here in ports.items():
        words = [_replaced(word, port, here) for word in words]
    return [sys.executable, "-m", "kilauea", *words]


def _replaced(word: str, port: int, here: int) -> str:
    option, _, value = word.partition("=")
    return f"{option}={value.replace(str(port), str(here))}" if value in (f":{port}", str(port)) else word


def free_port() -> int:
    """A port of this machine that is free now, and that was not given before: its owner may not listen yet."""
    while True:
        with socket.create_server(("", 0)) as free:
            port = int(free.getsockname()[1])
        if port not in _GIVEN:
            _GIVEN.add(port)
            return port


def own_address() -> str:
    """An address of this machine that is not of loopback, which Services do not lead to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address except loopback, so Services cannot lead to it")
        return str(probe.getsockname()[0])


def submitted_job(name: str, replicas: int, **spec: Any) -> Obj:
    """A job of one task, as Volcano's users write it."""
    container = {"name": "c", "image": "busybox:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": replicas,
            "tasks": [{"name": "a", "replicas": replicas, "template": template}],
            **spec,
        },
    }


@contextmanager
def real_site(folder: Path) -> Iterator[Site]:
    """The cluster for the length of a block; skips where Helm or the binaries of Kubernetes are not built."""
    sys.path.insert(0, str(ROOT / "tests/kubernetes"))
    try:
        from real_binaries import missing  # noqa: PLC0415 - only these tests need them
        from real_server import real_server  # noqa: PLC0415
    finally:
        sys.path.remove(str(ROOT / "tests/kubernetes"))
    if missing():
        pytest.skip(f"no {', '.join(missing())}: run `make kubernetes-binaries`")
    if not sources.helm().exists():
        pytest.skip(f"{sources.helm()} is missing: run `python tests/charts/sources.py helm`, which needs Go")
    # With this flag the server goes to the endpoints of a Service itself, as no proxy runs here.
    with real_server(["*"], ["--enable-aggregator-routing=true"]) as server, ExitStack() as ends:
        site = Site(server.kubeconfig, server.url, server.certificate, folder)
        ends.callback(site.end)
        site.kubectl("create", "-f", "-", given=json.dumps(recorded_nodes()))
        with (folder / "nodes.log").open("wb") as log:
            words = [sys.executable, "-m", "kilauea", "nodes", "--kubeconfig", str(server.kubeconfig), "--count", "0"]
            nodes = subprocess.Popen(words, stdout=log, stderr=log)
        ends.callback(nodes.wait)
        ends.callback(nodes.kill)
        yield site
