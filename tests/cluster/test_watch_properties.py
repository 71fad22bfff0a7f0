"""Watches over HTTPS, while several clients write: no gap, no event twice, none out of order.

The oracle is the answers that the writers got: each has the object and its revision. Only the revision of a deletion is
not in an answer; it is learned from the watch of everything, which must hold exactly one for each deletion.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cluster.api_process import Client, Server

Object = dict[str, Any]
Event = tuple[str, str, int]
"""Type, name and revision."""
NAMES = "abc"
END = "end"
APPS = ("web", "db", "api")
SELECTORS = (
    "",
    "labelSelector=app%3Dweb",
    "labelSelector=app%20in%20(web,api)",
    "labelSelector=app!%3Ddb",
    "labelSelector=!odd",
    "fieldSelector=status.phase!%3DRunning",
    "fieldSelector=metadata.name!%3Da,spec.nodeName!%3Dn2",
    "labelSelector=app&fieldSelector=status.phase%3DPending",
)
"""The last object, `end`, is chosen by each of them, so that a watch knows that it has seen all."""

WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""A watch that misses its end takes its whole time."""

_numbers = itertools.count(1)


def chosen(selector: str, obj: Object) -> bool:
    """Whether a selector of `SELECTORS` chooses a pod; told again here, as an oracle does."""
    labels, phase = obj["metadata"].get("labels", {}), obj["status"]["phase"]
    app = labels.get("app")
    return (
        True,
        app == "web",
        app in ("web", "api"),
        app != "db",
        "odd" not in labels,
        phase != "Running",
        obj["metadata"]["name"] != "a" and obj["spec"].get("nodeName") != "n2",
        app is not None and phase == "Pending",
    )[SELECTORS.index(selector)]


@dataclass(frozen=True)
class Write:
    """What a client did: the object after it, None for a deletion, and the revision, 0 while it is not known."""

    name: str
    uid: str
    after: Object | None
    revision: int


class Writer:
    """A client that does one thing after another to one object."""

    def __init__(self, client: Client, path: str, name: str) -> None:
        self.client, self.path, self.name = client, path, name
        self.writes: list[Write] = []
        self.now: Object | None = None

    def do(self, action: str, value: str) -> None:
        """Create if the object is not there; else label, report a phase, or delete it."""
        if self.now is None:
            self._wrote(self.client.send("POST", self.path, self._pod(value)).json())
        elif action == "delete":
            answer = self.client.send("DELETE", f"{self.path}/{self.name}", {"gracePeriodSeconds": 0})
            assert answer.code == 200, answer.content
            self.writes.append(Write(self.name, self.now["metadata"]["uid"], None, 0))
            self.now = None
        else:
            part: str = "/status"
            patch: Object = {"status": {"phase": value}}
            if action == "label":
                labels = {"app": value if value in APPS else None, "odd": None if value == "web" else "yes"}
                part, patch = "", {"metadata": {"labels": labels}}
            kind = "application/merge-patch+json"
            answer = self.client.send("PATCH", f"{self.path}/{self.name}{part}", patch, Content_Type=kind)
            self._wrote(answer.json())

    def _wrote(self, obj: Object) -> None:
        assert obj["kind"] == "Pod", obj
        metadata = obj["metadata"]
        if self.now is None or metadata["resourceVersion"] != self.now["metadata"]["resourceVersion"]:
            self.writes.append(Write(self.name, metadata["uid"], obj, int(metadata["resourceVersion"])))
        self.now = obj

    def _pod(self, value: str) -> Object:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n2" if value == "db" else "n1"}
        return {"metadata": {"name": self.name, "labels": {"app": value}}, "spec": spec}


def events_until_end(client: Client, path: str) -> list[Object]:
    """The events of a watch up to that of the last object."""
    events = []
    for event in client.watch(path):
        events.append(event)
        if event["type"] == "ERROR" or (event["type"] != "BOOKMARK" and event["object"]["metadata"]["name"] == END):
            break
    return events


def plain(events: Iterable[Object]) -> list[Event]:
    """Events without what is in their objects, and without bookmarks, which must fit between them."""
    found: list[Event] = []
    last = 0
    for event in events:
        metadata = event["object"]["metadata"]
        revision = int(metadata["resourceVersion"])
        if event["type"] == "BOOKMARK":
            assert revision >= last
        else:
            assert revision > last, f"revision {revision} after {last}"
            found.append((event["type"], metadata["name"], revision))
        last = revision
    return found


def with_deletions(writes: list[Write], everything: list[Object]) -> list[Write]:
    """All writes in the order of their revisions; those of deletions are in the watch of everything."""
    deleted = {
        each["object"]["metadata"]["uid"]: int(each["object"]["metadata"]["resourceVersion"])
        for each in everything
        if each["type"] == "DELETED"
    }
    assert len(deleted) == sum(write.after is None for write in writes)
    known = [write if write.after else Write(write.name, write.uid, None, deleted[write.uid]) for write in writes]
    return sorted(known, key=lambda write: write.revision)


def expected(writes: list[Write], selector: str, after: int) -> Iterator[tuple[Event, Object]]:
    """The events that a watch from a revision on must give, each with its object."""
    before: dict[str, Object] = {}
    for write in writes:
        was = before.get(write.name)
        was_in = was is not None and chosen(selector, was)
        is_in = write.after is not None and chosen(selector, write.after)
        obj = write.after if is_in else was
        if obj is not None and (was_in or is_in) and write.revision > after:
            kind = "DELETED" if not is_in else "MODIFIED" if was_in else "ADDED"
            yield (kind, write.name, write.revision), obj
        if write.after is None:
            before.pop(write.name)
        else:
            before[write.name] = write.after


def compare(events: list[Object], writes: list[Write], selector: str, after: int) -> None:
    """The events are those that must come, and so are the objects in them but for the revision of what has gone."""
    wanted = list(expected(writes, selector, after))
    assert plain(events) == [event for event, _ in wanted]
    objects = [each["object"] for each in events if each["type"] != "BOOKMARK"]
    for (event, obj), got in zip(wanted, objects, strict=True):
        obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(event[2])}}
        assert without_managed(got) == without_managed(obj)


def without_managed(obj: Object) -> Object:
    """An object without what a deletion adds to it and without field ownership."""
    left_out = ("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key not in left_out}}


ACTIONS = st.tuples(
    st.sampled_from(("label", "label", "phase", "delete")),
    st.sampled_from(("web", "db", "api", "none")),
    st.sampled_from(("Pending", "Running")),
)
SCRIPTS = st.tuples(*(st.lists(ACTIONS, min_size=1, max_size=12) for _ in NAMES))


def write_all(writer: Writer, script: list[tuple[str, str, str]]) -> None:
    """Do what a script says."""
    for action, label, phase in script:
        writer.do(action, phase if action == "phase" else label)


@settings(max_examples=settings().max_examples // 2, phases=WITHOUT_SHRINKING)
@given(scripts=SCRIPTS, places=st.lists(st.floats(0, 1), min_size=2, max_size=2), data=st.data())
def test_every_watch_is_the_history_of_its_selection(
    server: Server, client: Client, scripts: tuple[Any, ...], places: list[float], data: st.DataObject
) -> None:
    """Watches that run meanwhile or resume at any revision, and streamed lists, against what the writers were told."""
    namespace = f"watch-{next(_numbers)}"
    assert client.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
    client.send("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    path = f"/api/v1/namespaces/{namespace}/pods"
    start = int(client.get(path)["metadata"]["resourceVersion"])
    live = f"{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds=20&resourceVersion={start}&"
    with ThreadPoolExecutor(len(SELECTORS) + len(NAMES)) as pool:
        watches: list[Future[list[Object]]] = [
            pool.submit(events_until_end, server.client(), live + selector) for selector in SELECTORS
        ]
        writers = [Writer(server.client(), path, name) for name in NAMES]
        for done in [pool.submit(write_all, *each) for each in zip(writers, scripts, strict=True)]:
            done.result()
        writers.append(Writer(client, path, END))
        writers[-1].do("label", "web")
        found = [watch.result() for watch in watches]
    writes = with_deletions([write for writer in writers for write in writer.writes], found[0])
    for selector, events in zip(SELECTORS, found, strict=True):
        compare(events, writes, selector, start)
    selector = data.draw(st.sampled_from(SELECTORS))
    for place in places:
        after = writes[int(place * (len(writes) - 1))].revision - 1
        resumed = f"{path}?watch=true&timeoutSeconds=20&resourceVersion={after}&{selector}"
        compare(events_until_end(client, resumed), writes, selector, after)
    check_streamed_list(client, path, selector, writers)


def check_streamed_list(client: Client, path: str, selector: str, writers: list[Writer]) -> None:
    """A watch that begins with all that is there says where the beginning ends; it is what a list gives."""
    there = [writer.now for writer in writers if writer.now and chosen(selector, writer.now)]
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    seen = []
    for event in client.watch(f"{path}?{query}&timeoutSeconds=20&{selector}"):
        if event["type"] == "BOOKMARK":
            assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            break
        assert event["type"] == "ADDED"
        seen.append(event["object"])
    key = {json.dumps(obj["metadata"]["name"]): obj["metadata"]["resourceVersion"] for obj in seen}
    assert key == {json.dumps(obj["metadata"]["name"]): obj["metadata"]["resourceVersion"] for obj in there}
    listed = client.get(f"{path}?{selector}")["items"]
    assert [obj["metadata"]["uid"] for obj in listed] == [obj["metadata"]["uid"] for obj in seen]
