"""Access to the server for a process in a pod, from the files and variables that Kubernetes provides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kilauea.client.access import Access, AccessError
from kilauea.client.token_file import TokenFile

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environment: Mapping[str, str], folder: Path = FOLDER) -> bool:
    """Return True if this process runs in a pod with a service account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def in_cluster(environment: Mapping[str, str], folder: Path = FOLDER) -> Access:
    """Return the access to the server from a pod.

    Raises:
        AccessError: the process does not run in a cluster, or its service account has no token.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise AccessError(
            "KUBERNETES_SERVICE_HOST is not set, so this is not a pod: name a kubeconfig file with --kubeconfig"
        )
    try:
        authority = (folder / "ca.crt").read_bytes()
        namespace = (folder / "namespace").read_text().strip()
    except OSError as error:
        message = "the pod needs a service account with automountServiceAccountToken"
        raise AccessError(f"{folder}: {error.strerror}: {message}") from error
    bracketed = f"[{host}]" if ":" in host else host
    token = TokenFile(folder / "token")
    return Access(f"https://{bracketed}:{port}", token, authority, folder / "ca.crt", namespace=namespace)
