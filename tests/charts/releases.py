"""A cluster with Helm: releases of charts, and what is in the cluster before and after them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from charts import sources
from cluster.api_process import Server

SECONDS = 240
"""After which Helm no longer waits: far more than a chart takes on a busy machine."""
MOVING = (
    "events", "events.events.k8s.io", "leases.coordination.k8s.io",
    "historyrecords.history.kilauea.dev", "jobhistories.history.kilauea.dev",
)  # fmt: skip
"""Kinds whose objects come and go by themselves, and those that tell of objects that are gone."""
POLICY = "helm.sh/resource-policy"
COLUMNS = "-o=custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"

Seen = tuple[str, str, str]
"""Kind, namespace and name of an object."""


@dataclass(frozen=True)
class Chart:
    """A chart of charts.yaml.

    Attributes:
        name: of the chart, and of its release.
        folder: where it is.
        namespace: of its release.
        values: what it needs to be installed.
        change: further values of the upgrade.
        pods: fewest pods that it has.
        tests: it has tests for `helm test`.
        replace: a text of the manifest and another in its place, for the post-renderer; empty for none.
        beside: objects of its namespace that its user makes, or pods of another chart where pods run.
    """

    name: str
    folder: Path
    namespace: str
    values: Mapping[str, Any]
    change: Mapping[str, Any]
    pods: int
    tests: bool
    replace: tuple[str, ...]
    beside: tuple[Mapping[str, Any], ...]


def chart(name: str) -> Chart:
    """The chart of that name, fetched or not."""
    given = sources.LIST["charts"][name]
    place = sources.folder(given["source"]) if "source" in given else sources.HERE
    namespace = given.get("namespace", name)
    values, pods, tests = given.get("values", {}), given.get("pods", 1), given.get("tests", False)
    replace, beside = tuple(given.get("replace", ())), tuple(given.get("beside", ()))
    return Chart(name, place / given["path"], namespace, values, given["change"], pods, tests, replace, beside)


class Helm:
    """Helm and kubectl at a cluster.

    Args:
        server: of the cluster.
        work: folder for values and for what Helm keeps.
    """

    def __init__(self, server: Server, work: Path) -> None:
        self._work = work
        own = {f"HELM_{name}_HOME": str(work / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self._environment = os.environ | own | {"KUBECONFIG": str(server.kubeconfig), "HOME": str(work)}

    def run(self, program: str | Path, *words: str, given: str = "", good: Iterable[int] = (0,)) -> str:
        """What a program prints; it must end with one of the codes."""
        done = subprocess.run(
            [program, *words], input=given, capture_output=True, text=True, timeout=3 * SECONDS, env=self._environment,
            check=False,
        )  # fmt: skip
        assert done.returncode in good, f"{Path(program).name} {' '.join(words)}: {done.stderr}{done.stdout[:4000]}"
        return done.stdout

    def helm(self, chart: Chart, *words: str) -> str:
        """What Helm says about a release."""
        return self.run(sources.helm(), *words, "--namespace", chart.namespace)

    def _values(self, chart: Chart, *values: Mapping[str, Any]) -> list[str]:
        words = []
        for number, each in enumerate(values):
            path = self._work / f"{chart.name}-{number}.yaml"
            path.write_text(yaml.safe_dump(dict(each)))
            words += ["--values", str(path)]
        if chart.replace:
            words += ["--post-renderer", "sed", "--post-renderer-args", "s|{}|{}|".format(*chart.replace)]
        return words

    def put_beside(self, chart: Chart) -> None:
        """Make what the user of a chart makes, and what pods would that are only simulated."""
        if chart.beside:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chart.namespace}}
            self.run("kubectl", "apply", "-f", "-", given=json.dumps(space))
            words = ["apply", "--namespace", chart.namespace, "-f", "-"]
            self.run("kubectl", *words, given=yaml.safe_dump_all(map(dict, chart.beside)))

    def remove_beside(self, chart: Chart) -> None:
        """Delete it again."""
        if chart.beside:
            words = ["delete", "--namespace", chart.namespace, "-f", "-"]
            self.run("kubectl", *words, given=yaml.safe_dump_all(map(dict, chart.beside)))

    def install(self, chart: Chart, *flags: str) -> None:
        """Install a chart and wait for its pods and hooks."""
        words = ["install", chart.name, str(chart.folder), "--create-namespace", *self._values(chart, chart.values)]
        self.helm(chart, *words, *_waiting(), *flags)

    def upgrade(self, chart: Chart) -> None:
        """Install it with the change."""
        words = ["upgrade", chart.name, str(chart.folder), *self._values(chart, chart.values, chart.change)]
        self.helm(chart, *words, *_waiting())

    def test(self, chart: Chart) -> None:
        """Run the tests of the chart."""
        self.helm(chart, "test", chart.name, f"--timeout={SECONDS}s")

    def roll_back(self, chart: Chart) -> None:
        """Return to the first revision."""
        self.helm(chart, "rollback", chart.name, "1", *_waiting())

    def uninstall(self, chart: Chart) -> None:
        """Delete the release, and what Helm and Kubernetes leave on purpose.

        Helm leaves definitions, hooks, and what it is to keep; Kubernetes leaves the claims of StatefulSets.
        """
        last, _ = self.state(chart)
        manifests = [self.manifest(chart, revision) for revision in range(1, last + 1)]
        left = [each for each in _objects(manifests[-1]) if _annotations(each).get(POLICY) == "keep"]
        left += _objects(self.helm(chart, "get", "hooks", chart.name))
        self.helm(chart, "uninstall", chart.name, "--wait", f"--timeout={SECONDS}s")
        for definitions in sorted((chart.folder / "crds").glob("*.yaml")):
            left += _objects(definitions.read_text())
        objects = [each for manifest in manifests for each in _objects(manifest)]
        left += [claim for claim in self._claims(chart) if _is_of(claim, objects)]
        if left:
            words = ["delete", "--ignore-not-found", "--namespace", chart.namespace, "-f", "-"]
            self.run("kubectl", *words, given=yaml.safe_dump_all(left))

    def _claims(self, chart: Chart) -> list[dict[str, Any]]:
        found = self.run("kubectl", "get", "persistentvolumeclaims", "--namespace", chart.namespace, "-o", "json")
        return list(json.loads(found)["items"])

    def manifest(self, chart: Chart, revision: int = 0) -> str:
        """The objects of a revision, the last one for 0, without its hooks, as Helm rendered them."""
        return self.helm(chart, "get", "manifest", chart.name, "--revision", str(revision))

    def state(self, chart: Chart) -> tuple[int, str]:
        """Revision and status of the release."""
        found = json.loads(self.helm(chart, "status", chart.name, "-o", "json"))
        return found["version"], found["info"]["status"]

    def unfinished_hooks(self, chart: Chart) -> list[str]:
        """Hooks that ran and did not succeed."""
        found = json.loads(self.helm(chart, "status", chart.name, "-o", "json"))
        last = {each["name"]: each["last_run"].get("phase", "") for each in found.get("hooks", [])}
        return sorted(name for name, phase in last.items() if phase not in ("", "Succeeded"))

    def difference(self, chart: Chart) -> str:
        """How the objects in the cluster differ from the manifest; empty if they do not."""
        spaces: dict[str, list[dict[str, Any]]] = {}
        for each in _objects(self.manifest(chart)):
            if "aggregationRule" in each:
                each.pop("rules", None)  # A controller fills them in, whatever a chart says.
            spaces.setdefault(each["metadata"].get("namespace") or chart.namespace, []).append(each)
        differences = (
            self.run("kubectl", "diff", "--namespace", space, "-f", "-", given=yaml.safe_dump_all(objects), good=(0, 1))
            for space, objects in sorted(spaces.items())
        )
        return "".join(differences)

    def pods(self, chart: Chart) -> dict[str, str]:
        """Phases of the pods in the namespace of a release that do not terminate."""
        found = json.loads(self.run("kubectl", "get", "pods", "--namespace", chart.namespace, "-o", "json"))["items"]
        alive = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        return {each["metadata"]["name"]: each["status"]["phase"] for each in alive}

    def everything(self) -> set[Seen]:
        """All objects of the cluster but those that come and go by themselves."""
        kinds = self.run("kubectl", "api-resources", "--verbs=list", "-o", "name").split()
        listed = ",".join(sorted(set(kinds) - set(MOVING)))
        rows = self.run("kubectl", "get", listed, "-A", COLUMNS, "--no-headers", "--ignore-not-found")
        return {(kind, namespace, name) for kind, namespace, name in map(str.split, rows.splitlines())}

    def left(self, before: set[Seen], chart: Chart) -> set[Seen]:
        """Objects that are more than before, once garbage collection had its time; not the namespace itself."""
        end = time.monotonic() + 30
        while left := {each for each in self.everything() - before if not _of_namespace(each, chart.namespace)}:
            if time.monotonic() > end:
                break
            time.sleep(0.5)
        return left


def _objects(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def _is_of(claim: dict[str, Any], objects: Iterable[dict[str, Any]]) -> bool:
    """Return True if a claim was made for a pod of a StatefulSet of the release."""
    return any(
        claim["metadata"]["name"].startswith(f"{template['metadata']['name']}-{each['metadata']['name']}-")
        for each in objects
        if each["kind"] == "StatefulSet"
        for template in each["spec"].get("volumeClaimTemplates", ())
    )


def _annotations(manifest: dict[str, Any]) -> dict[str, str]:
    return manifest["metadata"].get("annotations") or {}


def _waiting() -> list[str]:
    return ["--wait", "--wait-for-jobs", f"--timeout={SECONDS}s"]


def _of_namespace(seen: Seen, namespace: str) -> bool:
    """Return True for the namespace itself and for what every namespace has."""
    return seen in {
        ("Namespace", "<none>", namespace),
        ("ServiceAccount", namespace, "default"),
        ("ConfigMap", namespace, "kube-root-ca.crt"),
    }
