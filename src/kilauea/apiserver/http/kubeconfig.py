"""The file with the address of the server and the credentials of its administrator, for clients."""

from __future__ import annotations

import base64
import errno
from pathlib import Path
from typing import Any

import yaml

from kilauea.api.yamltext import YamlError, load_yaml
from kilauea.apiserver.http.credentials import ADMIN, Credentials, write_private

NAME = "kilauea"
_PARTS = ("clusters", "users", "contexts")


def write_kubeconfig(path: Path, server: str, credentials: Credentials) -> None:
    """Write a kubeconfig file that only its owner can read, atomically.

    An existing file keeps its other clusters, users and contexts, as with `kubectl config`.

    Raises:
        OSError: it cannot be written, or the existing file is not a kubeconfig.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    own = kubeconfig(server, credentials)
    text: str = yaml.safe_dump(_merged(_existing(path), own), sort_keys=False)
    write_private(path, text.encode())


def _existing(path: Path) -> dict[str, Any]:
    """Return the existing kubeconfig; empty if none."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise _not_ours(path, "it is a pipe or a device")
    try:
        found = load_yaml(path.read_bytes())
    except FileNotFoundError:
        return {}
    except YamlError as error:
        raise _not_ours(path, str(error)) from error
    if found is None:
        return {}
    if not isinstance(found, dict) or found.get("kind", "Config") != "Config":
        raise _not_ours(path, "it has another kind")
    if not all(isinstance(found.get(part), list | None) for part in _PARTS):
        raise _not_ours(path, "its clusters, users or contexts are not lists")
    return found


def _not_ours(path: Path, why: str) -> OSError:
    return OSError(errno.EEXIST, f"the file is there and is not a kubeconfig: {why}", str(path))


def _merged(existing: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the existing kubeconfig with our entries, which become the current ones."""
    merged = {**existing, **{key: value for key, value in own.items() if key not in _PARTS}}
    for part in _PARTS:
        names = [each["name"] for each in own[part]]
        others = [
            each for each in existing.get(part) or [] if not isinstance(each, dict) or each.get("name") not in names
        ]
        merged[part] = [*own[part], *others]
    return merged


def kubeconfig(server: str, credentials: Credentials) -> dict[str, Any]:
    """Return a kubeconfig with one cluster and its administrator.

    It disables compression, which only costs time between processes of one machine.
    """
    authority = base64.b64encode(credentials.ca).decode()
    cluster = {"server": server, "certificate-authority-data": authority, "disable-compression": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": ADMIN, "user": {"token": credentials.token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": ADMIN}}],
        "current-context": NAME,
    }
