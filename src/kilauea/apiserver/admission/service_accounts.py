"""Service accounts: every pod has one, which must exist, and mounts its token unless it opts out.

Every namespace has the account `default`. It is created with the namespace, and again when it is deleted, so that pods
can be created at once; a controller that does the same later finds nothing to do.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from kilauea.apiserver.admission import AdmissionStep, Effect, forbidden
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.view import Metadata, Record, reader
from kilauea.apiserver.server_state import ServerState
from kilauea.apiserver.storage import Conflict, Stored

DEFAULT = "default"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_VOLUME = "kube-api-access-"
TOKEN_SECONDS = 3607
"""One hour, and a few seconds that identify automatically mounted tokens."""
_MIRROR = "kubernetes.io/config.mirror"


class _Reference(Record, frozen=True):
    name: str = ""


class _Account(Record, frozen=True):
    metadata: Metadata
    automount_service_account_token: bool | None = None
    image_pull_secrets: list[_Reference] | None = None


_read = reader(_Account)


class ServiceAccounts(AdmissionStep):
    """Sets the account and its token in new pods, and creates the account `default` in namespaces."""

    name = "ServiceAccount"
    kinds = frozenset({("", "pods"), ("", "namespaces"), ("", "serviceaccounts")})

    def mutate(self, attributes: Attributes) -> None:
        """Complete a new pod."""
        resource = attributes.resource
        if attributes.operation != "CREATE" or resource.plural != "pods" or resource.group or attributes.subresource:
            return
        if attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        if _MIRROR in (attributes.obj["metadata"].get("annotations") or ()):
            _check_mirror(attributes, spec)
            return
        name = spec.get("serviceAccountName") or DEFAULT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = _find(attributes, name)
        wanted = spec.get("automountServiceAccountToken")
        if wanted is None:
            wanted = account.automount_service_account_token
        if wanted is not False:
            _mount_token(attributes.backend, spec)
        if not spec.get("imagePullSecrets") and account.image_pull_secrets:
            spec["imagePullSecrets"] = [{"name": each.name} for each in account.image_pull_secrets]

    def begin(self, attributes: Attributes) -> Effect | None:
        """Create the default account after its namespace, and again after its deletion."""
        resource = attributes.resource
        if resource.group:
            return None
        if attributes.operation == "CREATE" and resource.plural == "namespaces":
            return _NewAccount(attributes.backend, attributes.object_name())
        if attributes.operation == "DELETE" and resource.plural == "serviceaccounts" and attributes.name == DEFAULT:
            return _NewAccount(attributes.backend, attributes.namespace)
        return None


class _NewAccount:
    """The creation of the default account of a namespace after a write."""

    def __init__(self, backend: ServerState, namespace: str) -> None:
        self._backend = backend
        self._namespace = namespace

    def cancel(self) -> None:
        """Do nothing."""

    async def settle(self, stored: Stored) -> None:
        """Create the account, unless the namespace is terminating or the account exists."""
        backend = self._backend
        namespace = backend.store.get(f"/core/namespaces/{self._namespace}")
        if namespace is None or msgspec.json.decode(namespace.value)["metadata"].get("deletionTimestamp"):
            return
        metadata = {"name": DEFAULT, "namespace": self._namespace, "uid": backend.new_uid()}
        metadata["creationTimestamp"] = backend.timestamp()
        key = f"/core/serviceaccounts/{self._namespace}/{DEFAULT}"
        try:
            await backend.store.write(key, 0, partial(_encode_account, metadata))
        except Conflict:
            return


def _encode_account(metadata: dict[str, Any], revision: int) -> bytes:
    full = {**metadata, "resourceVersion": str(revision)}
    return msgspec.json.encode({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": full})


def _find(attributes: Attributes, name: str) -> _Account:
    """Return the account of a pod."""
    stored = attributes.backend.store.get(f"/core/serviceaccounts/{attributes.namespace}/{name}")
    if stored is None:
        message = f'error looking up service account {attributes.namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(attributes, message)
    return _read(stored.value)


def _check_mirror(attributes: Attributes, spec: dict[str, Any]) -> None:
    """Check that a mirror pod, which a kubelet creates from a file, refers to no objects of the cluster."""
    if spec.get("serviceAccountName"):
        raise forbidden(attributes, "a mirror pod may not reference service accounts")
    for volume in spec.get("volumes") or ():
        if "secret" in volume:
            raise forbidden(attributes, "a mirror pod may not reference secrets")
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken"):
                raise forbidden(attributes, "a mirror pod may not use ServiceAccountToken volume projections")


def _mount_token(backend: ServerState, spec: dict[str, Any]) -> None:
    """Mount the token in all containers that have no mount at its path."""
    volumes: list[dict[str, Any]] = spec.get("volumes") or []
    present = next((each["name"] for each in volumes if each.get("name", "").startswith(TOKEN_VOLUME)), None)
    name = present or TOKEN_VOLUME + backend.new_suffix()
    mounted = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.get("volumeMounts") or []
        if all(each.get("mountPath") != TOKEN_PATH for each in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}]
            mounted = True
    if mounted and present is None:
        spec["volumes"] = [*volumes, _token_volume(name)]


def _token_volume(name: str) -> dict[str, Any]:
    """Return the volume with the token, the server's certificate, and the namespace."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
