"""What the feed makes of events: whatever came before, the state is that of the objects as they are now."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.api.core import Pod
from kilauea.api.ports import LARGEST_DECODED, Seen
from kilauea.engine.model import status
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.reading import decoded, kept, reduced
from kilauea.runtime.scheduler import kept_groups
from kilauea.runtime.scheduler.assumed import Assumed, Placed
from kilauea.runtime.scheduler.feed import Feed
from support.probes import fingerprint

KEY = "ns/p"
OFFER = {"cpu": "8", "memory": "8Gi", "pods": "10"}
NODES = [
    json.dumps({"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": OFFER}}).encode()
    for name in ("n1", "n2")
]
GROUPS = [
    json.dumps({"kind": "PodGroup", "metadata": {"name": name, "namespace": "ns"}, "spec": spec}).encode()
    for name, spec in (("g", {"minMember": 1, "minTaskMember": {"a": 1}}), ("h", {"minMember": 2}))
]
RUNNING = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def form(**fields: Any) -> dict[str, Any]:
    """A pod by what differs from another."""
    said: dict[str, Any] = {
        "uid": "one",
        "group": "g",
        "role": "",
        "cpu": "1",
        "node": "",
        "phase": "Pending",
        "nominated": "",
    }
    said |= {"deleting": False, "gated": False, "cooldown": "", "scheduler": "volcano", "label": "", **fields}
    return said


def pod(said: dict[str, Any], version: int) -> bytes:
    annotations = {"scheduling.k8s.io/group-name": said["group"], "volcano.sh/task-spec": said["role"]}
    labels = {"team": said["label"], "volcano.sh/preempt-stable-time": said["cooldown"]}
    metadata: dict[str, Any] = {"name": "p", "namespace": "ns", "uid": said["uid"], "resourceVersion": str(version)}
    metadata |= {"annotations": {name: text for name, text in annotations.items() if text}}
    metadata |= {"labels": {name: text for name, text in labels.items() if text}}
    if said["deleting"]:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {"name": "c", "resources": {"requests": {"cpu": said["cpu"]}}}
    spec: dict[str, Any] = {"schedulerName": said["scheduler"], "nodeName": said["node"], "containers": [container]}
    if said["gated"]:
        spec["schedulingGates"] = [{"name": "wait"}]
    conditions = [RUNNING] if said["phase"] == "Running" else []
    state = {"phase": said["phase"], "nominatedNodeName": said["nominated"], "conditions": conditions}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": state}).encode()


@dataclass(frozen=True)
class Held:
    """Stands for the store of a server that keeps an object."""

    value: bytes
    decoded: dict[str, Any] | None = None

    @property
    def length(self) -> int:
        """Bytes of the value."""
        return len(self.value)


def feed_of(assumed: Assumed, pods: list[bytes]) -> Feed:
    """A feed that has just read everything."""
    feed = Feed(ClusterState(scheduler_names=("volcano", "default-scheduler")), assumed)
    feed.relisted("Node", NODES)
    feed.relisted("PodGroup", GROUPS)
    feed.relisted("Pod", pods)
    feed.state.settle()
    return feed


def as_read_again(feed: Feed) -> bool:
    """Whether a feed that reads everything now knows the same."""
    texts = [each if isinstance(each, bytes) else each.value for each in feed.pods.values()]
    other = feed_of(copy.deepcopy(feed.assumed), texts)
    same_faults = {place: fault.message for place, fault in feed.faults.items() if place[0] == "Pod"} == {}
    return fingerprint(feed.state) == fingerprint(other.state) and same_faults


STEPS = st.one_of(
    st.fixed_dictionaries({}, optional={"phase": st.sampled_from(["Pending", "Running", "Succeeded", "Unknown"])}),
    st.fixed_dictionaries({"node": st.sampled_from(["", "n1", "n2", "unknown"])}),
    st.fixed_dictionaries({"group": st.sampled_from(["g", "h", ""]), "role": st.sampled_from(["", "a"])}),
    st.fixed_dictionaries({"deleting": st.booleans()}),
    st.fixed_dictionaries({"gated": st.booleans(), "nominated": st.sampled_from(["", "n2"])}),
    st.fixed_dictionaries({"cpu": st.sampled_from(["1", "2", "0"]), "label": st.sampled_from(["", "red"])}),
    st.fixed_dictionaries({"uid": st.sampled_from(["one", "two"]), "cooldown": st.sampled_from(["", "10m"])}),
    st.fixed_dictionaries({"scheduler": st.sampled_from(["volcano", "default-scheduler", "other"])}),
)
DECISIONS = st.sampled_from(["bind", "evict", "hold", "let go"])


def assume(feed: Feed, decision: str, uid: str) -> None:
    """Apply a decision to a feed."""
    task, assumed = feed.state.tasks.get(KEY), feed.assumed
    if task is None:
        return
    if decision == "bind" and task.status == status.PENDING and not task.gated:
        feed.bind(KEY, Placed(uid, "n2"))
    elif decision == "evict" and task.node:
        assumed.evictions[KEY] = uid
        feed.reconsider(KEY)
    elif decision == "hold":
        assumed.binds.pop(KEY, None)
        assumed.evictions.pop(KEY, None)
        assumed.held[KEY] = uid
        feed.reconsider(KEY)
    elif decision == "let go" and KEY in assumed.held:
        del assumed.held[KEY]
        feed.reconsider(KEY)


@pytest.mark.slow
@given(steps=st.lists(st.one_of(STEPS, DECISIONS), max_size=8), held=st.booleans())
@settings(deadline=None, max_examples=200)
def test_whatever_a_pod_was_the_state_is_as_if_it_were_read_again(steps: list[Any], held: bool) -> None:
    said = form()
    feed = feed_of(Assumed(), [pod(said, 1)])
    for version, step in enumerate(steps, 2):
        if isinstance(step, str):
            assume(feed, step, said["uid"])
        else:
            said = {**said, **step}
            text = pod(said, version)
            feed.seen("Pod", [Seen("MODIFIED", text, str(version), Held(text) if held else None)])
        assert as_read_again(feed)


@pytest.mark.parametrize(
    "change", [{"label": "red"}, {"cpu": "2"}, {"gated": True}, {"group": "h"}, {"role": "a"}, {"uid": "two"}]
)
def test_a_pod_that_advances_and_is_otherwise_another_is_read_again(change: dict[str, Any]) -> None:
    feed = feed_of(Assumed(), [pod(form(), 1)])
    feed.put("Pod", pod(form(node="n1", phase="Running"), 2))
    feed.put("Pod", pod(form(node="n1", phase="Succeeded", **change), 3))
    assert as_read_again(feed)


def test_a_pod_of_another_scheduler_that_loses_its_node_takes_no_room() -> None:
    feed = feed_of(Assumed(), [pod(form(scheduler="other", node="n2"), 1)])
    feed.put("Pod", pod(form(scheduler="other"), 2))
    assert feed.state.tasks == {}


def test_a_pod_that_advances_and_cannot_be_used_any_more_is_left_out() -> None:
    feed = feed_of(Assumed(), [pod(form(), 1)])
    feed.put("Pod", pod(form(node="n1", cpu="-1"), 2))
    assert (KEY in feed.state.tasks, [fault.key for fault in feed.faults.values()]) == (False, [KEY])
    feed.put("Pod", pod(form(node="n1"), 3))
    assert as_read_again(feed)


def test_an_earlier_form_of_a_pod_that_comes_late_changes_nothing() -> None:
    feed = feed_of(Assumed(), [pod(form(), 1)])
    feed.put("Pod", pod(form(label="red"), 3))
    feed.put("Pod", pod(form(), 2))
    feed.put("Pod", pod(form(phase="Running", node="n1"), 4))
    assert feed.state.classes.get(feed.state.tasks[KEY].label_class).labels == {}


# --- lists


def test_a_list_of_pods_replaces_those_that_were_known() -> None:
    feed = feed_of(Assumed(), [pod(form(), 5)])
    left_out = pod({**form(), "cpu": "-1"}, 1).replace(b'"p"', b'"odd"')
    other = pod(form(node="n1", phase="Running"), 2).replace(b'"p"', b'"other"')
    feed.relisted("Pod", [other, left_out])
    assert list(feed.state.tasks) == ["ns/other"]
    assert list(feed.pods) == ["ns/other"]
    assert [fault.key for fault in feed.faults.values()] == ["ns/odd"]
    assert feed.state.tasks["ns/other"].node == "n1"


def test_a_list_is_taken_though_it_has_an_earlier_version_of_a_pod() -> None:
    feed = feed_of(Assumed(), [pod(form(), 5)])
    feed.relisted("Pod", [pod(form(node="n1", phase="Running"), 3)])
    assert feed.state.tasks[KEY].node == "n1"


def test_garbage_is_collected_again_after_a_list() -> None:
    feed_of(Assumed(), [pod(form(), 5)])
    assert gc.isenabled()


# --- what is kept of a pod


def test_a_pod_is_kept_without_the_fields_that_scheduling_does_not_read() -> None:
    said = json.loads(pod(form(node="n1", phase="Running", cooldown="10m"), 1))
    said["metadata"]["managedFields"] = [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
    said["status"]["conditions"].append({"type": "Ready", "status": "True"})
    said["status"]["containerStatuses"] = [{"name": "main", "ready": True}]
    feed = feed_of(Assumed(), [json.dumps(said).encode()])
    held = json.loads(text_of(feed))
    assert "managedFields" not in held["metadata"]
    assert held["status"] == {"phase": "Running", "nominatedNodeName": "", "conditions": [RUNNING]}
    assert as_read_again(feed)


def test_what_a_server_keeps_in_the_same_process_is_not_kept_twice() -> None:
    text = pod(form(node="n1", phase="Running"), 2)
    holder = Held(text)
    feed = feed_of(Assumed(), [pod(form(), 1)])
    feed.seen("Pod", [Seen("MODIFIED", text, "2", holder)])
    assert feed.pods[KEY] is holder
    feed.reconsider(KEY)
    assert feed.pods[KEY] is holder
    assert as_read_again(feed)


def text_of(feed: Feed) -> bytes:
    """The text that a feed keeps of the pod."""
    found = feed.pods[KEY]
    assert isinstance(found, bytes)
    return found


def test_the_conditions_of_a_pod_that_waits_are_kept() -> None:
    said = json.loads(pod(form(), 1))
    said["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}, {"type": "Ready", "status": "False"}]
    feed = feed_of(Assumed(), [json.dumps(said).encode()])
    assert json.loads(text_of(feed))["status"]["conditions"] == said["status"]["conditions"]


@pytest.mark.parametrize("amount", [1, 1.5, 10**30, "1e3", "7Ei"])
def test_requests_of_a_kept_pod_are_as_they_were_written(amount: object) -> None:
    said = json.loads(pod(form(), 1))
    said["spec"]["containers"][0]["resources"]["requests"]["memory"] = amount
    kept_pod = kept(decoded_pod(json.dumps(said).encode()))
    assert decoded_pod(kept_pod) == decoded_pod(json.dumps(said).encode())


def test_a_pod_of_a_list_that_was_reduced_is_kept_in_one_copy() -> None:
    said = json.loads(pod(form(node="n1", phase="Running"), 1))
    said["metadata"]["managedFields"] = [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
    data = json.dumps(said).encode()
    small = reduced(data)
    feed = feed_of(Assumed(), [small])
    assert feed.pods[KEY] is small
    assert fingerprint(feed.state) == fingerprint(feed_of(Assumed(), [data]).state)


@pytest.mark.parametrize("change", [{"cpu": "-1"}, {"cpu": []}, {"phase": None}, {"group": 3}, {"node": None}])
def test_a_pod_that_is_reduced_has_the_faults_that_it_had(change: dict[str, Any]) -> None:
    data = pod(form(**change), 1)
    whole, small = feed_of(Assumed(), [data]), feed_of(Assumed(), [reduced(data)])
    assert small.faults == whole.faults
    assert fingerprint(small.state) == fingerprint(whole.state)


def decoded_pod(data: bytes) -> Pod:
    """A pod from its JSON."""
    obj = decoded("Pod", data)
    assert isinstance(obj, Pod)
    return obj


# --- a frozen feed


def test_events_wait_while_the_feed_is_frozen_and_are_applied_in_order_at_the_end() -> None:
    async def main() -> None:
        feed = feed_of(Assumed(), [pod(form(), 1)])
        async with feed.frozen():
            before = feed.changes
            feed.seen("Pod", [Seen("MODIFIED", pod(form(node="n1", phase="Running"), 2), "2")])
            feed.gone("Pod", KEY)
            feed.put("Pod", pod(form(uid="two", node="n2"), 3))
            assert (feed.changes, feed.state.tasks[KEY].uid) == (before, "one")
        assert (feed.state.tasks[KEY].uid, feed.state.tasks[KEY].node) == ("two", "n2")

    asyncio.run(main())


def test_others_have_their_turn_between_the_events_of_a_long_cycle() -> None:
    async def main() -> None:
        feed = feed_of(Assumed(), [pod(form(), 1)])
        seen: list[str] = []

        async def other() -> None:
            """Look at the pod in each turn, and tell of one more change in the second."""
            for turn in range(5):
                seen.append(feed.state.tasks[KEY].node)
                if turn == 1:
                    feed.put("Pod", pod(form(node="n4"), 5))
                await asyncio.sleep(0)

        async with feed.frozen():
            for number in (1, 2, 3):
                feed.put("Pod", pod(form(node=f"n{number}"), number + 1))
            others = asyncio.ensure_future(other())
        assert seen == ["n1", "n2", "n3"]
        assert feed.state.tasks[KEY].node == "n4"
        await others

    asyncio.run(main())


def test_a_feed_that_is_cancelled_while_it_thaws_applies_all_events() -> None:
    async def main() -> None:
        feed = feed_of(Assumed(), [pod(form(), 1)])

        async def cycle() -> None:
            async with feed.frozen():
                for number in (1, 2, 3):
                    feed.put("Pod", pod(form(node=f"n{number}"), number + 1))

        running = asyncio.ensure_future(cycle())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.wait_for(feed.thawed(), 1)
        assert feed.state.tasks[KEY].node == "n3"

    asyncio.run(main())


def test_a_feed_thaws_after_a_cycle_that_fails() -> None:
    async def main() -> None:
        feed = feed_of(Assumed(), [pod(form(), 1)])
        cycle = feed.frozen()
        await cycle.__aenter__()
        feed.gone("Pod", KEY)
        failure = ZeroDivisionError()
        assert not await cycle.__aexit__(ZeroDivisionError, failure, None)
        await asyncio.wait_for(feed.thawed(), 1)
        assert KEY not in feed.state.tasks

    asyncio.run(main())


def test_an_answer_waits_until_the_feed_thaws_and_loses_against_a_newer_event() -> None:
    async def main() -> None:
        feed = feed_of(Assumed(), [pod(form(), 1)])
        async with feed.frozen():
            answer = asyncio.ensure_future(feed.answered("Pod", pod(form(nominated="n2"), 2)))
            await asyncio.sleep(0)
            feed.put("Pod", pod(form(node="n1"), 3))
            assert not answer.done()
        await answer
        assert (feed.state.tasks[KEY].node, feed.state.tasks[KEY].nominated) == ("n1", "")

    asyncio.run(main())


def answered_feed() -> Feed:
    """A feed that has read a pod, and has learned by an answer that it was bound in version 5."""
    assumed = Assumed()
    feed = feed_of(assumed, [pod(form(), 1)])
    feed.bind(KEY, Placed("one", "n1"))
    asyncio.run(feed.answered("Pod", pod(form(node="n1"), 5)))
    assert not assumed.binds
    return feed


def test_a_list_that_is_older_than_an_answer_takes_no_pod_off_its_node() -> None:
    feed = answered_feed()
    feed.relisted("Pod", [pod(form(), 1)], "3")
    assert feed.state.tasks[KEY].node == "n1"
    feed.seen("Pod", [Seen("MODIFIED", pod(form(node="n1"), 5), "5"), Seen("BOOKMARK", b"{}", "9")])
    assert feed.state.tasks[KEY].node == "n1"
    feed.relisted("Pod", [pod(form(uid="two"), 8)], "9")
    assert (feed.state.tasks[KEY].uid, feed.state.tasks[KEY].node) == ("two", "")


def test_a_write_that_the_server_has_lost_is_forgotten_once_the_watch_has_passed_it() -> None:
    feed = answered_feed()
    feed.relisted("Pod", [pod(form(), 1)], "3")
    feed.seen("Pod", [Seen("BOOKMARK", b"{}", "5")])
    assert feed.state.tasks[KEY].node == "n1"
    feed.seen("Pod", [Seen("BOOKMARK", b"{}", "6")])
    assert feed.state.tasks[KEY].node == ""


def test_a_list_that_is_newer_than_an_answer_replaces_it() -> None:
    feed = answered_feed()
    feed.relisted("Pod", [pod(form(), 1)], "7")
    assert feed.state.tasks[KEY].node == ""


def test_nodes_that_are_alike_share_their_status() -> None:
    feed = feed_of(Assumed(), [])
    (first, second) = (fields[-1] for fields in feed._nodes.values())
    assert first is second
    other = {"kind": "Node", "metadata": {"name": "n2"}, "status": {"allocatable": OFFER | {"cpu": "9"}}}
    feed.put("Node", json.dumps(other).encode())
    assert [fields[-1].allocatable["cpu"] for fields in feed._nodes.values()] == ["8", "9"]


def group(number: int, version: int, phase: str = "Pending") -> bytes:
    metadata = {"name": f"g{number}", "namespace": "ns", "uid": f"u{number}", "resourceVersion": str(version)}
    spec = {"minMember": 1, "minResources": {"cpu": "1"}}
    return json.dumps({"kind": "PodGroup", "metadata": metadata, "spec": spec, "status": {"phase": phase}}).encode()


def test_groups_are_the_same_whether_or_not_they_are_kept_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_groups, "DECODED", 3)
    feed = feed_of(Assumed(), [])
    texts = {number: group(number, number + 1) for number in range(10)}
    feed.seen("PodGroup", [Seen("ADDED", text, "1") for text in texts.values()])
    for number in (1, 7, 4):
        texts[number] = group(number, 20 + number, "Running")
        feed.seen("PodGroup", [Seen("MODIFIED", texts[number], "2", Held(texts[number]))])
    feed.seen("PodGroup", [Seen("DELETED", texts.pop(7), "3")])
    assert {key: feed.groups[key] for key in feed.groups if key not in ("ns/g", "ns/h")} == {
        f"ns/g{number}": decoded("PodGroup", text) for number, text in texts.items()
    }
    assert "ns/g7" not in feed.groups
    assert feed.groups.get("ns/g7") is None


def test_large_groups_and_pods_are_decoded_each_time() -> None:
    feed = feed_of(Assumed(), [])
    metadata = {"name": "large", "namespace": "ns", "uid": "u", "annotations": {"a": "x" * LARGEST_DECODED}}
    feed.put("PodGroup", json.dumps({"kind": "PodGroup", "metadata": metadata}).encode())
    assert feed.groups["ns/large"] == feed.groups["ns/large"]
    assert feed.groups["ns/large"] is not feed.groups["ns/large"]
    spec = {"containers": [{"name": "c", "image": "x" * LARGEST_DECODED}]}
    feed.put("Pod", json.dumps({"kind": "Pod", "metadata": metadata, "spec": spec}).encode())
    assert feed._pod("ns/large") == feed._pod("ns/large")
    assert feed._pod("ns/large") is not feed._pod("ns/large")


def test_a_group_is_kept_as_what_holds_it_in_the_process_unless_it_is_older() -> None:
    feed = feed_of(Assumed(), [])
    older, newer = group(1, 5), group(1, 6, "Running")
    feed.put("PodGroup", newer)  # as an answer has shown it, before the watch
    feed.seen("PodGroup", [Seen("MODIFIED", older, "5", Held(older))])
    assert feed.groups["ns/g1"] == decoded("PodGroup", newer)
    feed.seen("PodGroup", [Seen("MODIFIED", newer, "6", holder := Held(newer))])
    assert feed.groups.text("ns/g1") is holder
    assert feed.groups["ns/g1"] == decoded("PodGroup", newer)
