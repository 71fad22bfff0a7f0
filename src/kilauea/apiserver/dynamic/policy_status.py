"""The status of a validating policy: the checked generation, and the warnings about its types."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kilauea.apiserver.decoding import decode
from kilauea.apiserver.dynamic.matching import GROUP
from kilauea.apiserver.dynamic.type_checks import LIGHT, check_types, question_about
from kilauea.apiserver.heavy import TooHeavy
from kilauea.apiserver.patch.managed import track_update
from kilauea.apiserver.schema.builtin import builtin_schema
from kilauea.apiserver.storage import Conflict, Stored

if TYPE_CHECKING:
    from kilauea.apiserver.server_state import ServerState

log = logging.getLogger(__name__)
KIND = "ValidatingAdmissionPolicy"
_MANAGER = "validatingadmissionpolicy-status"


async def update_policy_status(backend: ServerState, stored: Stored) -> None:
    """Write the status of a stored policy, unless it is already of this generation.

    A policy that changes meanwhile is left to the effect of that change.
    """
    policy = decode(stored.value)
    generation = policy["metadata"].get("generation", 1)
    status = policy.get("status") or {}
    if status.get("observedGeneration", 0) >= generation:
        return
    question = question_about(policy.get("spec") or {}, backend.registry)
    asked = msgspec.json.encode(question)
    try:
        answer = check_types(asked) if question.weight <= LIGHT else await backend.heavy.run("check types", asked)
    except TooHeavy as error:
        log.warning("the types of policy %s are not checked: %s", policy["metadata"]["name"], error)
        return
    warnings = msgspec.json.decode(answer)
    policy["status"] = {
        **status, "observedGeneration": generation,
        "typeChecking": {"expressionWarnings": warnings} if warnings else {},
    }  # fmt: skip
    policy["metadata"]["managedFields"] = track_update(
        decode(stored.value), policy, _MANAGER, builtin_schema(GROUP, "v1", KIND), f"{GROUP}/v1", backend.timestamp(),
        subresource="status",
    )  # fmt: skip
    try:
        await backend.store.write(stored.key, stored.revision, partial(_encode, policy))
    except Conflict:
        log.debug("policy %s changed while its types were checked", policy["metadata"]["name"])


def _encode(policy: dict[str, Any], revision: int) -> bytes:
    policy["metadata"]["resourceVersion"] = str(revision)
    return msgspec.json.encode(policy)
