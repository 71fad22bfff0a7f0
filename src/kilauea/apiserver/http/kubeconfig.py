"""The file that tells clients where the server is and how to be known to it."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from kilauea.apiserver.http.credentials import ADMIN, Credentials, write_private

NAME = "kilauea"


def write_kubeconfig(path: Path, server: str, credentials: Credentials) -> None:
    """Write a kubeconfig file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, kubeconfig(server, credentials).encode())


def kubeconfig(server: str, credentials: Credentials) -> str:
    """A kubeconfig with one cluster and its administrator.

    Compression is switched off in it: between processes of one machine it only costs time.
    """
    authority = base64.b64encode(credentials.ca).decode()
    cluster = {"server": server, "certificate-authority-data": authority, "disable-compression": True}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": ADMIN, "user": {"token": credentials.token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": ADMIN}}],
        "current-context": NAME,
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text
