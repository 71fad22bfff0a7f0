"""Bound admission policies for ConfigMaps."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.heavy import Task, TooHeavy
from kilauea.apiserver.heavy_tasks import AtOnce
from support.api_core import Api

HOOKS = "/apis/admissionregistration.k8s.io/v1"
MAPS_ONLY = {
    "resourceRules": [
        {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    ]
}


def check(api: Api, *validations: dict[str, Any], actions: tuple[str, ...] = ("Deny",), **spec: Any) -> None:
    """A bound validating policy for ConfigMaps."""
    binding = spec.pop("binding", {})
    whole = {"matchConstraints": MAPS_ONLY, "validations": list(validations), **spec}
    api.good("POST", f"{HOOKS}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": whole})
    bound = {"policyName": "p", "validationActions": list(actions), **binding}
    api.good("POST", f"{HOOKS}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})


def change(api: Api, *mutations: dict[str, Any], **spec: Any) -> None:
    """A bound mutating policy for ConfigMaps."""
    whole = {"matchConstraints": MAPS_ONLY, "mutations": list(mutations), "reinvocationPolicy": "Never", **spec}
    api.good("POST", f"{HOOKS}/mutatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": whole})
    bound = {"metadata": {"name": "b"}, "spec": {"policyName": "p"}}
    api.good("POST", f"{HOOKS}/mutatingadmissionpolicybindings", bound)


class Elsewhere(AtOnce):
    """Notes what is done elsewhere; refuses it if it is to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.tasks: list[Task] = []

    async def run(self, task: Task, data: bytes) -> bytes:
        """Do a task."""
        self.tasks.append(task)
        if self.refuses:
            raise TooHeavy("slow")
        return await super().run(task, data)
