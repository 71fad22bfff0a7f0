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
FEATURE_GATES = ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption", "TopologyAwareWorkloadScheduling")
_GATES = f"--feature-gates={','.join(f'{gate}=true' for gate in FEATURE_GATES)}"
WORKLOADS = (_GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
"""Arguments of a kube-apiserver with the Workloads and PodGroups of scheduling.k8s.io, which our server has always.

`kubectl get podgroup` shows these then, and not those of Volcano.
"""
USERS = {"admin": "system:masters", "guest": "guests"}
"""Users with a token, and their group: one who may do everything, and one who may do nothing."""


class ServerFailure(Exception):
    """A process of the real Kubernetes did not start; the message ends with its last words."""


@dataclass(frozen=True)
class Server:
    """A running API server.

    Attributes:
        url: `https://127.0.0.1:PORT`.
        certificate: file of the CA that signed its certificate.
        tokens: bearer token of each user in `USERS`.
        kubeconfig: file for clients; acts as `admin`.
    """

    url: str
    certificate: Path
    tokens: dict[str, str]
    kubeconfig: Path


def free_ports(count: int) -> list[int]:
    """Ports of loopback that no one listened on a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]


def _write_secrets(home: Path, tokens: dict[str, str]) -> None:
    """Certificates, the key that signs service account tokens, and the table of tokens."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(home / "ca.crt"))
    identity = authority.issue_cert("127.0.0.1", "localhost")
    identity.private_key_pem.write_to_path(str(home / "server.key"))
    for part in identity.cert_chain_pems:
        part.write_to_path(str(home / "server.crt"), append=True)
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


def _last_words(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


@contextmanager
def _process(home: Path, name: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A binary that runs until the end of the block; what it says goes into `<name>.log`."""
    with (home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([folder() / name, *arguments], stdout=log, stderr=log, cwd=home)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(home: Path, name: str, process: subprocess.Popen[bytes], url: str, token: str = "") -> None:
    """Wait for an answer 200 at `url`; the error tells what the process said last."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    trust = ssl.create_default_context(cafile=str(home / "ca.crt"))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(request, timeout=5, context=trust):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise ServerFailure(f"{name} is not ready at {url}:\n{_last_words(home / f'{name}.log')}")


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
        _write_secrets(home, tokens)
        client, peer, port, manager = free_ports(4)
        etcd = stack.enter_context(_process(home, "etcd", _etcd_arguments(client, peer)))
        _wait_until_ready(home, "etcd", etcd, f"http://127.0.0.1:{client}/health")
        server = Server(f"https://127.0.0.1:{port}", home / "ca.crt", tokens, home / "kubeconfig")
        flags = [*_apiserver_arguments(port, client), *arguments]
        process = stack.enter_context(_process(home, "kube-apiserver", flags))
        _wait_until_ready(home, "kube-apiserver", process, f"{server.url}/readyz", tokens["admin"])
        write_kubeconfig(server.kubeconfig, server.url, server.certificate, tokens["admin"])
        if controllers:
            flags = _controller_arguments(manager, server.kubeconfig, controllers)
            process = stack.enter_context(_process(home, "kube-controller-manager", flags))
            _wait_until_listening(home, "kube-controller-manager", process, manager)
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
    with _process(home, "kube-scheduler", flags) as process:
        _wait_until_listening(home, "kube-scheduler", process, port)
        yield


def _wait_until_listening(home: Path, name: str, process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a process listens, of those that ask for credentials before they tell their health."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise ServerFailure(f"{name} does not listen on {port}:\n{_last_words(home / f'{name}.log')}")
