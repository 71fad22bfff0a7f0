"""`kilauea plan` shows which volume each claim gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from kilauea.api.meta import Object
from kilauea.cli.main import main
from over_time.history import manifest_of
from support.builders import group, node, pod, queue
from support.volume_objects import claim, storage_class, user, volume

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "volumes"


def planned(path: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["plan", "-f", str(path), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def written(folder: Path, *objects: Object) -> Path:
    """A file of objects."""
    manifests = [manifest_of(obj) for obj in objects]
    for manifest in manifests:
        if manifest["kind"] == "StorageClass":
            manifest["apiVersion"] = "storage.k8s.io/v1"
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    return path


def as_data(path: Path, *options: str) -> Any:
    return json.loads(planned(path, "-o", "json", *options))


def test_the_table_names_claim_volume_pod_and_node() -> None:
    lines = [line.split("   ")[0].strip() for line in planned(EXAMPLE).splitlines()]
    rows = [" ".join(line.split()) for line in planned(EXAMPLE).splitlines()]
    assert "CLAIM" in lines
    assert "default/cache default/serving-server-0 node-1 a new one of class fast" in rows
    assert "default/training-worker-0-data default/training-worker-0 node-0 disk-of-node-0" in rows


def test_programs_get_the_same() -> None:
    given = {each["claim"]: each for each in as_data(EXAMPLE)["volumes"]}
    assert given["default/training-worker-1-data"] == {
        "claim": "default/training-worker-1-data",
        "volume": "disk-of-node-1",
        "storageClass": "local",
        "pod": "default/training-worker-1",
        "node": "node-1",
    }
    assert given["default/cache"]["volume"] == ""
    assert "default/archive" not in given


def test_each_of_several_cycles_says_what_it_gives() -> None:
    first, *others = as_data(EXAMPLE, "--cycles", "3")["cycles"]
    assert len(first["volumes"]) == 3
    assert not any("volumes" in cycle for cycle in others)


def test_a_plan_without_claims_has_no_volumes() -> None:
    assert "volumes" not in as_data(EXAMPLE.parent / "first-steps")


def test_many_claims_are_counted_and_shown_one_by_one_when_asked_for(tmp_path: Path) -> None:
    objects = [node("n1", cpu=99, memory="99Gi"), queue("q"), storage_class(), group(minimum=1)]
    for number in range(25):
        objects += [claim(f"c{number}"), volume(f"v{number}"), user(f"p{number}", f"c{number}", created=number)]
    path = written(tmp_path, *objects)
    assert "... and 5 more claims; -o wide shows every claim" in planned(path)
    assert "more claim" not in planned(path, "-o", "wide")
    assert planned(path, "-o", "wide").count("ns/c") == 25


def test_a_template_that_makes_no_claim_leaves_its_pod_waiting(tmp_path: Path) -> None:
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": "all"}}}}]
    path = written(tmp_path, node("n1"), queue("q"), group(), pod("p", volumes=volumes))
    assert as_data(path)["binds"] == {}
