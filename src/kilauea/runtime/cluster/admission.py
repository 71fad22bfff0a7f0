"""Volcano's admission inside the embedded API server: its hooks are one of the server's own steps.

They run where the real server would call webhooks, refuse requests with the same messages, and read the store itself,
including writes that are not on disk yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from kilauea.admission.registry import HOOKS, mutations
from kilauea.admission.review import Denied, Hook, Review, Settings
from kilauea.api.kinds import QUEUES, VC_JOBS
from kilauea.apiserver.admission import AdmissionStep, Effect
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.patch.json_patch import json_patch
from kilauea.apiserver.status import ApiFault
from kilauea.runtime.cluster.store_view import StoreView

EXEMPT = frozenset({"kube-system"})
"""Namespaces whose objects are not checked, so that the cluster's own components do not depend on admission."""

_Place = tuple[str, str, str]
"""Group, plural and operation."""


class VolcanoAdmission(AdmissionStep):
    """Defaults and validates Volcano's kinds and the pods of its scheduler.

    Args:
        backend: backend of the server.
        settings: settings of the hooks.
        hooks: hooks to run.
    """

    name = "Volcano"

    def __init__(self, backend: Backend, settings: Settings, hooks: Sequence[Hook] = HOOKS) -> None:
        self._view = StoreView(backend.store)
        self._settings = settings
        self._mutating = _by_place(hook for hook in hooks if hook.mutate is not None)
        self._validating = _by_place(hook for hook in hooks if hook.validate is not None)

    def mutate(self, attributes: Attributes) -> None:
        """Apply the changes of the hooks."""
        for hook in _asked(self._mutating, attributes):
            review = _review(hook, attributes)
            with _refusals_of(hook):
                patch = mutations(hook, review, self._view, self._settings)
            if patch:
                attributes.obj = json_patch(attributes.obj, patch)

    def examine(self, attributes: Attributes) -> None:
        """Check the pod templates of a large job: thousands of them take most of the time."""
        if (attributes.resource.group, attributes.resource.plural) != (VC_JOBS.group, VC_JOBS.plural):
            return
        if attributes.operation != "CREATE" or not _asked(self._validating, attributes):
            return
        tasks = ((attributes.obj or {}).get("spec") or {}).get("tasks") or ()
        templates = [each.get("template") or {} for each in tasks]
        attributes.examined = {_key_of(each): self._settings.check_template(each) for each in templates}

    def validate(self, attributes: Attributes) -> None:
        """Admit the object, or raise the refusal of the first hook that refuses it."""
        settings = self._settings
        if attributes.examined is not None:
            settings = replace(settings, check_template=partial(self._errors_of, attributes.examined))
        for hook in _asked(self._validating, attributes):
            if hook.validate is not None:
                with _refusals_of(hook):
                    attributes.warnings += hook.validate(_review(hook, attributes), self._view, settings)

    def _errors_of(self, known: Mapping[bytes, Sequence[str]], template: Mapping[str, Any]) -> Sequence[str]:
        found = known.get(_key_of(template))
        return self._settings.check_template(template) if found is None else found

    def begin(self, attributes: Attributes) -> Effect | None:
        """Show a write of a queue to the reviews that come before it is durable."""
        resource = attributes.resource
        if resource.plural != QUEUES.plural or resource.group != QUEUES.group or attributes.dry_run:
            return None
        return self._view.ahead(attributes.object_name(), attributes.obj)


def _key_of(template: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(template)


@contextmanager
def _refusals_of(hook: Hook) -> Iterator[None]:
    """Converts a hook's refusal into the server's: code 400 and no reason, because hooks give neither."""
    try:
        yield
    except Denied as error:
        denied = f'admission webhook "{hook.name}" denied the request'
        raise ApiFault(400, "", f"{denied}: {error.message}") from error


def _by_place(hooks: Iterable[Hook]) -> Mapping[_Place, Sequence[Hook]]:
    found: dict[_Place, list[Hook]] = {}
    for hook in hooks:
        for operation in hook.operations:
            found.setdefault((hook.resource.group, hook.resource.plural, operation), []).append(hook)
    return found


def _asked(hooks: Mapping[_Place, Sequence[Hook]], attributes: Attributes) -> Sequence[Hook]:
    """The hooks to call for a write."""
    resource = attributes.resource
    found = hooks.get((resource.group, resource.plural, attributes.operation), ())
    return () if attributes.subresource or attributes.namespace in EXEMPT else found


def _review(hook: Hook, attributes: Attributes) -> Review:
    metadata = (attributes.obj or attributes.old or {}).get("metadata") or {}
    return Review(
        attributes.operation,  # type: ignore[arg-type]  # hooks are asked about no CONNECT
        hook.resource,
        attributes.namespace,
        attributes.name or str(metadata.get("name") or ""),
        attributes.obj,
        attributes.old,
        attributes.user.name,
        attributes.dry_run,
    )
