"""The definitions that every server includes: those of the Volcano kinds."""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from kilauea.api.crds import definitions
from kilauea.apiserver.bootstrap import check_own
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.crd.definition_strategy import CLEANUP
from kilauea.apiserver.crd.names import TERMINATING
from kilauea.apiserver.custom_resources.serving import PREFIX
from kilauea.apiserver.request import GROUP_MASTERS, ApiRequest, User
from kilauea.apiserver.rest.objects import decode, encode
from kilauea.apiserver.schema import openapi_definitions

log = logging.getLogger(__name__)

COLLECTION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MANAGER = "kilauea"
SELF = User("system:apiserver", groups=(GROUP_MASTERS,))


async def install_bundled(api: ApiServer) -> None:
    """Create the definitions, update those of an older version, and end the deletion of those being deleted.

    Raises:
        RuntimeError: they cannot be stored.
    """
    query = [("fieldManager", MANAGER), ("force", "true")]
    headers = {"content-type": "application/apply-patch+yaml"}
    for each in definitions(openapi_definitions()):
        path = f"{COLLECTION}/{each['metadata']['name']}"
        await _revive(api, each["metadata"]["name"])
        answer = await api.handle(ApiRequest("PATCH", path, query, headers, msgspec.json.encode(each), SELF))
        if not check_own(answer, path, 200, 201):
            log.warning("%s: to repair it, delete this definition and restart; its objects go with it", path)


async def _revive(api: ApiServer, name: str) -> None:
    """End the deletion of a definition, which would be created again at once and might wait for its objects forever."""
    store = api.backend.store
    stored = store.get(f"{PREFIX}{name}")
    definition = decode(stored.value) if stored is not None else {}
    if stored is None or not definition["metadata"].pop("deletionTimestamp", None):
        return
    metadata, state = definition["metadata"], definition.get("status") or {}
    metadata.pop("deletionGracePeriodSeconds", None)
    metadata["finalizers"] = [each for each in metadata.get("finalizers") or [] if each != CLEANUP]
    state["conditions"] = [each for each in state.get("conditions") or [] if each.get("type") != TERMINATING]
    await store.write(stored.key, stored.revision, partial(encode, definition))
    log.warning("%s was being deleted; it belongs to every server, so it stays, with the objects that are left", name)
