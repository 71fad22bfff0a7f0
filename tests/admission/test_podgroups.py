"""Pod groups: the queue of their namespace, open queues only, one highest tier; and hyper nodes, beside them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kilauea.admission import hypernodes, podgroups
from kilauea.admission.review import Settings
from kilauea.api.kinds import HYPER_NODES, NAMESPACES, POD_GROUPS, VC_JOBS
from kilauea.api.ports import Resource, Seen
from kilauea.client.view import Cache
from support.admitted import Data, denial, queue, review_of, view_of

SETTINGS = Settings()
TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}
BOTH = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously."


def group(queue_name: str = "default", **spec: Any) -> Data:
    """A pod group in the namespace `ns`."""
    return {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"queue": queue_name, **spec}}


def with_object(view: Cache, resource: Resource, obj: Data) -> Cache:
    """A view with one object more."""
    view.declare(resource).on_events([Seen("ADDED", msgspec.json.encode(obj), "1")])
    return view


def test_a_group_without_a_queue_of_its_own_goes_to_that_of_its_namespace() -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "team"}
    view = with_object(view_of(), NAMESPACES, {"metadata": {"name": "ns", "annotations": annotations}})
    patch = podgroups.mutate(review_of(group(), resource=POD_GROUPS), view, SETTINGS)
    assert patch == [{"op": "add", "path": "/spec/queue", "value": "team"}]
    assert podgroups.mutate(review_of(group("other"), resource=POD_GROUPS), view, SETTINGS) == []
    assert podgroups.mutate(review_of(group(), resource=POD_GROUPS), view_of(), SETTINGS) == []


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (group(), ""),
        (group("new"), ""),
        (group("ghost"), 'unable to find queue: queue.scheduling.volcano.sh "ghost" not found'),
        (
            group("shut"),
            "can only submit PodGroup to queue with state `Open`, queue `shut` status is `Closed`.",
        ),
        (
            group("closing"),
            "can only submit PodGroup to queue with state `Open`, queue `closing` status is `Closing`.",
        ),
        (group(networkTopology=TIERS), BOTH),
        (
            group(
                networkTopology=TIERS,
                subGroupPolicy=[{"name": "a"}, {"name": "b", "networkTopology": TIERS}, {"networkTopology": TIERS}],
            ),
            f"{BOTH} in subGroupPolicy 'b': {BOTH}",
        ),
        (
            group("ghost", networkTopology=TIERS),
            f'unable to find queue: queue.scheduling.volcano.sh "ghost" not found; {BOTH}',
        ),
    ],
)
def test_groups_that_are_refused_and_why(obj: Data, message: str) -> None:
    view = view_of(queue("new", state=""), queue("shut", state="Closed"), queue("closing", state="Closing"))
    assert denial(podgroups.validate, review_of(obj, resource=POD_GROUPS), view) == message


def test_the_group_of_a_job_that_was_let_in_before_is_let_into_a_queue_that_closes() -> None:
    view = view_of(queue("closing", state="Closing"))
    owner = {"apiVersion": VC_JOBS.api_version, "kind": "Job", "name": "m", "uid": "u"}
    obj = group("closing")
    obj["metadata"]["ownerReferences"] = [owner]
    assert denial(podgroups.validate, review_of(obj, resource=POD_GROUPS), view) != ""
    with_object(view, VC_JOBS, {"metadata": {"name": "m", "namespace": "ns"}})
    assert denial(podgroups.validate, review_of(obj, resource=POD_GROUPS), view) == ""


def hyper_node(*patterns: str) -> Data:
    """A hyper node whose members are found by patterns."""
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}} for pattern in patterns]
    return {"metadata": {"name": "h"}, "spec": {"tier": 1, "members": members}}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("node[", "error parsing regexp: missing closing ]: `[`"),
        ("a(b", "error parsing regexp: missing closing ): `a(b`"),
        ("a)b", "error parsing regexp: unexpected ): `a)b`"),
        ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
        ("a\\", "error parsing regexp: trailing backslash at end of expression: ``"),
        ("[z-a]", "error parsing regexp: invalid character class range: `z-a`"),
        ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_patterns_that_cannot_be_read(pattern: str, why: str) -> None:
    words = denial(hypernodes.validate, review_of(hyper_node("node-.*", pattern), resource=HYPER_NODES))
    form = '[].spec.members.selector.regexMatch.pattern: Invalid value: "{}": member regexMatch pattern is invalid: {}'
    assert words == form.format(pattern.replace("\\", "\\\\"), why)


def test_a_hyper_node_has_members() -> None:
    assert "member must have at least one member" in denial(
        hypernodes.validate, review_of(hyper_node(), resource=HYPER_NODES)
    )
    assert denial(hypernodes.validate, review_of(hyper_node("node-[0-9]+"), resource=HYPER_NODES)) == ""
    exact = hyper_node("x")
    exact["spec"]["members"] = [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]
    assert denial(hypernodes.validate, review_of(exact, resource=HYPER_NODES)) == ""
