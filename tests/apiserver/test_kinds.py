"""The table of kinds agrees with what the server serves."""

from __future__ import annotations

from kilauea.api.crds import KINDS
from kilauea.api.kinds import BUILT_IN, defined_kind
from kilauea.api.ports import Resource
from kilauea.apiserver.custom_resources.bundled import install_bundled
from kilauea.apiserver.resources.builtin import builtin_types
from support.api_core import Api


def test_the_table_has_every_kind_that_the_server_stores_in_the_order_of_discovery() -> None:
    stored = [each for each in builtin_types() if "watch" in each.verbs and each.other_form is None]
    assert list(BUILT_IN) == [
        Resource(each.group, each.version, each.plural, each.kind, each.namespaced) for each in stored
    ]


def test_a_definition_says_what_the_table_says_once_it_is_established(api: Api) -> None:
    api.run(install_bundled(api.server))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definitions = {each["metadata"]["name"]: each for each in api.good("GET", path)["items"]}
    for kind in KINDS:
        definition = definitions[kind.name]
        assert defined_kind(definition) is None
        definition["status"]["conditions"] = [{"type": "Established", "status": "True"}]
        assert defined_kind(definition) == kind.resource
