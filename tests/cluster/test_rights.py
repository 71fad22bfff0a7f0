"""The chart's roles at the real Kubernetes: scheduler, controllers and webhooks use each right, and none is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from cluster import every_right
from cluster.real_product import ROOT, Product, running_product
from cluster.up_process import until

sys.path.insert(0, str(ROOT / "tests/kubernetes"))
try:
    import rights
finally:
    sys.path.remove(str(ROOT / "tests/kubernetes"))

OWNED = {
    "jobs": "batch.volcano.sh/v1alpha1",
    "cronjobs": "batch.volcano.sh/v1alpha1",
    "jobflows": "flow.volcano.sh/v1alpha1",
}
"""Owners of what the controllers create."""
CHECKED = {
    "scheduler": {"update resourceclaims/binding.resource.k8s.io": "checked with each status that gets devices"},
    "controllers": {
        f"update {plural}/finalizers.{version.partition('/')[0]}": "checked with each object that gets an owner"
        for plural, version in OWNED.items()
    },
    "admission": {},
}
"""Rights for which there is no request, as the server checks them with those of another, and when."""


def without(product: Product, component: str, right: str) -> None:
    """Take one right from a component."""
    name = f"{rights.RELEASE}-{component}"
    role: dict[str, Any] = product.get("clusterrole", name)
    verb, _, resource = right.partition(" ")
    plural, _, group = resource.partition(".")
    kept = []
    for rule in role["rules"]:
        if verb in rule["verbs"] and group in rule["apiGroups"] and plural in rule["resources"]:
            rule = {**rule, "resources": [each for each in rule["resources"] if each != plural]}
        kept += [rule] if rule["resources"] else []
    assert kept != role["rules"], f"{name} does not grant: {right}"
    product.kubectl("replace", "-f", "-", given=yaml.safe_dump({**role, "rules": kept}))


def answer(product: Product, command: str, *words: str, given: Any) -> str:
    """What the server says to a component that only tries something; empty if it may."""
    tried = ("--kubeconfig", str(product.access[command]), *words, "--dry-run=server", "-f", "-")
    done = product.ask(*tried, given=yaml.safe_dump(given))
    return done.stderr if done.returncode else ""


def check_owner(product: Product, plural: str) -> None:
    """Owners of a kind can be set with the right on its finalizers, and not without it."""
    kind = {"jobs": "Job", "cronjobs": "CronJob", "jobflows": "JobFlow"}[plural]
    owner = {"apiVersion": OWNED[plural], "kind": kind, "name": "x", "uid": "x", "blockOwnerDeletion": True}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"of-{plural}", "ownerReferences": [owner]}}
    assert answer(product, "controllers", "create", given=body) == ""
    without(product, "controllers", f"update {plural}/finalizers.{OWNED[plural].partition('/')[0]}")
    until(lambda: "cannot set blockOwnerDeletion" in answer(product, "controllers", "create", given=body), "a refusal")


def check_devices(product: Product) -> None:
    """Devices can be given back with the right on their binding, and not without it."""
    claim = product.get("resourceclaim", "wanted")
    assert claim["status"]["allocation"]
    freed = {**claim, "status": {}}
    words = ("replace", "--subresource=status")
    assert answer(product, "scheduler", *words, given=freed) == ""
    without(product, "scheduler", "update resourceclaims/binding.resource.k8s.io")
    until(lambda: "changing status.allocation" in answer(product, "scheduler", *words, given=freed), "a refusal")


def test_the_chart_grants_each_right_that_is_asked_for_and_no_other(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(every_right.CONF)
    scheduler = (*every_right.SCHEDULER, f"--scheduler-conf={conf}")
    with running_product(tmp_path, scheduler=scheduler, controllers=every_right.CONTROLLERS) as product:
        for story in every_right.STORIES:
            story(product)
        for name, process in product.processes.items():
            assert process.poll() is None, product.log(name)
            process.terminate()
            assert process.wait(30) == 0, product.log(name)
            assert "Traceback" not in product.log(name), product.log(name)
        found = rights.asked(tmp_path)
        faults = [
            fault
            for component in rights.COMPONENTS
            for fault in rights.faults(component, rights.granted(component), found[component], CHECKED[component])
        ]
        assert faults == []
        check_devices(product)
        for plural in OWNED:
            check_owner(product, plural)
