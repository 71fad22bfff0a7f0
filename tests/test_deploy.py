"""The folder deploy: the chart as Helm renders it, install.yaml, metrics that boards and alerts name, and the image."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import sources
from kilauea import __version__
from kilauea.admission.registry import HOOKS
from kilauea.cli.main import main
from kilauea.runtime.webhooks.configurations import Where, configuration, kind_of, name_of
from kilauea.telemetry.controller_metrics import ControllerMetrics
from kilauea.telemetry.metrics import SchedulerMetrics
from kilauea.telemetry.webhook_metrics import WebhookMetrics

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
CHART = DEPLOY / "helm" / "kilauea"
INSTALL: dict[str, Any] = runpy.run_path(str(DEPLOY / "generate_install.py"))
NAMESPACE = "volcano-system"
NO_CRDS = "custom.crds_enable=false"
Obj = dict[str, Any]
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}
ALL = ",".join(hook.path for hook in HOOKS)
NEEDED = ("securityContext", "resources", "livenessProbe", "readinessProbe", "startupProbe")


@pytest.fixture(scope="module")
def helm() -> Path:
    if not sources.helm().exists():
        pytest.skip(f"{sources.helm()} is missing: run `python tests/charts/sources.py helm`, which needs Go")
    return sources.helm()


@cache
def rendered(helm: Path, *values: str) -> list[Obj]:
    """The objects of the chart with values, without definitions."""
    return loaded(INSTALL["rendered"](helm, [word for value in (NO_CRDS, *values) for word in ("--set", value)]))


def loaded(text: str) -> list[Obj]:
    """The objects in a text."""
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def of_kind(objects: list[Obj], kind: str) -> dict[str, Obj]:
    """Objects of a kind by name."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def pods(objects: list[Obj]) -> Iterator[tuple[str, Obj, Obj]]:
    """Name, pod and container of each Deployment."""
    for name, each in of_kind(objects, "Deployment").items():
        spec = each["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        yield name, spec, container


def test_install_yaml_is_up_to_date(helm: Path) -> None:
    assert (DEPLOY / "install.yaml").read_text() == INSTALL["text"](helm), "run: make manifests"


def test_install_yaml_has_the_namespace_and_the_definitions_first() -> None:
    kinds = re.findall(r"^kind: (.*)", (DEPLOY / "install.yaml").read_text(), re.M)
    definitions = len(list((DEPLOY / "crds").glob("*.yaml")))
    assert kinds[: definitions + 1] == ["Namespace", *["CustomResourceDefinition"] * definitions]
    assert "CustomResourceDefinition" not in kinds[definitions + 1 :]


def test_helm_finds_no_fault_with_the_chart(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_objects_have_the_names_that_volcano_gives_them(helm: Path) -> None:
    objects = rendered(helm)
    names = {kind: set(of_kind(objects, kind)) for kind in {each["kind"] for each in objects}}
    assert names["Deployment"] == {"volcano-scheduler", "volcano-controllers", "volcano-admission"}
    assert names["ServiceAccount"] == names["Deployment"]
    assert names["Service"] == {f"{name}-service" for name in names["Deployment"]}
    assert names["ConfigMap"] == {"volcano-scheduler-configmap", "volcano-admission-configmap"}
    assert list(of_kind(objects, "ConfigMap")["volcano-scheduler-configmap"]["data"]) == ["volcano-scheduler.conf"]
    assert {each["metadata"].get("namespace", NAMESPACE) for each in objects} == {NAMESPACE}


def test_clusters_without_admission_policies_are_installed_without_them(helm: Path) -> None:
    def policies(version: str) -> list[str]:
        words = ["--set", NO_CRDS, "--kube-version", version]  # the last version counts
        found = loaded(INSTALL["rendered"](helm, words))
        return [each["metadata"]["name"] for each in found if each["kind"].startswith("ValidatingAdmissionPolicy")]

    assert policies("1.29.9") == []
    assert policies("1.30.0") == ["volcano-queue-commands"] * 2
    other = rendered(helm, "custom.controller_enable=false")  # a further scheduler
    assert of_kind(other, "ValidatingAdmissionPolicy") == {}


def test_selectors_are_those_of_volcano_because_they_cannot_be_changed(helm: Path) -> None:
    found = of_kind(rendered(helm), "Deployment")
    selectors = {name: each["spec"]["selector"]["matchLabels"] for name, each in found.items()}
    assert selectors == {
        "volcano-scheduler": {"app": "volcano-scheduler"},
        "volcano-controllers": {"app": "volcano-controller"},
        "volcano-admission": {"app": "volcano-admission"},
    }


def test_containers_have_no_rights_and_cannot_write(helm: Path) -> None:
    for name, spec, container in pods(rendered(helm)):
        assert [each for each in NEEDED if each not in container] == [], name
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        pod = spec["securityContext"]
        assert (pod["runAsNonRoot"], pod["runAsUser"], pod["seccompProfile"]) == (
            True,
            1000,
            {"type": "RuntimeDefault"},
        )
        mounts = {each["name"] for each in container["volumeMounts"]}
        assert mounts == {each["name"] for each in spec["volumes"]}, name


def test_commands_take_the_flags_that_the_chart_gives_them(helm: Path) -> None:
    everything = (
        "custom.scheduler_name=volcano", "custom.scheduler_plugins_dir=/plugins", "custom.scheduler_sharding_mode=hard",
        r"custom.controller_list=*\,-sharding-controller", "custom.admission_tls_secret=mine",
    )  # fmt: skip
    for values in ((), everything, ("custom.leader_elect_enable=false",)):
        for name, _, container in pods(rendered(helm, *values)):
            program, command = container["command"]
            assert program == "kilauea"
            found = main.get_command(None, command)  # type: ignore[arg-type]
            assert found is not None
            found.make_context(name, list(container["args"]))


def test_more_than_one_replica_needs_leader_election(helm: Path) -> None:
    with pytest.raises(
        SystemExit, match=r"custom.scheduler_replicas is 2: with more than one, custom.leader_elect_enable"
    ):
        rendered(helm, "custom.scheduler_replicas=2", "custom.leader_elect_enable=false")
    found = of_kind(rendered(helm, "custom.scheduler_replicas=2"), "Deployment")["volcano-scheduler"]["spec"]
    assert (found["replicas"], found["strategy"]["type"]) == (2, "RollingUpdate")
    alone = of_kind(rendered(helm, "custom.leader_elect_enable=false"), "Deployment")
    assert alone["volcano-scheduler"]["spec"]["strategy"]["type"] == "Recreate"


def test_an_image_of_volcano_is_refused(helm: Path) -> None:
    with pytest.raises(
        SystemExit, match=r"basic.controller_image_name is volcanosh/vc-controller-manager, an image of"
    ):
        rendered(helm, "basic.controller_image_name=volcanosh/vc-controller-manager")


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ((), f"kilauea:{__version__}"),
        (("basic.image_registry=registry.example.com/team",), f"registry.example.com/team/kilauea:{__version__}"),
        (("basic.image_tag_version=v9", "basic.scheduler_image_name=mine"), "mine:v9"),
    ],
)
def test_the_image_of_the_scheduler(helm: Path, values: tuple[str, ...], image: str) -> None:
    images = {name: container["image"] for name, _, container in pods(rendered(helm, *values))}
    assert images["volcano-scheduler"] == image


def test_values_of_volcano_take_effect(helm: Path) -> None:
    objects = rendered(
        helm, "custom.scheduler_config_override=actions: allocate", "custom.default_ns.role=infra",
        "custom.admission_ns.role=edge", "custom.common_labels.team=batch", "custom.admission_enable=false",
        "custom.scheduler_resources.limits.memory=8Gi", "basic.image_pull_secret=key",
    )  # fmt: skip
    assert set(of_kind(objects, "Deployment")) == {"volcano-scheduler", "volcano-controllers"}
    assert of_kind(objects, "MutatingWebhookConfiguration") == {}
    assert [each for each in objects if each["metadata"]["labels"]["team"] != "batch"] == []
    data = of_kind(objects, "ConfigMap")["volcano-scheduler-configmap"]["data"]
    assert data == {"volcano-scheduler.conf": "actions: allocate\n"}
    for name, spec, container in pods(objects):
        assert spec["nodeSelector"] == {"role": "infra"}
        assert spec["imagePullSecrets"] == [{"name": "key"}]
        if name == "volcano-scheduler":
            assert container["resources"]["limits"] == {"memory": "8Gi"}


def test_webhooks_are_those_that_the_program_would_register(helm: Path) -> None:
    where = Where(NAMESPACE, "volcano-admission-service")
    objects = rendered(helm, f"custom.enabled_admissions={ALL.replace(',', chr(92) + ',')}")
    for hook in HOOKS:
        made = of_kind(objects, kind_of(hook).kind)[name_of(hook)]["webhooks"]
        (wanted,) = configuration(hook, where, b"")["webhooks"]
        del wanted["clientConfig"]["caBundle"]
        assert made == [wanted], hook.path
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert sum(len(of_kind(objects, kind)) for kind in kinds) == len(HOOKS)


@pytest.mark.slow
def test_definitions_are_part_of_the_release_and_outlive_it(helm: Path) -> None:
    objects = loaded(INSTALL["rendered"](helm))
    found = of_kind(objects, "CustomResourceDefinition")
    assert found.keys() == {path.stem for path in (DEPLOY / "crds").glob("*.yaml")}
    for name, each in found.items():
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep", name
        (written,) = loaded((DEPLOY / "crds" / f"{name}.yaml").read_text())
        assert each["spec"] == written["spec"], name


def test_monitoring_is_off_unless_it_is_asked_for(helm: Path) -> None:
    kinds = {"ServiceMonitor", "PrometheusRule"}
    assert kinds & {each["kind"] for each in rendered(helm)} == set()
    names = ("service_monitor", "alerts", "grafana_board")
    objects = rendered(helm, *(f"custom.{name}_enable=true" for name in names), "custom.monitoring_labels.release=p")
    services = of_kind(objects, "Service")
    for name, monitor in of_kind(objects, "ServiceMonitor").items():
        assert monitor["metadata"]["labels"] == {"release": "p"}
        (endpoint,) = monitor["spec"]["endpoints"]
        wanted = monitor["spec"]["selector"]["matchLabels"]
        seen = [each for each in services.values() if each["metadata"]["labels"].items() >= wanted.items()]
        assert endpoint["port"] in [port["name"] for each in seen for port in each["spec"]["ports"]], name
    assert of_kind(objects, "PrometheusRule")["volcano-alerts"]["spec"]["groups"] == alerts()
    board = of_kind(objects, "ConfigMap")["volcano-grafana-board"]["data"]["kilauea.json"]
    assert json.loads(board) == json.loads((CHART / "config" / "board.json").read_text())


def alerts() -> list[Obj]:
    """The groups of alerts."""
    found: list[Obj] = yaml.safe_load((CHART / "config" / "alerts.yaml").read_text())
    return found


def expressions() -> list[str]:
    """The expressions of the board and of the alerts."""
    board = json.loads((CHART / "config" / "board.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found += [variable["query"] for variable in board["templating"]["list"]]
    return found + [rule["expr"] for group in alerts() for rule in group["rules"]]


@pytest.mark.parametrize("expression", expressions())
def test_boards_and_alerts_name_metrics_and_labels_that_are_served(expression: str) -> None:
    served = served_metrics()
    names = re.findall(r"\b(?:volcano|kilauea)_\w+", expression)
    assert [name for name in names if name not in served] == []
    assert names or expression == "prometheus"
    known = {"le"}.union(*(served[name] for name in names))
    grouped = re.findall(r"(?:by|on) \(([^)]*)\)|[{]([a-zA-Z_]+)=", expression)
    labels = {label.strip() for pair in grouped for part in pair if part for label in part.split(",")}
    assert labels - known == set()


@cache
def served_metrics() -> dict[str, set[str]]:
    """Names that /metrics serves, each with its labels."""
    none: Any = dict.fromkeys(("queues", "jobs", "flows", "pods"), list)
    found: dict[str, set[str]] = {}
    everything = (SchedulerMetrics(), ControllerMetrics(**none), WebhookMetrics())
    for registry in (each.registry for each in everything):
        for collector, names in registry._collector_to_names.items():
            for name in names:
                found[name] = set(getattr(collector, "_labelnames", ()))
        for family in registry.collect():
            labels = set(getattr(family, "_labelnames", None) or ())
            for suffix in PARTS.get(family.type, ("",)):
                found.setdefault(family.name + suffix, labels)
    return found


def test_the_image_is_built_from_files_that_exist_by_an_ordinary_user() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = [line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY") and "--from" not in line]
    assert [name for names in copied for name in names if not (DEPLOY.parent / name).exists()] == []
    assert re.findall(r"^FROM (\S+)", text, re.M) == ["python:3.11-slim", "python:3.11-slim"]
    assert "USER 1000:1000" in text
    assert 'ENTRYPOINT ["kilauea"]' in text
