"""The definitions of the Volcano kinds: what they say, and that deploy/crds holds them as they are made now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.api.crds import KINDS, CustomKind, definition_text, definitions
from kilauea.api.crds.schema import FACTS, Schemas
from kilauea.apiserver.crd.definition_checks import check_definition
from kilauea.apiserver.schema import openapi_definitions

FOLDER = Path(__file__).parents[3] / "deploy" / "crds"
MADE = {each["metadata"]["name"]: each for each in definitions(openapi_definitions())}
JOB = "jobs.batch.volcano.sh"


def at(name: str, path: str) -> dict[str, Any]:
    """The schema at a path such as `spec.tasks.replicas`; lists and maps are looked through."""
    node = MADE[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in path.split("."):
        node = node.get("items") or node.get("additionalProperties") or node
        node = node["properties"][step]
    return dict(node)


def nodes(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield raw
    for child in (*raw.get("properties", {}).values(), raw.get("items"), raw.get("additionalProperties")):
        if isinstance(child, dict):
            yield from nodes(child)


def test_the_files_are_those_that_the_types_give_now() -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")}
    made = {f"{name}.yaml": definition_text(each) for name, each in MADE.items()}
    assert files.keys() == made.keys(), "run python deploy/generate_crds.py"
    assert [name for name in made if files[name] != made[name]] == [], "run python deploy/generate_crds.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_a_file_read_back_is_the_definition(name: str) -> None:
    assert yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")) == MADE[name]


@pytest.mark.parametrize("name", MADE)
def test_every_definition_passes_the_checks_of_the_api_server(name: str) -> None:
    assert check_definition(MADE[name]) == []


@pytest.mark.parametrize("name", MADE)
def test_helm_leaves_every_definition_when_the_chart_goes(name: str) -> None:
    assert MADE[name]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


@pytest.mark.parametrize(
    ("name", "short", "scope", "status"),
    [
        (JOB, ["vcjob", "vj"], "Namespaced", True),
        ("cronjobs.batch.volcano.sh", ["cronvcjob", "cronvj"], "Namespaced", True),
        ("podgroups.scheduling.volcano.sh", ["pg", "podgroup-v1beta1"], "Namespaced", False),
        ("queues.scheduling.volcano.sh", ["q", "queue-v1beta1"], "Cluster", True),
        ("hypernodes.topology.volcano.sh", ["hn"], "Cluster", True),
        ("jobflows.flow.volcano.sh", ["jf"], "Namespaced", True),
        ("jobtemplates.flow.volcano.sh", ["jt"], "Namespaced", True),
        ("commands.bus.volcano.sh", None, "Namespaced", False),
        ("numatopologies.nodeinfo.volcano.sh", ["numatopo"], "Cluster", False),
        ("nodeshards.shard.volcano.sh", ["nsh"], "Cluster", True),
        ("colocationconfigurations.config.volcano.sh", None, "Namespaced", True),
    ],
)
def test_names_scope_and_subresources_are_those_of_volcano(
    name: str, short: list[str] | None, scope: str, status: bool
) -> None:
    spec = MADE[name]["spec"]
    assert spec["names"].get("shortNames") == short
    assert spec["scope"] == scope
    assert spec["versions"][0]["subresources"] == ({"status": {}} if status else {})


def test_there_is_a_definition_of_each_kind_and_no_other() -> None:
    assert [each.name for each in KINDS] == list(MADE)
    assert len(MADE) == 11


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        (JOB, ["STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"]),
        ("podgroups.scheduling.volcano.sh", ["STATUS", "minMember", "RUNNINGS", "AGE", "QUEUE"]),
        ("queues.scheduling.volcano.sh", ["PARENT"]),
        ("hypernodes.topology.volcano.sh", ["Tier", "TierName", "NodeCount", "Age"]),
        ("jobflows.flow.volcano.sh", ["Status", "Age"]),
        ("nodeshards.shard.volcano.sh", ["AGE"]),
        ("commands.bus.volcano.sh", []),
    ],
)
def test_columns_have_the_headers_that_scripts_parse(name: str, columns: list[str]) -> None:
    found = MADE[name]["spec"]["versions"][0].get("additionalPrinterColumns", [])
    assert [each["name"] for each in found] == columns


@pytest.mark.parametrize(
    ("name", "path", "keywords"),
    [
        (JOB, "spec.queue", {"default": "default", "maxLength": 253}),
        (JOB, "spec.maxRetry", {"default": 3, "minimum": 0, "format": "int32"}),
        (JOB, "spec.minSuccess", {"minimum": 1}),
        (JOB, "spec.tasks", {"minItems": 1}),
        (JOB, "spec.tasks.name", {"maxLength": 63}),
        (JOB, "spec.tasks.partitionPolicy", {"required": ["totalPartitions", "partitionSize"]}),
        (JOB, "spec.networkTopology.mode", {"enum": ["hard", "soft"], "default": "hard"}),
        (JOB, "spec.volumes.mountPath", {"pattern": "^[^:]+$", "minLength": 1}),
        (JOB, "status.state.lastTransitionTime", {"format": "date-time"}),
        ("queues.scheduling.volcano.sh", "spec.weight", {"minimum": 1, "maximum": 65535, "default": 1}),
        ("queues.scheduling.volcano.sh", "spec.dequeueStrategy", {"default": "traverse"}),
        ("podgroups.scheduling.volcano.sh", "spec.subGroupPolicy.subGroupSize", {"default": 1, "minimum": 1}),
        ("hypernodes.topology.volcano.sh", "spec", {"required": ["tier"]}),
        ("jobflows.flow.volcano.sh", "status.unKnowJobs", {"type": "array"}),
        ("cronjobs.batch.volcano.sh", "spec", {"required": ["schedule", "jobTemplate"]}),
        ("commands.bus.volcano.sh", "target", {"required": ["kind", "name", "uid", "apiVersion"]}),
    ],
)
def test_limits_and_defaults_are_those_of_the_specification(name: str, path: str, keywords: dict[str, Any]) -> None:
    found = at(name, path)
    assert {key: found.get(key) for key in keywords} == keywords


def test_events_of_policies_are_a_closed_list_and_actions_are_not() -> None:
    assert "PodEvicted" in at(JOB, "spec.policies.event")["enum"]
    assert at(JOB, "spec.policies.events")["items"]["enum"] == at(JOB, "spec.policies.event")["enum"]
    assert "enum" not in at(JOB, "spec.policies.action")


def test_rules_are_at_the_selectors_of_hypernodes_only() -> None:
    with_rules = [
        name
        for name, each in MADE.items()
        for node in nodes(each["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        if "x-kubernetes-validations" in node
    ]
    assert with_rules == ["hypernodes.topology.volcano.sh"]
    assert len(at("hypernodes.topology.volcano.sh", "spec.members.selector")["x-kubernetes-validations"]) == 2


def test_a_pod_template_keeps_its_lists_apart_by_name_and_little_of_its_metadata() -> None:
    template = at(JOB, "spec.tasks.template")
    assert set(template["properties"]["metadata"]["properties"]) == {
        "annotations",
        "labels",
        "name",
        "namespace",
        "finalizers",
    }
    containers = template["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert template["properties"]["spec"]["required"] == ["containers"]


def test_every_field_of_ours_has_words_for_kubectl_explain() -> None:
    silent = [
        f"{struct.__name__}.{name}"
        for struct, table in FACTS.items()
        for name, known in table.items()
        if not known.words
    ]
    assert silent == []


def test_a_fact_about_a_field_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: CustomKind = KINDS[0]
    monkeypatch.setitem(FACTS, kind.type, {**FACTS[kind.type], "colour": FACTS[kind.type]["spec"]})
    with pytest.raises(LookupError, match=r"Job has no fields \['colour'\]"):
        Schemas(openapi_definitions()).of_object(kind.type)
