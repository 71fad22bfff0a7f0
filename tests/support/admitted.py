"""Admission without a server: queues in a view, reviews of objects, and what became of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kilauea.admission.lookups import INTERESTS
from kilauea.admission.review import Denied, JsonPatch, Mutate, Operation, Review, Settings, Validate
from kilauea.api.kinds import QUEUES, VC_JOBS
from kilauea.api.ports import Resource, Seen
from kilauea.apiserver.patch.json_patch import json_patch
from kilauea.client.view import Cache
from kilauea.runtime.inputs.template_rules import template_errors

Data = dict[str, Any]
SETTINGS = Settings(check_template=template_errors)


def queue(name: str, parent: str = "root", state: str = "Open") -> Data:
    """A queue as the view shows it; without a state no one has looked at it yet."""
    spec = {"parent": parent} if name != "root" else {}
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": state} if state else {}}


def view_of(*queues: Data) -> Cache:
    """A view of `root`, `default` and more queues."""
    view = Cache()
    for interest in INTERESTS:
        view.declare(interest.resource, interest.labels, interest.indexes)
    indexer = view.declare(QUEUES)
    for each in (queue("root"), queue("default"), *queues):
        indexer.on_events([Seen("ADDED", msgspec.json.encode(each), "1")])
    return view


VIEW = view_of()


def job(*tasks: Data, name: str = "m", **spec: Any) -> Data:
    """A job in the queue `default`."""
    return {
        "apiVersion": VC_JOBS.api_version,
        "kind": VC_JOBS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": "default", "tasks": list(tasks), **spec},
    }


def task(name: str = "a", replicas: int = 1, **fields: Any) -> Data:
    """A task of pods with one container."""
    template = {"spec": {"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def review_of(obj: Any, operation: Operation = "CREATE", old: Any = None, resource: Resource = VC_JOBS) -> Review:
    """A request by a user."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    named = metadata if isinstance(metadata, Mapping) else {}
    return Review(operation, resource, str(named.get("namespace", "")), str(named.get("name", "")), obj, old, "user")


def completed(mutate: Mutate, obj: Any, settings: Settings = SETTINGS) -> Any:
    """An object with what a hook fills in."""
    return json_patch(copy.deepcopy(obj), copy.deepcopy(patch_of(mutate, obj, settings)))


def patch_of(mutate: Mutate, obj: Any, settings: Settings = SETTINGS) -> JsonPatch:
    """What a hook fills in."""
    return mutate(review_of(obj), VIEW, settings)


def denial(validate: Validate, review: Review, view: Cache = VIEW, settings: Settings = SETTINGS) -> str:
    """Why a hook refuses something; empty if it does not."""
    try:
        validate(review, view, settings)
    except Denied as error:
        return error.message or "denied without a word"
    return ""


def changed(obj: Any, path: Iterable[str | int], value: Any) -> Any:
    """A copy of an object with another value at a path; where the path does not lead anywhere, the object as it is."""
    found = copy.deepcopy(obj)
    *above, last = path
    place = found
    try:
        for step in above:
            place = place[step]
        place[last] = value
    except (LookupError, TypeError):
        return obj
    return found
