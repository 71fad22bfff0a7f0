"""The numbers that states of the cards of nodes have, and what is remembered under them."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np

from kilauea.api.meta import Object
from kilauea.engine.devices import states
from kilauea.engine.devices.ledger import DeviceLedger
from kilauea.engine.session import Session
from support.builders import conf, group, node, plugin, pod
from support.probes import inside

CONF = conf("enqueue", [], [plugin("deviceshare", {"deviceshare.VGPUEnable": True})])
ASKED = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 30}
TAKEN = {"volcano.sh/vgpu-ids-new": "a-0,NVIDIA,30,0:"}


def with_cards(name: str, mode: str = "hami-core") -> Object:
    text = "".join(f"{name}-{i},10,40960,NVIDIA-A100-PCIE-40GB,true,{mode}:" for i in range(2))
    return node(name, 8, annotations={"volcano.sh/node-vgpu-register": text})


def ask_ledger(do: Callable[[DeviceLedger], None], *nodes: Object, deleting: bool = False) -> None:
    """Call a function with the ledger of a cluster in which one pod has a part of a card of node a."""
    ask_session(lambda session: do(ledger_of(session)), *nodes, deleting=deleting)


def ask_session(do: Callable[[Session], None], *nodes: Object, deleting: bool = False) -> None:
    """As `ask_ledger`, with the session."""
    user = pod("p", "p", requests=ASKED, node="a", annotations=TAKEN, deleting=deleting)
    inside(list(nodes), group("p"), user, do=do, conf=CONF)


def ledger_of(session: Session) -> DeviceLedger:
    assert session.card_ledger is not None
    return session.card_ledger


def compare_bytes(ledger: DeviceLedger) -> None:
    assert ledger.tables
    for table in ledger.tables.values():
        together = table.states(np.arange(len(table.cards.there)))
        alone = [table.state(row) for row in range(len(together))]
        assert alone == [state.tobytes() for state in together]


def test_a_node_alone_has_the_state_that_it_has_among_others() -> None:
    ask_ledger(compare_bytes, with_cards("a"), with_cards("b"), node("c", 8))
    ask_ledger(compare_bytes, with_cards("a"), with_cards("b", mode="mig"))
    ask_ledger(compare_bytes, with_cards("a"), with_cards("b"), deleting=True)


def test_equal_nodes_share_a_number_until_one_of_them_changes() -> None:
    def check(ledger: DeviceLedger) -> None:
        assert ledger.states.number(1) == ledger.states.number(2) != ledger.states.number(0)
        book(ledger, 1)
        assert ledger.states.number(1) != ledger.states.number(2)

    ask_ledger(check, with_cards("a"), with_cards("b"), with_cards("c"))


def test_a_result_is_kept_for_its_own_state_although_states_get_new_numbers_meanwhile() -> None:
    def check(ledger: DeviceLedger) -> None:
        first = ledger.states.number(0)

        def find() -> str:
            book(ledger, 1)
            while ledger.states.number(1) != first:
                book(ledger, 1)
            return "node a"

        assert ledger.states.once("question", 0, find) == "node a"
        assert ledger.states.once("question", 1, lambda: "node b") == "node b"
        assert ledger.states.once("question", 0, lambda: "asked again") == "node a"

    with patch.object(states, "MOST_STATES", 1):
        ask_ledger(check, with_cards("a"), with_cards("b"))


def test_what_was_found_for_a_state_is_forgotten_with_its_number() -> None:
    def check(session: Session) -> None:
        ledger = ledger_of(session)
        known = ledger.states

        def answer(row: int, found: float) -> float:
            one = session.nodes.select(np.array([row]))
            return float(known.ask("asked", one, lambda _: found, lambda _: np.array([found]))[0])

        assert (known.once("question", 0, lambda: "node a"), answer(0, 1.0)) == ("node a", 1.0)
        first = known.number(0)
        while known.number(1) != first:
            book(ledger, 1)
        assert (known.once("question", 1, lambda: "node b"), answer(1, 2.0)) == ("node b", 2.0)

    with patch.object(states, "MOST_STATES", 1):
        ask_session(check, with_cards("a"), with_cards("b"))


def book(ledger: DeviceLedger, row: int) -> None:
    """Something of a card of a node is taken."""
    (table,) = ledger.tables.values()
    table.book((1, 0, 0), row, 0, held=1, later=1)
    ledger.states.changed(row)
