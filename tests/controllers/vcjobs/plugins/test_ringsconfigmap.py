"""Plugin ringsconfigmap creates a ConfigMap for the rank table, and mounts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kilauea.api.job_plugins import PluginFault, wrong_arguments
from kilauea.api.kinds import CONFIG_MAPS
from kilauea.api.ports import Create
from kilauea.controllers.vcjobs.plugins import active
from support.vcjob_parts import job, kept, of_the_job, pod_of, task, there

PATH = "/user/serverid/devindex/config"
MOUNT = {"name": "ascend-910-config", "mountPath": PATH}
VOLUME = {"name": "ascend-910-config", "configMap": {"name": "rings-config-m"}}


def rings(*arguments: str, of: dict[str, Any] | None = None) -> dict[str, Any]:
    return job(of or task("a", 1), plugins={"ringsconfigmap": [*arguments]})


def made(of: dict[str, Any]) -> Mapping[str, Any]:
    """The ConfigMap that the plugin creates."""
    (operation,) = kept(of)
    assert isinstance(operation, Create)
    assert operation.resource == CONFIG_MAPS
    return operation.body


def test_the_config_map_waits_for_the_table_under_the_name_and_label_that_its_controller_expects() -> None:
    found = made(rings())
    assert found["metadata"]["name"] == "rings-config-m"
    assert found["metadata"]["labels"] == {"ring-controller.atlas": "ascend-910b"}
    assert "annotations" not in found["metadata"]
    assert found["data"] == {"hccl.json": '{"status":"initializing"}'}


def test_all_containers_have_it_mounted() -> None:
    spec = pod_of(rings(of=task("a", 1, {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]})), "a")[
        "spec"
    ]
    assert spec["volumes"] == [VOLUME]
    assert [each["volumeMounts"] for each in (*spec["initContainers"], *spec["containers"])] == [[MOUNT], [MOUNT]]


@pytest.mark.parametrize(
    ("volumes", "mounts", "expected"),
    [
        ([{"name": "ascend-910-config", "emptyDir": {}}], [], [MOUNT]),
        ([{"name": "v", "emptyDir": {}}], [{"name": "v", "mountPath": PATH}], [{"name": "v", "mountPath": PATH}]),
        (
            [VOLUME],
            [{"name": "ascend-910-config", "mountPath": "/x"}],
            [{"name": "ascend-910-config", "mountPath": "/x"}],
        ),
    ],
)
def test_what_the_template_mounts_stays(volumes: list[Any], mounts: list[Any], expected: list[Any]) -> None:
    own = task("a", 1, {"volumes": volumes, "containers": [{"name": "c", "volumeMounts": mounts}]})
    spec = pod_of(rings(of=own), "a")["spec"]
    assert spec["containers"][0]["volumeMounts"] == expected
    assert [each for each in spec["volumes"] if each["name"] == volumes[0]["name"]] == volumes


def test_the_table_of_its_controller_is_not_overwritten() -> None:
    table = there(CONFIG_MAPS, "rings-config-m", metadata=of_the_job(), data={"hccl.json": '{"status":"completed"}'})
    assert kept(rings(), table) == []


def test_arguments_name_the_config_map_its_content_and_its_place() -> None:
    of = rings(
        *("-configmap-name-template", "r-{{.Name}}-{{ .Namespace }}", "--volume-name=v", "-mount-path", "/p"),
        *(
            "-configmap-labels",
            '{"a":"b"}',
            "-configmap-data",
            '{"f":"{\\"x\\":1}"}',
            '--configmap-annotations={"c":"d"}',
        ),
    )
    found = made(of)
    assert found["metadata"]["name"] == f"r-m-{of['metadata']['namespace']}"
    assert (found["metadata"]["labels"], found["metadata"]["annotations"]) == ({"a": "b"}, {"c": "d"})
    assert found["data"] == {"f": '{"x":1}'}
    assert pod_of(of, "a")["spec"]["containers"][0]["volumeMounts"] == [{"name": "v", "mountPath": "/p"}]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (
            "--configmap-data={",
            "argument --configmap-data is '{': write a map from names to texts, in JSON, such as "
            '--configmap-data={"hccl.json":"{\\"status\\":\\"initializing\\"}"}',
        ),
        ('--configmap-labels={"a":1}', "argument --configmap-labels is '{\"a\":1}': write a map from names to texts"),
        ("--configmap-name-template={{.Spec.Queue}}", "only {{.Name}}, {{.Namespace}} and {{.UID}} are replaced"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named_when_the_job_is_created(argument: str, words: str) -> None:
    (told,) = wrong_arguments({"ringsconfigmap": [argument]})
    assert words in told
    with pytest.raises(PluginFault):
        active(rings(argument))
