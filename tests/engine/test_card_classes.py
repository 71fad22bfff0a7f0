"""Classes of cards: what is looked up by class is what comparing the cards of each node would find."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.devices.ledger import DeviceLedger, Survey
from kilauea.engine.devices.plain import PlainRequest
from kilauea.engine.devices.table import CardTable
from kilauea.engine.session import Session
from support.builders import conf, group, node, plugin, pod
from support.probes import inside

MEMORY = {"a": 100, "b": 80, "c": 100}
Booked = list[tuple[int, int, tuple[int, int], str]]
"""Parts of cards: row, column, MiB and hundredths of cores, and how a pod has it."""
COUNTS = {"there": (1, 1), "promised": (0, 1), "leaving": (1, 0)}

parts = st.tuples(st.sampled_from([10, 40, 80]), st.sampled_from([0, 30, 100]))
booked = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), parts, st.sampled_from(sorted(COUNTS))), max_size=12)


def with_cards(name: str) -> Object:
    cards = [
        f"{name}-{i},3,{MEMORY[name]},NVIDIA-A100,{'false' if (name, i) == ('c', 1) else 'true'},hami-core"
        for i in range(3)
    ]
    return node(name, 8, annotations={"volcano.sh/node-vgpu-register": ":".join(cards)})


def ask_session(requests: dict[str, int], do: Any, arguments: dict[str, object], **spec: Any) -> None:
    """Call a function with a session, its ledger and the shape of a pod that waits."""
    document = conf("enqueue", [], [plugin("deviceshare", {"deviceshare.VGPUEnable": True, **arguments})])

    def run(session: Session) -> None:
        assert session.card_ledger is not None
        do(session, session.card_ledger, session.shape_of(session.state.tasks["ns/p"]))

    waiting = pod("p", "p", requests={f"volcano.sh/vgpu-{name}": count for name, count in requests.items()}, **spec)
    inside(
        [with_cards("a"), with_cards("b"), with_cards("c"), node("d", 8)], group("p"), waiting, do=run, conf=document
    )


def book(ledger: DeviceLedger, all_of_it: Booked) -> CardTable:
    """Take parts of cards."""
    (table,) = ledger.tables.values()
    for row, column, (memory, cores), how in all_of_it:
        held, later = COUNTS[how]
        table.book((memory, cores, 1), row, column, held=held, later=later)
        table.moving += how != "there"
        ledger.states.changed(row)
    return table


@given(booked)
def test_the_class_of_a_card_says_what_is_used_of_it(all_of_it: Booked) -> None:
    def check(session: Session, ledger: DeviceLedger, shape: Any) -> None:
        table = book(ledger, all_of_it)
        for row, column in np.ndindex(table.cards.there.shape):
            state = table.classes.states[table.classes.numbers[row, column]]
            assert state.offered == tuple(table.cards.capacity[:, row, column].tolist())
            assert state.there == table.cards.there[row, column]
            assert state.held == tuple(table.held[:, row, column].tolist())
            assert state.later == tuple(table.later[:, row, column].tolist())

    ask_session({"number": 1}, check, {})


def test_a_card_that_was_given_back_is_in_the_class_that_it_was_in() -> None:
    def check(session: Session, ledger: DeviceLedger, shape: Any) -> None:
        (table,) = ledger.tables.values()
        before = table.classes.numbers.copy()
        table.book((10, 20, 1), 0, 0, held=1, later=1)
        assert (table.classes.numbers != before).sum() == 1
        table.book((10, 20, 1), 0, 0, held=-1, later=-1)
        assert (table.classes.numbers == before).all()

    ask_session({"number": 1}, check, {})


@given(booked, parts, st.booleans(), st.sampled_from(["", "b-0,c-0"]))
def test_a_request_finds_room_by_class_where_comparing_all_cards_finds_it(
    all_of_it: Booked, asked: tuple[int, int], now: bool, ids: str
) -> None:
    def check(session: Session, ledger: DeviceLedger, shape: Any) -> None:
        table, wish = book(ledger, all_of_it), ledger.wish_of(shape)
        (request,) = wish.requests
        plain = PlainRequest(table, request, wish)
        uses = [table.later, table.held] if now else [table.later]
        expected = table.fitting(request, wish, None, *uses)
        assert plain.fitting(None, now=now).tolist() == expected.tolist()
        for row, cards in enumerate(expected):
            assert plain.fitting_at(row, now=now) == np.flatnonzero(cards).tolist()
            assert plain.fitting(np.array([row]), now=now).tolist() == [cards.tolist()]

    annotations = {"volcano.sh/vgpu-use-gpuuuid": ids} if ids else {}
    memory, cores = asked
    ask_session({"number": 1, "memory": memory, "cores": cores}, check, {}, annotations=annotations)


def expected_score(table: CardTable, found: Survey, row: int, memory: int, policy: str) -> float:
    """The score of a node with weight 3, by the cards that the pod would get there."""
    points = 0.0
    for column in found.chosen[0][row].tolist() if not found.codes[row] else ():
        used = table.later[:, row, column].tolist()
        filled = (used[0] + memory) / int(table.cards.capacity[0, row, column])
        points += 100.0 * (float(used[2] == 0) if policy == "spread" else filled)
    return 3.0 * float(np.floor(points + 0.5))


@given(booked, parts, st.integers(1, 4), st.sampled_from(["binpack", "spread"]))
def test_nodes_score_by_class_as_by_the_cards_that_the_pod_would_get(
    all_of_it: Booked, asked: tuple[int, int], number: int, policy: str
) -> None:
    def check(session: Session, ledger: DeviceLedger, shape: Any) -> None:
        table = book(ledger, all_of_it)
        function = next(scorer.function for name, scorer in session.points.walk("node_score") if name == "deviceshare")
        scores = function(shape, session.nodes.all())
        found = ledger.survey(shape, session.nodes.all(), now=False)
        for row in range(len(session.nodes)):
            assert scores[row] == expected_score(table, found, row, memory, policy)
            assert function(shape, session.nodes.select(np.array([row]))).tolist() == [scores[row]]

    memory, cores = asked
    arguments = {"deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": 3}
    ask_session({"number": number, "memory": memory, "cores": cores}, check, arguments)


@given(booked, booked, parts, st.integers(1, 4), st.sampled_from(["binpack", "spread"]))
def test_nodes_are_judged_again_once_their_cards_have_changed(
    before: Booked, after: Booked, asked: tuple[int, int], number: int, policy: str
) -> None:
    def check(session: Session, ledger: DeviceLedger, shape: Any) -> None:
        score = next(scorer.function for name, scorer in session.points.walk("node_score") if name == "deviceshare")
        everywhere = session.nodes.all()
        table = book(ledger, before)
        score(shape, everywhere)
        ledger.refusals(shape, everywhere, now=False)
        book(ledger, after)
        found = ledger.survey(shape, everywhere, now=False)
        for row, code in enumerate(found.codes.tolist()):
            alone = session.nodes.select(np.array([row]))
            codes = ledger.refusals(shape, alone, now=False)
            assert (0 if codes is None else codes[0]) == code
            assert score(shape, alone).tolist() == [expected_score(table, found, row, memory, policy)]

    memory, cores = asked
    arguments = {"deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": 3}
    ask_session({"number": number, "memory": memory, "cores": cores}, check, arguments)
