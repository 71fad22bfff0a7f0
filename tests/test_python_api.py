"""The Python API: `kilauea.plan`, `kilauea.explain` and `kilauea.simulate` answer as the commands do."""

from __future__ import annotations

import copy
import enum
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import kilauea
from kilauea.api.decode import decode_trees
from kilauea.cli.explain_output import render_explanation
from kilauea.cli.group_names import owners_of
from kilauea.cli.main import main
from kilauea.cli.plan_output import as_data

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DEMO = "demo"
CLUSTERS = [
    ("planning", None),
    (DEMO, None),
    (DEMO, "scheduler-conf/binpack.conf"),
    ("queues/lending.yaml", "queues/flat.conf"),
    ("queues/tree.yaml", "queues/tree.conf"),
    ("queues/cards.yaml", "queues/cards.conf"),
]
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "team"},
    "spec": {"minMember": 1, "queue": "default"},
}


def pod(name: str = "train-0", cpu: object = "1", **spec: object) -> dict[str, Any]:
    """A manifest of a pod of the group."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "annotations": {"scheduling.k8s.io/group-name": "train"},
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }


def loaded(name: str) -> list[Any]:
    """The objects of an example, as PyYAML reads them."""
    path = EXAMPLES / name
    files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def command(*words: str) -> str:
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == 0, result.output
    return result.stdout


def options(name: str, conf: str | None) -> list[str]:
    return ["-f", str(EXAMPLES / name), *(["--scheduler-conf", str(EXAMPLES / conf)] if conf else [])]


def text(conf: str | None) -> str | None:
    return (EXAMPLES / conf).read_text() if conf else None


def without_timing(data: dict[str, Any]) -> Any:
    """As JSON would bring it to another program."""
    del data["timing"]
    return json.loads(json.dumps(data))


@pytest.mark.parametrize(("name", "conf"), CLUSTERS)
@pytest.mark.parametrize("cycles", [1, 3])
def test_a_simulation_has_the_answers_of_the_command(name: str, conf: str | None, cycles: int) -> None:
    printed = json.loads(command("plan", *options(name, conf), "--cycles", str(cycles), "-o", "json"))
    result = kilauea.simulate(loaded(name), text(conf), cycles=cycles, until_rest=False)
    assert without_timing(as_data(result, 0)) == without_timing(printed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "conf"), CLUSTERS)
def test_a_plan_is_the_first_cycle_whether_the_configuration_is_text_or_a_dict(name: str, conf: str | None) -> None:
    written = text(conf)
    first = kilauea.simulate(loaded(name), written, cycles=1).plan
    assert first.pending or first.binds
    assert kilauea.plan(loaded(name), written) == first
    assert kilauea.plan(loaded(name), yaml.safe_load(written) if written else None).binds == first.binds


@pytest.mark.slow
@pytest.mark.parametrize("group", ["research/llm-next", "batch/quarterly-report", "batch/image-index"])
def test_an_explanation_is_that_of_the_command(group: str) -> None:
    printed = json.loads(command("plan", *options(DEMO, None), "--explain", group, "-o", "json"))
    objects = loaded(DEMO)
    explanation = kilauea.explain(objects, group)
    owners = owners_of(kilauea.simulate(objects, cycles=1).objects)
    assert without_timing(json.loads(render_explanation(explanation, "json", (0, 0, 0), owners))) == without_timing(
        printed
    )
    assert explanation.verdict == "waits"
    assert explanation.blockers


def test_decoded_objects_and_lists_and_dicts_are_the_same_cluster() -> None:
    objects = loaded("first-steps")
    expected = kilauea.plan(objects)
    assert expected.binds
    assert kilauea.plan(decode_trees(objects, "").objects) == expected
    assert kilauea.plan([*objects[:2], *decode_trees(objects[2:], "").objects]) == expected
    assert kilauea.plan([{"apiVersion": "v1", "kind": "List", "items": objects}]) == expected
    assert kilauea.plan({"apiVersion": "v1", "kind": "List", "items": [o for o in objects if o]}) == expected
    assert kilauea.plan(iter([None, *objects])) == expected


def test_what_is_given_stays_as_it_is() -> None:
    trees = [NODE, GROUP, pod(), *loaded("planning")]
    decoded = decode_trees([NODE, GROUP, pod()], "").objects
    before = copy.deepcopy((trees, decoded))
    kilauea.simulate(trees)
    kilauea.simulate(decoded)
    assert (trees, decoded) == before


def test_a_simulation_stops_when_the_cluster_is_at_rest() -> None:
    result = kilauea.simulate([NODE, GROUP, pod()])
    assert [len(step.plan.binds) for step in result.steps] == [1, 0, 0]
    assert result.at_rest_after == 2, "its pod group is marked as running in the second"
    assert len(kilauea.simulate([NODE, GROUP, pod()], until_rest=False, cycles=5).steps) == 5
    unfinished = kilauea.simulate([NODE, GROUP, pod()], cycles=1)
    assert (len(unfinished.steps), unfinished.at_rest_after) == (1, None)


def test_the_time_is_the_newest_of_the_objects_unless_it_is_given() -> None:
    made = "2026-01-02T03:04:05Z"
    objects = [NODE, GROUP, {**pod(), "metadata": {**pod()["metadata"], "creationTimestamp": made}}]
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    microseconds = int(moment.timestamp()) * 1_000_000
    assert kilauea.simulate(objects, cycles=1).now == microseconds
    later = moment.astimezone(timezone(timedelta(hours=1))) + timedelta(seconds=1)
    for now in ("2026-01-02T03:04:06Z", later, microseconds + 1_000_000):
        assert kilauea.simulate(objects, cycles=1, now=now).now == microseconds + 1_000_000


def test_times_and_keys_that_a_yaml_loader_made_are_text_again() -> None:
    class Size(enum.IntEnum):
        ONE = 1

    document = yaml.safe_load("{labels: {2: a, true: b}, creationTimestamp: 2026-01-02T03:04:05Z}")
    assert isinstance(document["creationTimestamp"], datetime)
    given = pod(priority=Size.ONE)
    given["metadata"] |= document
    result = kilauea.simulate([NODE, GROUP, given], cycles=1)
    (made,) = (obj for obj in result.objects if obj.kind == "Pod")
    assert made.metadata.creation_timestamp == "2026-01-02T03:04:05Z"
    assert made.metadata.labels == {"2": "a", "true": "b"}
    assert [bind.node for bind in result.plan.binds] == ["n1"]


def test_a_seed_selects_among_equal_nodes_repeatably() -> None:
    nodes = [{**NODE, "metadata": {"name": f"n{i}"}} for i in range(8)]
    chosen = [kilauea.plan([*nodes, GROUP, pod()], seed=seed).binds[0].node for seed in (None, *range(6))]
    again = [kilauea.plan([*nodes, GROUP, pod()], seed=seed).binds[0].node for seed in (None, *range(6))]
    assert chosen == again
    assert len(set(chosen)) > 1


def test_plugins_of_a_folder_decide_when_the_configuration_names_them() -> None:
    folder = EXAMPLES / "plugins"
    conf = (folder / "scheduler.conf").read_text()
    objects = loaded("plugins")
    printed = json.loads(
        command("plan", *options("plugins", "plugins/scheduler.conf"), "--plugins-dir", str(folder), "-o", "json")
    )
    made = kilauea.plan(objects, conf, plugins_dirs=[folder])
    assert {bind.pod: bind.node for bind in made.binds} == printed["binds"]
    with pytest.raises(kilauea.InvalidInput, match="unknown plugin"):
        kilauea.plan(objects, (folder / "fewest-pods.conf").read_text())


def test_warnings_tell_what_is_passed_over() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    warnings = kilauea.simulate([NODE, GROUP, pod(), secret, NODE], {"actions": "allocate", "teirs": []}).warnings
    assert warnings == (
        "Node n1: defined 2 times; the last definition is used",
        "ignored objects of kinds that do not affect scheduling: 1 Secret",
        "unknown key 'teirs'; did you mean 'tiers'?",
    )


api: Any = kilauea
"""The package to a caller who does not check types."""
CYCLE: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
CYCLE["spec"] = CYCLE


@pytest.mark.parametrize(
    ("call", "problems"),
    [
        (
            lambda: api.plan([NODE, pod(cpu="lots"), pod("b", priority="high")]),
            (
                'objects: Pod team/b: spec.priority: expected an integer, got "high"',
                'objects: Pod team/train-0: spec.containers[0].resources.requests[cpu]: "lots" is not a quantity',
            ),
        ),
        (lambda: api.plan([{"spec": {}}]), ("objects: document 1: kind: missing",)),
        (lambda: api.plan([{**NODE, "kind": "Nod"}]), ("kind Nod is unknown: correct kind",)),
        (lambda: api.plan([pod(priority={1})]), ("objects: Pod team/train-0: spec.priority: expected a dict, ",)),
        (lambda: api.plan([pod(priority=object())]), ("objects: Pod team/train-0: spec.priority: expected",)),
        (lambda: api.plan([pod(x={(1, 2): 3})]), ("objects: Pod team/train-0: spec.x: field names are",)),
        (lambda: api.plan([CYCLE]), ("objects: Pod default/p: nested too deep",)),
        (lambda: api.plan(["cluster.yaml"]), ("objects: document 1: expected an object",)),
        (lambda: api.plan("cluster.yaml"), ("objects: got 'cluster.yaml': give the objects themselves",)),
        (lambda: api.plan(EXAMPLES), ("objects: got ",)),
        (lambda: api.plan(3), ("objects: expected dicts or decoded objects, got 3",)),
        (lambda: api.plan([NODE], "actions: alocate\ntiers: []"), ("conf:1: actions: unknown action 'alocate'",)),
        (lambda: api.plan([NODE], "actions: ["), ("conf: line 2, column 1: not valid YAML",)),
        (lambda: api.plan([NODE], {"actions": "alocate"}), ("conf: actions: unknown action 'alocate'",)),
        (lambda: api.plan([NODE], 3), ("conf: a scheduler configuration is a map",)),
        (lambda: api.plan([NODE], plugins_dirs=["/nowhere"]), ("plugins folder /nowhere does not exist",)),
        (lambda: api.plan([NODE], now="soon"), ('now: "soon" is not a time: use RFC 3339',)),
        (lambda: api.plan([NODE], now=datetime(2026, 1, 1)), ("now: 2026-01-01T00:00:00 has no time zone",)),
        (lambda: api.plan([NODE], now=1.5), ("now: must be a whole number, 0 or more; got 1.5",)),
        (lambda: api.plan([NODE], seed=-1), ("seed: must be a whole number, 0 or more; got -1",)),
        (lambda: api.plan([NODE], seed="7"), ("seed: must be a whole number, 0 or more; got '7'",)),
        (lambda: api.simulate([NODE], cycles=0), ("cycles: must be a whole number, 1 or more; got 0",)),
        (
            lambda: api.explain([NODE, GROUP, pod()], "team/trian"),
            ("pod group team/trian does not exist; give it as namespace/name; did you mean 'team/train'?",),
        ),
    ],
)
def test_an_error_names_the_object_the_field_the_value_and_the_fix(
    call: Callable[[], object], problems: tuple[str, ...]
) -> None:
    with pytest.raises(kilauea.InvalidInput) as raised:
        call()
    assert len(raised.value.problems) == len(problems), raised.value
    for found, start in zip(raised.value.problems, problems, strict=True):
        assert found.startswith(start)
    assert str(raised.value) == "\n".join(raised.value.problems)


def test_the_import_of_the_package_alone_loads_nothing_else() -> None:
    script = (
        "import sys, kilauea; "
        "print(sorted(name for name in sys.modules if name.startswith(('kilauea.', 'msgspec', 'numpy', 'yaml')))); "
        "print('plan' in dir(kilauea), kilauea.plan.__name__, 'numpy' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\nTrue plan True\n"


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'kilauea' has no attribute 'paln'"):
        _ = api.paln


def test_every_name_of_the_package_is_there_and_on_the_page_of_the_reference() -> None:
    assert {name for name in kilauea.__all__ if not hasattr(kilauea, name)} == set()
    page = (EXAMPLES.parent / "docs" / "reference" / "python.md").read_text()
    assert {name for name in kilauea.__all__ if f"\n## kilauea.{name}\n" not in page} == {"__version__"}
    assert [line for line in page.splitlines() if line.endswith("|  |")] == [], "an attribute without its meaning"
