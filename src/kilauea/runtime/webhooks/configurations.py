"""Webhook configurations: one object for each hook, under Volcano's names.

Existing objects from elsewhere (such as a Helm chart) keep everything except the bundle of authorities.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kilauea.admission.review import Hook
from kilauea.api.kinds import HYPER_NODES, MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS
from kilauea.api.ports import Api, ApiError, Key, Obj, Resource

PREFIX = "volcano-admission-service"
LABELS = {"app.kubernetes.io/managed-by": "kilauea-webhooks"}
SECONDS = 10
"""Timeout of a hook, in seconds."""
PORT = 443
"""Port of the service."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Where:
    """The address of the webhooks for the API server: a service of the cluster, or a URL."""

    namespace: str = ""
    service: str = ""
    url: str = ""

    def client(self, path: str) -> dict[str, Any]:
        """The `clientConfig` of a hook, without the bundle."""
        if self.url:
            return {"url": self.url.rstrip("/") + path}
        return {"service": {"namespace": self.namespace, "name": self.service, "path": path, "port": PORT}}


def kind_of(hook: Hook) -> Resource:
    """The kind of the configuration object of a hook."""
    return MUTATING_WEBHOOKS if hook.mutate is not None else VALIDATING_WEBHOOKS


def name_of(hook: Hook) -> str:
    """The name of the configuration object."""
    return PREFIX + hook.path.replace("/", "-")


def configuration(hook: Hook, where: Where, bundle: bytes) -> dict[str, Any]:
    """The configuration object of a hook.

    Pods are admitted when the webhooks do not answer: a cluster must be able to start this process without it.
    """
    resource, kind = hook.resource, kind_of(hook)
    webhook = {
        "name": hook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {**where.client(hook.path), "caBundle": base64.b64encode(bundle).decode()},
        "failurePolicy": "Ignore" if resource == PODS else "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {} if resource == HYPER_NODES else {"matchExpressions": [_outside(where.namespace)]},
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "operations": list(hook.operations),
                "resources": [resource.plural],
                "scope": "*",
            }
        ],
        "sideEffects": "None" if resource == HYPER_NODES else "NoneOnDryRun",
        "timeoutSeconds": SECONDS,
    }
    if kind == MUTATING_WEBHOOKS:
        webhook["reinvocationPolicy"] = "Never"
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name_of(hook), "labels": LABELS},
        "webhooks": [webhook],
    }


def _outside(namespace: str) -> dict[str, Any]:
    spared = [each for each in (namespace, "kube-system") if each]
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": spared}


async def register(api: Api, hooks: Sequence[Hook], where: Where, bundle: bytes) -> list[str]:
    """Create or update the objects; delete those of hooks that this program registered and that are off now.

    Returns:
        The names of objects that were created or changed.

    Raises:
        ApiError: the server refuses.
    """
    changed = [name_of(hook) for hook in hooks if await _ensure(api, kind_of(hook), configuration(hook, where, bundle))]
    wanted = {(kind_of(hook), name_of(hook)) for hook in hooks}
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for item in (await api.list(kind, labels=selector)).items:
            name = msgspec.json.decode(item)["metadata"]["name"]
            if (kind, name) not in wanted:
                await api.delete(kind, Key("", name))
    return changed


async def _ensure(api: Api, kind: Resource, wanted: dict[str, Any]) -> bool:
    """Create an object, or update the existing one; return True if anything had to be written."""
    name = wanted["metadata"]["name"]
    try:
        found = await api.get(kind, Key("", name))
    except ApiError as error:
        if error.code != 404:
            raise
        await api.create(kind, "", wanted)
        return True
    changed = _brought_up_to_date(found, wanted)
    if changed != found:
        log.info("%s %s updated", kind.kind, name)
        await api.update(kind, changed)
        return True
    return False


def _brought_up_to_date(found: Obj, wanted: Obj) -> dict[str, Any]:
    """The updated object; an object from elsewhere only gets our bundle in each of its webhooks."""
    labels = found["metadata"].get("labels") or {}
    if all(labels.get(key) == value for key, value in LABELS.items()):
        # Keep the defaults of the server.
        return {**found, "webhooks": [{**(found.get("webhooks") or [{}])[0], **wanted["webhooks"][0]}]}
    bundle = wanted["webhooks"][0]["clientConfig"]["caBundle"]
    theirs = [
        {**each, "clientConfig": {**each.get("clientConfig", {}), "caBundle": bundle}}
        for each in found.get("webhooks") or ()
    ]
    return {**found, "webhooks": theirs}
