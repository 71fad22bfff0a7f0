"""Every kind, part and verb that discovery names, asked by someone who administers another namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apiserver.test_rbac import BOB, bind
from support.api_core import Api
from support.definitions import serve, trees

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
OWN = {"selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"}
"""Kinds that anyone may create, to ask about themselves."""


@pytest.fixture(scope="module")
def tenants() -> Iterator[Api]:
    """An API with a custom kind and two namespaces, of which Bob administers `team`."""
    api = Api()
    serve(api, trees({"type": "object"}))
    for name in ("team", "victim"):
        api.good("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    bind(api, "admin", "User", "bob", namespace="team")
    yield api
    api.close()


def kinds(api: Api) -> Iterator[tuple[str, str, bool]]:
    """The root of each version, and its kinds and their parts, with whether these are in namespaces."""
    groups = api.good("GET", "/apis")["groups"]
    for root in ("/api/v1", *(f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"])):
        for each in api.good("GET", root)["resources"]:
            yield root, each["name"], each["namespaced"]


def paths(api: Api) -> Iterator[str]:
    """Paths to objects of the other namespace, of all namespaces and of the cluster."""
    for root, name, namespaced in kinds(api):
        plural, _, part = name.partition("/")
        if plural in OWN:
            continue
        for place in (f"{root}/namespaces/victim", root) if namespaced else (root,):
            yield f"{place}/{plural}/x" + (f"/{part}" if part else "")
            yield f"{place}/{plural}/x" + (f"/{part}/more" if part else "/proxy")
            if not part:
                yield f"{place}/{plural}"
                yield f"{place}/{plural}?watch=true&resourceVersion=1"
                yield f"{place}/{plural}?fieldSelector=metadata.namespace%3Dteam"
                yield f"{root}/watch/namespaces/victim/{plural}"


def test_nothing_outside_of_the_own_namespace_is_read_or_written(tenants: Api) -> None:
    before = tenants.backend.store.revision
    asked = list(dict.fromkeys(paths(tenants)))
    assert len(asked) > 800
    answers = {(method, path): tenants.ask(method, path, {}, user=BOB).code for path in asked for method in METHODS}
    assert {each: code for each, code in answers.items() if code not in (403, 404)} == {}
    assert tenants.backend.store.revision == before
