"""The stores of tests begin as those of servers that start."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.bootstrap import create_first_objects
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.custom_resources.bundled import install_bundled
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Store
from kilauea.runtime.cluster.in_process import Definitions
from support.api_core import Api
from support.virtual_time import LoopClock, virtual_loop


def content(store: Store) -> list[tuple[str, int, Any]]:
    """Key, revision and value of all objects, without their uids."""
    found = []
    for prefix in sorted(store.sizes()):
        for each in store.list(prefix).items:
            value = msgspec.json.decode(each.value)
            del value["metadata"]["uid"]
            found.append((each.key, each.revision, value))
    return found


@pytest.mark.parametrize("volcano", [False, True])
def test_the_store_of_a_test_is_that_of_a_server_that_has_started(volcano: bool) -> None:
    with virtual_loop() as loop:
        store = loop.run_until_complete(Store.open(None, "memory"))
        clock = LoopClock(loop)
        server = ApiServer(Backend(store, Registry(builtin_types()), clock.now, Random(1), admission_steps()))
        loop.run_until_complete(create_first_objects(server))
        if volcano:
            definitions = Definitions(server, clock)
            loop.run_until_complete(install_bundled(server))
            loop.run_until_complete(definitions.start())
            loop.run_until_complete(definitions.stop())
        api = Api(volcano=volcano)
        assert content(api.backend.store) == content(store)
        assert api.backend.store.revision == store.revision
        api.close()
        loop.run_until_complete(store.close())


def test_no_store_shows_what_is_written_to_another() -> None:
    first, second = Api(), Api()
    first.create_map("settings", a="1")
    assert second.ask("GET", "/api/v1/namespaces/default/configmaps/settings").code == 404
    first.close()
    second.close()


def test_the_objects_of_a_test_have_other_uids_than_those_that_were_there() -> None:
    api = Api(volcano=True)
    there = {msgspec.json.decode(each.value)["metadata"]["uid"] for prefix in api.backend.store.sizes()
             for each in api.backend.store.list(prefix).items}  # fmt: skip
    made = {api.create_map(f"map-{number}")["metadata"]["uid"] for number in range(100)}
    assert not there & made
    api.close()
