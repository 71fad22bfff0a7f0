"""The built-in kinds: discovery of the real server, combined with the strategies of this one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kilauea.apiserver.resources.strategies import OLDER, STRATEGIES
from kilauea.apiserver.resources.types import ResourceType, StoredForm, Subresource
from kilauea.apiserver.schema import builtin_resources
from kilauea.apiserver.stored_forms.autoscaling import FirstAutoscalers
from kilauea.apiserver.stored_forms.devices import BETA_DEVICES, BETAS, STABLE
from kilauea.apiserver.stored_forms.renaming import EVENTS
from kilauea.apiserver.strategies.base import Strategy
from kilauea.apiserver.strategies.endpoints import Endpoints, EndpointSlices

SERVED_SUBRESOURCES = frozenset(
    (
        "approval attach binding ephemeralcontainers eviction exec finalize log portforward proxy resize scale status "
        "token"
    ).split()
)
"""Supported subresources."""
_STORED_ELSEWHERE: Mapping[tuple[str, str, str], tuple[str | None, StoredForm]] = {
    ("events.k8s.io", "v1", "events"): ("", EVENTS),
    ("autoscaling", "v1", "horizontalpodautoscalers"): (None, FirstAutoscalers()),
    **{("resource.k8s.io", version, plural): (None, BETA_DEVICES) for version in BETAS for plural in STABLE},
}
"""Kinds that are stored in another form, with the group of that form if it differs."""
_LIFE = {"v1beta1": ("v1.35", "v1.38"), "v1beta2": ("v1.36", "v1.39")}
"""Kubernetes versions that deprecate and remove a version of a kind that `v1` also has."""
_ON_LOOPBACK: Mapping[tuple[str, str], Strategy] = {
    ("", "endpoints"): Endpoints(loopback=True),
    ("discovery.k8s.io", "endpointslices"): EndpointSlices(loopback=True),
}


def builtin_types(*, loopback: bool = False) -> list[ResourceType]:
    """Return all built-in kinds in the order of discovery.

    Args:
        loopback: True to allow loopback addresses in endpoints.
    """
    strategies = {**STRATEGIES, **(_ON_LOOPBACK if loopback else {})}
    return [_type_of(facts, strategies) for facts in builtin_resources()]


def _type_of(facts: Mapping[str, Any], strategies: Mapping[tuple[str, str], Strategy]) -> ResourceType:
    group, version, plural = facts["group"], facts["version"], facts["resource"]
    strategy = OLDER.get((group, version, plural)) or strategies.get((group, plural)) or Strategy()
    stored_group, form = _STORED_ELSEWHERE.get((group, version, plural), (None, None))
    return ResourceType(
        group=group,
        version=version,
        plural=plural,
        kind=facts["responseKind"]["kind"],
        namespaced=facts["scope"] == "Namespaced",
        short_names=tuple(facts.get("shortNames", ())),
        categories=tuple(facts.get("categories", ())),
        singular=facts["singularResource"],
        verbs=tuple(facts["verbs"]),
        subresources=tuple(
            _subresource_of(each, group, version)
            for each in facts.get("subresources", ())
            if each["subresource"] in SERVED_SUBRESOURCES
        ),
        strategy=_deprecating(strategy, facts) if form is BETA_DEVICES else strategy,
        stored_group=stored_group,
        other_form=form,
        storage_version_hash=facts.get("storageVersionHash", ""),
    )


def _deprecating(strategy: Strategy, facts: Mapping[str, Any]) -> Strategy:
    """Return the strategy of a deprecated version, about which every response warns."""
    since, end = _LIFE[facts["version"]]
    name = f"{facts['group']}/{facts['version']} {facts['responseKind']['kind']}"
    older = copy.copy(strategy)
    older.deprecated = f"{name} is deprecated in {since}+, unavailable in {end}+"
    return older


def _subresource_of(facts: Mapping[str, Any], group: str, version: str) -> Subresource:
    kind = facts["responseKind"]
    return Subresource(
        facts["subresource"], kind["kind"], tuple(facts["verbs"]), kind["group"] or group, kind["version"] or version
    )
