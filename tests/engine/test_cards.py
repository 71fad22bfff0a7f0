"""Accelerator cards: which a node has, what a task asks in them, and whether a queue has room for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kilauea.api.cards import MOST_CARDS, parse_card_counts
from kilauea.engine.model.cards import card_names, cards_of_node
from kilauea.engine.plugins.capacity_card.book import CardBook, CardFault
from kilauea.engine.plugins.capacity_card.check import number, refusal, shortage
from kilauea.engine.session import Session
from support.builders import GI, GPU, Data, group, node, pod
from support.card_objects import A, B, C, card_node, card_pod, labelled, milli
from support.probes import inside

MPS, MIG = f"{A}/mps-80g*1/8", f"{C}/mig-1g.18gb-mixed"
SHARED, SLICE = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb"
EITHER = f"{A}|{B}"


# --- annotations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("{}", {}),
        ('{"NVIDIA-H200": 8}', {"NVIDIA-H200": 8}),
        ('{"NVIDIA-GeForce-RTX-4090":8,"NVIDIA-H200/mig-1g.18gb-mixed":14}', {"NVIDIA-GeForce-RTX-4090": 8, MIG: 14}),
        ('{"A|B": 0}', {"A|B": 0}),
    ],
)
def test_a_card_annotation_is_an_object_of_integers(text: str, expected: dict[str, int]) -> None:
    assert parse_card_counts(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("H200: 8", id="no JSON"),
        pytest.param('["H200"]', id="a list"),
        pytest.param("null", id="nothing"),
        pytest.param('{"H200": 2.0}', id="a fraction, though a whole one"),
        pytest.param('{"H200": "2"}', id="text"),
        pytest.param('{"H200": true}', id="a boolean"),
        pytest.param('{"H200": -1}', id="less than none"),
        pytest.param('{"A": 1, "H200": {}}', id="one that is wrong spoils all"),
        pytest.param(f'{{"H200": {MOST_CARDS + 1}}}', id="more than there can be"),
        pytest.param("[" * 100_000, id="too deep"),
    ],
)
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_card_counts(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ()),
        (" ", ()),
        ("A", ("A",)),
        ("A|B|C", ("A", "B", "C")),
        (" A | B ", ("A", "B")),
        ("|A||B|", ("A", "B")),
        ("A|B|A", ("A", "B")),
    ],
)
def test_names_of_cards(text: str | None, expected: tuple[str, ...]) -> None:
    assert card_names(text) == expected


# --- cards of nodes


@pytest.mark.parametrize(
    ("labels", "offers", "expected"),
    [
        pytest.param(labelled(C), {GPU: 8000}, {C: 8000}, id="whole cards by the product label"),
        pytest.param(
            labelled(C),
            {GPU: 7000, "nvidia.com/mig-3g.71gb": 1000, SLICE: 3000},
            {C: 7000, f"{C}/mig-3g.71gb-mixed": 1000, MIG: 3000},
            id="slices count by their profile, beside whole cards",
        ),
        pytest.param(
            labelled(A) | {"nvidia.com/gpu.replicas": "8"}, {SHARED: 64000}, {MPS: 64000}, id="shares of 80 GiB cards"
        ),
        pytest.param(
            labelled("Tesla-V100", 32768) | {"nvidia.com/gpu.replicas": "4"},
            {GPU: 2000, SHARED: 8000},
            {"Tesla-V100": 2000, "Tesla-V100/mps-32g*1/4": 8000},
            id="shares beside whole cards",
        ),
        pytest.param(
            labelled("X", 97871) | {"nvidia.com/gpu.replicas": "2"},
            {SHARED: 2000},
            {"X/mps-96g*1/2": 2000},
            id="memory is rounded to GiB: 95.58 is 96",
        ),
        pytest.param(
            labelled("X", 1536) | {"nvidia.com/gpu.replicas": "2"},
            {SHARED: 2000},
            {"X/mps-2g*1/2": 2000},
            id="a half is rounded up",
        ),
        pytest.param(labelled(C, count="a"), {GPU: 8000}, {C: 8000}, id="the number of cards need not be one"),
        pytest.param(labelled(C, memory="a"), {GPU: 8000}, {C: 8000}, id="nor the memory"),
        pytest.param(
            labelled(C) | {"nvidia.com/gpu.replicas": "a"}, {GPU: 2000, SHARED: 8000}, {C: 2000}, id="but the replicas"
        ),
        pytest.param(labelled(C, count=""), {GPU: 8000}, {}, id="without a number of cards there are none"),
        pytest.param(labelled(C, memory=""), {GPU: 8000}, {}, id="nor without their memory"),
        pytest.param(labelled(""), {GPU: 8000}, {}, id="nor without a name"),
        pytest.param({}, {GPU: 8000, SLICE: 1000, SHARED: 1000}, {}, id="nor without labels, of whatever kind"),
        pytest.param(labelled(C, kind="nvidia-invalid.com/gpu"), {GPU: 8000}, {}, id="the prefix has to be the same"),
        pytest.param(labelled(C, kind="nvidia.co/gpu"), {GPU: 8000}, {}, id="the whole of it"),
        pytest.param(labelled(C), {GPU: 0}, {}, id="none are on offer"),
        pytest.param(
            labelled("Ascend910", kind="huawei.com/npu"),
            {"huawei.com/ascend-910": 8000},
            {"Ascend910": 8000},
            id="other vendors: any resource with the prefix",
        ),
        pytest.param(
            labelled("X", kind="v.com/npu"),
            {"v.com/npu": 4000, "v.com/memory": 9000},
            {"X": 4000},
            id="best the same",
        ),
        pytest.param(
            labelled("X", kind="v.com/npu"),
            {"v.com/b": 4000, "v.com/a": 9000},
            {"X": 9000},
            id="else the first",
        ),
        pytest.param(
            labelled("X", kind="nvidia.com/mig-1g.5gb"), {SLICE: 1000}, {}, id="labels of slices are not looked at"
        ),
        pytest.param(labelled(C) | labelled("X", kind="v.com/npu"), {GPU: 1000}, {C: 1000}, id="of two the first"),
    ],
)
def test_cards_of_a_node(labels: Mapping[str, str], offers: Mapping[str, int], expected: Mapping[str, int]) -> None:
    assert cards_of_node("n", labels, offers).amounts == expected


@pytest.mark.parametrize(
    ("labels", "offers", "note"),
    [
        (labelled(C), {}, f"Node <n> has card <{C}> but no card resource found."),
        (
            labelled(C) | labelled("X", kind="v.com/npu"),
            {GPU: 1},
            "Node <n> has several card labels: nvidia.com/gpu.product is used, not v.com/npu.product.",
        ),
        (
            labelled("X", kind="v.com/npu"),
            {"v.com/a": 1, "v.com/b": 1},
            "Node <n> has several resources for card <X>: v.com/a is used.",
        ),
        (
            labelled(C),
            {GPU: 1, SHARED: 1},
            "Node <n> shares cards, but its label nvidia.com/gpu.replicas is not a number above 0.",
        ),
    ],
)
def test_odd_labels_are_named(labels: Mapping[str, str], offers: Mapping[str, int], note: str) -> None:
    assert cards_of_node("n", labels, offers).notes == (note,)


# --- what a task asks


def ask(task: str, session: Session, *, on: str | None = None, unlimited: bool = False, named: bool = False) -> Any:
    """What a task asks, or is charged on a node; or why it cannot be told."""
    book = CardBook(session.nodes, unlimited=unlimited, named=named)
    found = session.state.tasks[f"ns/{task}"]
    try:
        if on is None:
            return dict(book.asked(found.spec))
        return dict(book.charged(found, session.nodes.row_of.get(on, -1)))
    except CardFault as fault:
        return str(fault)


ROOM = {"cpu": 1000, "memory": GI}
FLEET = (
    card_node("a", A),
    card_node("b", B),
    node("slices", labels=labelled(C), resources={SLICE: 7, GPU: 4}),
    node("plain"),
    node("down", labels=labelled(A)),
)


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(card_pod("p", gpu=0), ROOM, id="no card: cpu and memory"),
        pytest.param(card_pod("p", gpu=2), ROOM, id="cards without a name are not counted"),
        pytest.param(card_pod("p", card="", gpu=2), ROOM, id="nor with an empty one"),
        pytest.param(card_pod("p", card=A, gpu=2), ROOM | {A: 2000}, id="one name"),
        pytest.param(card_pod("p", card=MIG, gpu=3, resource=SLICE), ROOM | {MIG: 3000}, id="a slice"),
        pytest.param(card_pod("p", card=A, limits={GPU: 4}), ROOM | {A: 4000}, id="limits count before requests"),
        pytest.param(card_pod("p", card=A, limits={"cpu": 9}), ROOM | {A: 1000}, id="else requests"),
        pytest.param(card_pod("p", card=A, gpu="1500m"), ROOM | {A: 2000}, id="parts of cards are rounded up"),
        pytest.param(card_pod("p", card=EITHER, gpu=2), ROOM | {EITHER: 2000}, id="several names, together"),
        pytest.param(card_pod("p", card=f" {A} ||{B}", gpu=2), ROOM | {EITHER: 2000}, id="blanks do not matter"),
        pytest.param(card_pod("p", card=f"X|{A}", gpu=2), ROOM | {f"X|{A}": 2000}, id="the first may not be known"),
        pytest.param(card_pod("p", card=f"{A}|{MIG}"), ROOM | {A: 1000}, id="other resources cannot be meant"),
        pytest.param(card_pod("p", card=f"{A}|{MIG}|{B}"), ROOM | {EITHER: 1000}, id="wherever they stand"),
        pytest.param(card_pod("p", card="X"), "no resource name found for card <X>", id="a card that no node has"),
        pytest.param(card_pod("p", card="X|Y"), "no resource name found for card <X>", id="several that no node has"),
        pytest.param(
            card_pod("p", card=A, gpu=0),
            f"no resource <{GPU}> defined in requests/limits for card <{A}>",
            id="a card that is not asked for",
        ),
    ],
)
def test_what_a_task_asks(asking: Any, expected: Any) -> None:
    assert inside(FLEET, group(), asking, do=lambda s: ask("p", s)) == expected


@pytest.mark.parametrize(
    ("card", "on", "expected"),
    [
        pytest.param(EITHER, "a", ROOM | {A: 2000}, id="the model of the node"),
        pytest.param(EITHER, "b", ROOM | {B: 2000}, id="the other one"),
        pytest.param(EITHER, "down", ROOM | {A: 2000}, id="also if it has none to offer for a while"),
        pytest.param(A, "b", ROOM | {A: 2000}, id="one name, whatever the node has"),
        pytest.param(
            EITHER,
            "plain",
            f"no valid card found on node <plain> for task <ns/p> with multi-card name <{EITHER}>",
            id="none of them",
        ),
        pytest.param(EITHER, "gone", "failed to get node <gone> for task <ns/p>: it does not exist", id="no such node"),
    ],
)
def test_what_a_task_is_charged_on_a_node(card: str, on: str, expected: Any) -> None:
    asking = card_pod("p", card=card, gpu=2, node=on)
    assert inside(FLEET, group(), asking, do=lambda s: ask("p", s, on=on)) == expected


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(card_pod("p", gpu=0), ROOM, id="work without cards is"),
        pytest.param(card_pod("p", card=A, gpu=4), {A: 4000}, id="work with cards is not"),
        pytest.param(card_pod("p", gpu=4), {}, id="nor if it does not name them"),
        pytest.param(pod("p", requests={"cpu": 1, "example.com/other": 4}), {"cpu": 1000}, id="if they are cards"),
    ],
)
def test_whether_cpu_and_memory_count_if_work_with_cards_is_not_held_to_them(asking: Any, expected: Data) -> None:
    assert inside(FLEET, group(), asking, do=lambda s: ask("p", s, unlimited=True)) == expected


def test_a_card_name_may_be_required() -> None:
    asked = inside(FLEET, group(), card_pod("p", gpu=1), do=lambda s: ask("p", s, named=True))
    assert asked == f"no card name set for resource <{GPU}>"


# --- the check


@pytest.mark.parametrize(
    ("card", "asked", "held", "quota", "expected"),
    [
        pytest.param("4090|H200", 2, {"4090": 3, "H200": 5}, {"4090": 10, "H200": 8}, None, id="room for the first"),
        pytest.param("4090|H200", 2, {"4090": 9, "H200": 3}, {"4090": 10, "H200": 8}, None, id="room for the second"),
        pytest.param("4090|H200", 2, {"4090": 9, "H200": 7}, {"4090": 10, "H200": 8}, (2, 9, 8), id="for none"),
        pytest.param("A", 1, {"A": 4}, {"A": 5}, None, id="just enough"),
        pytest.param("A", 0.001, {"A": 5}, {"A": 5}, (0.001, 5.001, 5), id="just too much"),
        pytest.param("A", 0, {"A": 9}, {"A": 5}, None, id="nothing is asked"),
        pytest.param("A", 1, {"A": 2}, {}, (1, 3, 0), id="a card without a quota"),
        pytest.param("A|B", 1, {"A|B": 50}, {"B": 1}, None, id="what waits is not counted against one task"),
    ],
)
def test_one_task(card: str, asked: float, held: Data, quota: Data, expected: tuple[float, ...] | None) -> None:
    totals = {card: asked}
    for name, amount in held.items():
        totals[name] = totals.get(name, 0) + amount
    found = shortage(*(milli(amounts) for amounts in ({card: asked}, totals, quota)), of_job=False)
    assert (found and found[1:]) == (expected and tuple(round(n * 1000) for n in expected))
    assert found is None or found.resource == card


@pytest.mark.parametrize(
    ("card", "asked", "held", "quota", "expected"),
    [
        pytest.param("A|B", 4, {"A": 2, "B": 1}, {"A": 5, "B": 3}, None, id="seven of eight"),
        pytest.param("A|B", 2, {"A": 4, "B": 3}, {"A": 5, "B": 4}, None, id="nine of nine"),
        pytest.param("A|B", 3, {"A": 4, "B": 3}, {"A": 5, "B": 4}, (3, 10, 9), id="ten of nine"),
        pytest.param("A|B|C", 2, {"A": 3, "B": 2, "C": 1}, {"A": 4, "B": 3, "C": 2}, None, id="three models"),
        pytest.param("A|B", 6, {"A|B": 6}, {"A": 4, "B": 4}, (6, 12, 8), id="what waits for the same is counted"),
        pytest.param("A|B", 2, {"B|C": 7}, {"A": 4, "B": 4}, (2, 9, 8), id="and what waits for one of them"),
        pytest.param("A|B", 2, {"C|D": 7}, {"A": 1, "B": 1}, None, id="but not for others"),
        pytest.param("A", 2, {"A|B": 7}, {"A": 2}, None, id="one model by itself: what waits may get the other"),
        pytest.param("A", 2, {"A": 1}, {"A": 2}, (2, 3, 2), id="one model"),
    ],
)
def test_a_whole_job(card: str, asked: float, held: Data, quota: Data, expected: tuple[int, ...] | None) -> None:
    totals = {card: asked}
    for name, amount in held.items():
        totals[name] = totals.get(name, 0) + amount
    found = shortage({card: asked}, totals, quota, of_job=True)
    assert (found and found[1:]) == expected


def test_cpu_is_looked_at_first_then_memory_then_cards_by_name() -> None:
    asked: dict[str, float] = {"B": 1, "A": 1, "memory": 1, "cpu": 1}
    limit = dict.fromkeys(asked, 0)
    found = []
    while (first := shortage(asked, asked, limit, of_job=False)) is not None:
        found.append(first.resource)
        limit[first.resource] = 1
    assert found == ["cpu", "memory", "A", "B"]


@pytest.mark.parametrize(
    ("asked", "held", "limit", "code", "message"),
    [
        (
            {C: 5000},
            {},
            {C: 3000},
            "InsufficientScalarQuota",
            f"Queue <q> has insufficient <{C}> quota: requested <5000>, total would be <5000>, "
            "but capability is <3000>",
        ),
        (
            {"cpu": 4000},
            {"cpu": 16000},
            {"cpu": 16000},
            "InsufficientCPUQuota",
            "Queue <q> has insufficient CPU quota: requested <4000>, total would be <20000>, but capability is <16000>",
        ),
        (
            {"memory": GI},
            {"memory": GI // 2},
            {"memory": GI + GI / 2048},
            "InsufficientMemoryQuota",
            "Queue <q> has insufficient memory quota: requested <1024 Mi>, total would be <1536 Mi>, "
            "but capability is <1024.5 Mi>",
        ),
    ],
)
def test_words_for_a_shortage(asked: Data, held: Data, limit: Data, code: str, message: str) -> None:
    totals = {name: amount + held.get(name, 0) for name, amount in asked.items()}
    found = shortage(asked, totals, limit, of_job=False)
    assert found is not None
    why = refusal("q", found)
    (name,) = asked
    assert (why.code, why.message) == (code, message)
    assert (why.resource, why.asked, why.left) == (name, asked[name], limit[name] - held.get(name, 0))


@pytest.mark.parametrize(
    ("value", "text"), [(4000, "4000"), (4000.0, "4000"), (100.5, "100.5"), (0.25, "0.25"), (1 << 50, str(1 << 50))]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text
