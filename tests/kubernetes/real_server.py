"""The real Kubernetes API server on loopback, for as long as a test needs it.

    with real_server() as server:
        server.kubeconfig   # a file for kubectl and other clients

It runs etcd and kube-apiserver, and kube-controller-manager where controllers are asked for, on free ports, with
certificates and tokens made for this run, in a folder that is gone afterwards.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from real_binaries import folder, missing

START_SECONDS = 90
STOP_SECONDS = 20
FEATURE_GATES = (
    *("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption", "TopologyAwareWorkloadScheduling"),
    "DRADeviceTaintRules",
)
_VERSIONS = ("scheduling.k8s.io/v1alpha2", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")
_GATES = f"--feature-gates={','.join(f'{gate}=true' for gate in FEATURE_GATES)}"
AS_OURS = (_GATES, f"--runtime-config={','.join(f'{each}=true' for each in _VERSIONS)}")
"""Arguments of a kube-apiserver with the kinds that ours has always, and the real one only if asked for.

These are the Workloads and PodGroups of scheduling.k8s.io, and the beta versions of resource.k8s.io with its
DeviceTaintRules. `kubectl get podgroup` shows those PodGroups then, and not Volcano's.
"""
USERS = {"admin": "system:masters", "guest": "guests"}
"""Users with a token, and their group: one who may do everything, and one who may do nothing."""


class ServerFailure(Exception):
    """A process of the real Kubernetes did not start; the message ends with its last words."""


class Component:
    """A binary of Kubernetes at work, which can be ended and started again; what it says goes into `<name>.log`.

    Args:
        home: folder where it works.
        name: of the binary.
        arguments: its flags.
    """

    def __init__(self, home: Path, name: str, arguments: Sequence[str]) -> None:
        self._home = home
        self._command = [str(folder() / name), *arguments]
        self.name = name
        self.log = home / f"{name}.log"
        self.start()

    def start(self) -> None:
        """Start it; it is not ready yet."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self._home)

    def kill(self) -> None:
        """End it without a last word."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it, cleanly if it does so in time."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self._process.poll() is None

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


@dataclass(frozen=True)
class Server:
    """A running API server.

    Attributes:
        url: `https://127.0.0.1:PORT`.
        certificate: file of the CA that signed its certificate, and those of clients that it accepts.
        tokens: bearer token of each user in `USERS`.
        kubeconfig: file for clients; acts as `admin`.
        process: kube-apiserver. It reads `server.crt` and `server.key` in the folder of `certificate` when it starts.
        authority: the CA.
    """

    url: str
    certificate: Path
    tokens: dict[str, str]
    kubeconfig: Path
    process: Component
    authority: trustme.CA

    def wait(self, certificate: Path | None = None) -> None:
        """Wait until it is ready.

        Args:
            certificate: file of the CA to trust, if it is another one by now.

        Raises:
            ServerFailure: it is not.
        """
        trust = certificate or self.certificate
        _wait_until_ready(self.process, f"{self.url}/readyz", trust, self.tokens["admin"])


def free_ports(count: int) -> list[int]:
    """Ports of loopback that no one listened on a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]


def issue(authority: trustme.CA, home: Path) -> None:
    """Write a certificate of the server and its key, in the place of those that are there."""
    identity = authority.issue_cert("127.0.0.1", "localhost")
    identity.private_key_pem.write_to_path(str(home / "server.key"))
    (home / "server.crt").write_bytes(b"".join(part.bytes() for part in identity.cert_chain_pems))


def _write_secrets(home: Path, authority: trustme.CA, tokens: dict[str, str]) -> None:
    """Certificates, the key that signs service account tokens, and the table of tokens."""
    authority.cert_pem.write_to_path(str(home / "ca.crt"))
    issue(authority, home)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    (home / "accounts.key").write_bytes(key.private_bytes(*form))
    rows = [f"{tokens[user]},{user},{user},{group}\n" for user, group in USERS.items()]
    (home / "tokens.csv").write_text("".join(rows))


def write_kubeconfig(path: Path, url: str, certificate: Path, token: str) -> None:
    """A file that makes clients talk to `url` with a token."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": {"server": url, "certificate-authority": str(certificate)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        "current-context": "real",
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    path.chmod(0o600)


@contextmanager
def _component(home: Path, name: str, arguments: Sequence[str]) -> Iterator[Component]:
    """A binary that runs until the end of the block."""
    component = Component(home, name, arguments)
    try:
        yield component
    finally:
        component.stop()


def _wait_until_ready(component: Component, url: str, certificate: Path, token: str = "") -> None:
    """Wait for an answer 200 at `url`; the error tells what the process said last."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    trust = ssl.create_default_context(cafile=str(certificate))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and component.alive:
        try:
            with urllib.request.urlopen(request, timeout=5, context=trust):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise ServerFailure(f"{component.name} is not ready at {url}:\n{component.last_words()}")


def _etcd_arguments(client: int, peer: int) -> list[str]:
    here, there = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        "--data-dir=etcd",
        f"--listen-client-urls={here}",
        f"--advertise-client-urls={here}",
        f"--listen-peer-urls={there}",
        f"--initial-advertise-peer-urls={there}",
        f"--initial-cluster=default={there}",
        "--unsafe-no-fsync",
    ]


def _apiserver_arguments(port: int, etcd: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",
        "--cert-dir=.",
        "--tls-cert-file=server.crt",
        "--tls-private-key-file=server.key",
        "--client-ca-file=ca.crt",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=accounts.key",
        "--service-account-signing-key-file=accounts.key",
        "--service-cluster-ip-range=10.0.0.0/16",
    ]


def _controller_arguments(port: int, kubeconfig: Path, controllers: Sequence[str]) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--cert-dir=.",
        "--service-account-private-key-file=accounts.key",
        "--root-ca-file=ca.crt",
        "--use-service-account-credentials=false",
    ]


@contextmanager
def real_server(controllers: Sequence[str] = (), arguments: Sequence[str] = ()) -> Iterator[Server]:
    """The real server, ready to answer; its processes are gone at the end of the block.

    Args:
        controllers: names of controllers of kube-controller-manager that shall run; `("*",)` for the usual ones.
        arguments: more arguments for kube-apiserver.

    Raises:
        ServerFailure: the binaries are not built, or a process does not start.
    """
    needed = ["etcd", "kube-apiserver", *(["kube-controller-manager"] if controllers else [])]
    lacking = missing(needed)
    if lacking:
        raise ServerFailure(f"{', '.join(lacking)}: not in {folder()}; run `make kubernetes-binaries`")
    with tempfile.TemporaryDirectory(prefix="kilauea-kubernetes-") as name, ExitStack() as stack:
        home = Path(name)
        tokens = {user: secrets.token_hex(16) for user in USERS}
        authority, certificate = trustme.CA(), home / "ca.crt"
        _write_secrets(home, authority, tokens)
        client, peer, port, manager = free_ports(4)
        etcd = stack.enter_context(_component(home, "etcd", _etcd_arguments(client, peer)))
        _wait_until_ready(etcd, f"http://127.0.0.1:{client}/health", certificate)
        flags = [*_apiserver_arguments(port, client), *arguments]
        process = stack.enter_context(_component(home, "kube-apiserver", flags))
        url = f"https://127.0.0.1:{port}"
        server = Server(url, certificate, tokens, home / "kubeconfig", process, authority)
        server.wait()
        write_kubeconfig(server.kubeconfig, server.url, server.certificate, tokens["admin"])
        if controllers:
            flags = _controller_arguments(manager, server.kubeconfig, controllers)
            _wait_until_listening(stack.enter_context(_component(home, "kube-controller-manager", flags)), manager)
        yield server


@contextmanager
def kube_scheduler(server: Server) -> Iterator[None]:
    """Kubernetes' own scheduler at a server, for pods of `default-scheduler`.

    Raises:
        ServerFailure: the binary is not built, or the process does not start.
    """
    if lacking := missing(["kube-scheduler"]):
        raise ServerFailure(f"{', '.join(lacking)}: not in {folder()}; run `make kubernetes-binaries`")
    home, (port,) = server.kubeconfig.parent, free_ports(1)
    flags = [
        f"--kubeconfig={server.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--cert-dir=.",
        _GATES,
    ]
    with _component(home, "kube-scheduler", flags) as scheduler:
        _wait_until_listening(scheduler, port)
        yield


def _wait_until_listening(component: Component, port: int) -> None:
    """Wait until a process listens, of those that ask for credentials before they tell their health."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and component.alive:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise ServerFailure(f"{component.name} does not listen on {port}:\n{component.last_words()}")
