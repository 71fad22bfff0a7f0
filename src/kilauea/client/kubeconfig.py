"""Kubeconfig files: access to a server from one or several files.

    access = load_kubeconfig([Path("~/.kube/config").expanduser()], os.environ)

With several files, as in the variable KUBECONFIG, the first that defines a name takes precedence.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kilauea.api.yamltext import YamlError, load_yaml
from kilauea.client.access import Access, AccessError, Credentials, CredentialSource, always
from kilauea.client.certificate_files import CertificateFiles
from kilauea.client.exec_plugin import ExecPlugin
from kilauea.client.token_file import TokenFile

_ANOTHER = "choose another file with --kubeconfig or KUBECONFIG"


class _Entry(NamedTuple):
    """A named cluster, user or context, and its file."""

    file: Path
    name: str
    content: Mapping[str, Any]

    def text(self, field: str) -> str:
        """Return a string field; empty if missing."""
        value = self.content.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(field, f"is {value!r}: write a text")
        return value

    def content_of(self, field: str) -> bytes:
        """Return the content of `<field>-data`, which is in base64, or else of the file that `<field>` names."""
        if data := self.text(f"{field}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise self.error(f"{field}-data", f"invalid base64 ({error}): encode the PEM text") from error
        if name := self.text(field):
            try:
                return self.path(name).read_bytes()
            except OSError as error:
                raise self.error(field, f"{name} cannot be read ({error.strerror}): correct the path") from error
        return b""

    def file_of(self, field: str) -> Path | None:
        """Return the file that `<field>` names; None if the content is given inline."""
        name = self.text(field)
        return self.path(name) if name and not self.text(f"{field}-data") else None

    def path(self, name: str) -> Path:
        """Resolve a path relative to the folder of the file that contains it."""
        return self.file.parent / Path(name).expanduser()

    def error(self, field: str, words: str) -> AccessError:
        """Return the error about a field."""
        return AccessError(f"{self.file}: {self.name}: {field}: {words}")


def load_kubeconfig(files: Sequence[Path], environment: Mapping[str, str], context: str = "") -> Access:
    """Return the access to the server in kubeconfig files.

    Args:
        files: the files; missing ones are skipped, unless all are missing.
        environment: the environment of credential plugins.
        context: the context; empty for the current one.

    Raises:
        AccessError: a file cannot be read or is incomplete.
    """
    documents = [(path, _read(path)) for path in files if path.exists()]
    if not documents:
        raise AccessError(f"{', '.join(map(str, files))}: no such file: name a kubeconfig file with --kubeconfig")
    name = context or next((str(text) for _, each in documents if (text := each.get("current-context"))), "")
    if not name:
        raise AccessError(f"{files[0]}: current-context: is empty: set it, or choose a context")
    chosen = _find(documents, "context", name)
    cluster = _find(documents, "cluster", chosen.text("cluster"))
    user = _find(documents, "user", chosen.text("user")) if chosen.text("user") else _Entry(cluster.file, "user", {})
    return _access(chosen, cluster, user, environment)


def _access(chosen: _Entry, cluster: _Entry, user: _Entry, environment: Mapping[str, str]) -> Access:
    server = cluster.text("server")
    if not server.startswith(("https://", "http://")):
        raise cluster.error("server", f'invalid address "{server}": write https://HOST:PORT')
    return Access(
        server=server,
        credentials=_credentials(user, cluster, environment),
        authority=cluster.content_of("certificate-authority"),
        authority_file=cluster.file_of("certificate-authority"),
        insecure=cluster.content.get("insecure-skip-tls-verify") is True,
        server_name=cluster.text("tls-server-name"),
        proxy=cluster.text("proxy-url"),
        compression=cluster.content.get("disable-compression") is not True,
        namespace=chosen.text("namespace") or "default",
        impersonate=_impersonation(user),
    )


def _credentials(user: _Entry, cluster: _Entry, environment: Mapping[str, str]) -> CredentialSource:
    """Return the credentials of a user. A token file takes precedence over an inline token, as it is newer."""
    if user.content.get("auth-provider"):
        raise user.error("auth-provider", "is no longer part of Kubernetes: use an exec plugin, see users[].user.exec")
    certificate, key = user.content_of("client-certificate"), user.content_of("client-key")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise user.error(missing, "is missing: a certificate and its key go together")
    if name := user.text("tokenFile"):
        return TokenFile(user.path(name), certificate, key)
    if token := user.text("token"):
        return always(Credentials(f"Bearer {token}", certificate, key))
    if username := user.text("username"):
        pair = base64.b64encode(f"{username}:{user.text('password')}".encode()).decode()
        return always(Credentials(f"Basic {pair}", certificate, key))
    if (plugin := user.content.get("exec")) is not None:
        return _plugin(plugin, user, cluster, environment)
    files = user.file_of("client-certificate"), user.file_of("client-key")
    if files[0] is not None and files[1] is not None:
        return CertificateFiles(Credentials("", certificate, key), files[0], files[1])
    return always(Credentials("", certificate, key))


def _plugin(plugin: Any, user: _Entry, cluster: _Entry, environment: Mapping[str, str]) -> ExecPlugin:
    """Return the credential plugin."""
    if not isinstance(plugin, dict):
        raise user.error("exec", "must be a mapping with apiVersion and command")
    entry = _Entry(user.file, f"{user.name}: exec", plugin)
    command = entry.text("command")
    if not command:
        raise entry.error("command", "is missing: name the program that gives credentials")
    if "/" in command:
        command = str(entry.path(command))
    variables = {each["name"]: each["value"] for each in plugin.get("env") or ()}
    about = _about_cluster(cluster) if plugin.get("provideClusterInfo") else None
    return ExecPlugin(
        version=entry.text("apiVersion"),
        command=(command, *map(str, plugin.get("args") or ())),
        environment={**environment, **variables},
        hint=entry.text("installHint"),
        cluster=about,
    )


def _about_cluster(cluster: _Entry) -> dict[str, Any]:
    """Return the description of a cluster for plugins."""
    authority = base64.b64encode(cluster.content_of("certificate-authority")).decode()
    about = {
        "server": cluster.text("server"),
        "certificate-authority-data": authority,
        "tls-server-name": cluster.text("tls-server-name"),
        "proxy-url": cluster.text("proxy-url"),
        "insecure-skip-tls-verify": cluster.content.get("insecure-skip-tls-verify") is True,
    }
    for extension in cluster.content.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            about["config"] = extension.get("extension")
    return {name: value for name, value in about.items() if value}


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    """Return the headers for impersonation."""
    if user.content.get("as-groups") or user.content.get("as-user-extra"):
        raise user.error("as-groups", "is not supported: leave out as-groups and as-user-extra, or use another user")
    headers = {"impersonate-user": user.text("as"), "impersonate-uid": user.text("as-uid")}
    return tuple((name, value) for name, value in headers.items() if value)


def _read(path: Path) -> Mapping[str, Any]:
    """Read and parse a file."""
    try:
        document = load_yaml(path.read_bytes())
    except OSError as error:
        raise AccessError(f"{path}: cannot be read ({error.strerror}): {_ANOTHER}") from error
    except YamlError as error:
        raise AccessError(f"{path}: is not YAML ({error}): correct it, or {_ANOTHER}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise AccessError(f"{path}: is not a kubeconfig (its top level must be a mapping): {_ANOTHER}")
    return document


def _find(documents: Sequence[tuple[Path, Mapping[str, Any]]], kind: str, name: str) -> _Entry:
    """Return the entry with a name, from the first file that has it."""
    known: dict[str, None] = {}
    for path, document in documents:
        for entry in document.get(f"{kind}s") or ():
            if not isinstance(entry, dict) or not isinstance(entry.get(kind) or {}, dict):
                raise AccessError(f"{path}: {kind}s: holds {entry!r}: write entries with a name and a {kind}")
            if entry.get("name") == name:
                return _Entry(path, f"{kind} {name}", entry.get(kind) or {})
            known[str(entry.get("name"))] = None
    have = f"use one of {', '.join(known)}" if known else f"there are no {kind}s"
    raise AccessError(f'{documents[0][0]}: there is no {kind} "{name}": {have}')
