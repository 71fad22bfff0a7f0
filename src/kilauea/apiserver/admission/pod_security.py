"""Pod security: the labels of a namespace specify the standard for its pods.

`pod-security.kubernetes.io/enforce` rejects pods, and `warn` warns about them. For objects that create pods, both only
warn: their pods are rejected later. `audit` is for a log that this server does not write. There are no exemptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kilauea.api.remembered import remembered
from kilauea.apiserver import status
from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.pod_standards import Finding, findings
from kilauea.apiserver.admission.view import LONGEST, REMEMBERED, Record
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.status import Cause

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
"""Levels, from the most permissive to the strictest."""
MOST_CHECKED = 3000
"""Pods of a namespace to check when it gets a stricter level."""
_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")
_TEMPLATES = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}
"""The fields with the pod template of other objects."""
Raw = Mapping[str, Any]


class Standard(NamedTuple):
    """A level and its version."""

    level: str = LEVELS[0]
    version: str = "latest"

    def __str__(self) -> str:
        """Return level and version, for messages."""
        return f"{self.level}:{self.version}"

    def is_stricter(self, other: Standard) -> bool:
        """Return True if its level is stricter."""
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class Policy(NamedTuple):
    """The standards of a namespace: one that is enforced, and one that causes warnings."""

    enforce: Standard = Standard()
    warn: Standard = Standard()


class _Metadata(Record, frozen=True):
    labels: dict[str, str] | None = None


class _Namespace(Record, frozen=True):
    metadata: _Metadata = _Metadata()


_NONE = Policy()
_decoder = msgspec.json.Decoder(_Namespace)


@remembered(REMEMBERED, LONGEST)
def _policy_stored(value: bytes) -> Policy:
    """Return the policy of a stored namespace."""
    return policy_of(_decoder.decode(value).metadata.labels or {})


def policy_of(labels: Mapping[str, str]) -> Policy:
    """Return the policy in labels. An invalid level means the strictest for `enforce`, and none for `warn`."""
    enforce = _standard(labels, "enforce", LEVELS[-1])
    warn = _standard(labels, "warn", LEVELS[0])
    given = labels.get(f"{PREFIX}enforce")
    if f"{PREFIX}warn" not in labels and given in LEVELS and enforce.is_stricter(warn):
        warn = Standard(enforce.level, labels.get(f"{PREFIX}warn-version", enforce.version))
    return Policy(enforce, warn)


def _standard(labels: Mapping[str, str], mode: str, otherwise: str) -> Standard:
    level = labels.get(f"{PREFIX}{mode}", LEVELS[0])
    version = labels.get(f"{PREFIX}{mode}-version", "latest")
    return Standard(level if level in LEVELS else otherwise, version if _VERSION.fullmatch(version) else "latest")


class PodSecurity(AdmissionStep):
    """Rejects pods that violate the enforced standard of their namespace, and warns about violations of the other."""

    name = "PodSecurity"
    kinds = frozenset({("", "namespaces"), ("", "pods"), *_TEMPLATES})

    def validate(self, attributes: Attributes) -> None:
        """Check a pod, an object that creates pods, or a namespace."""
        if attributes.obj is None:
            return
        plural = attributes.resource.plural
        if plural == "namespaces":
            _check_namespace(attributes)
            return
        if plural == "pods" and attributes.subresource in ("status", "binding"):
            return
        stored = attributes.backend.store.get(f"/core/namespaces/{attributes.namespace}")
        policy = _policy_stored(stored.value) if stored is not None else _NONE
        if policy == _NONE:
            return
        if plural != "pods":
            if not attributes.subresource:
                _warn_of_template(attributes, policy)
        elif _is_of_weight(attributes):
            _check_pod(attributes, policy)


def _check_pod(attributes: Attributes, policy: Policy) -> None:
    pod = attributes.obj or {}
    broken = _broken(policy.enforce, pod)
    if broken:
        raise forbidden(attributes, f'violates PodSecurity "{policy.enforce}": {_told(broken)}')
    _warn(attributes, policy.warn, pod)


def _warn_of_template(attributes: Attributes, policy: Policy) -> None:
    template: Any = attributes.obj
    for field in _TEMPLATES[attributes.resource.group, attributes.resource.plural]:
        template = (template or {}).get(field)
    if template:
        _warn(attributes, policy.warn, template)


def _warn(attributes: Attributes, standard: Standard, pod: Raw) -> None:
    broken = _broken(standard, pod)
    if broken:
        attributes.warnings.append(f'would violate PodSecurity "{standard}": {_told(broken)}')


def _broken(standard: Standard, pod: Raw) -> list[Finding]:
    return findings(standard.level, pod.get("metadata") or {}, pod.get("spec") or {})


def _told(broken: list[Finding]) -> str:
    return ", ".join(map(str, broken))


def _is_of_weight(attributes: Attributes) -> bool:
    """Return True for a new pod, and for a change of images or of the number of containers."""
    if attributes.operation == "CREATE" or attributes.old is None:
        return True
    specs = ((attributes.obj or {}).get("spec") or {}, attributes.old.get("spec") or {})
    new, old = ([[_image(each) for each in spec.get(field) or ()] for field in _FIXED] for spec in specs)
    added, before = ({each["name"]: _image(each) for each in spec.get("ephemeralContainers") or ()} for spec in specs)
    return new != old or any(before.get(name) != image for name, image in added.items())


_FIXED = ("initContainers", "containers")


def _image(container: Raw) -> str:
    return str(container.get("image") or "")


# --- namespaces


def _check_namespace(attributes: Attributes) -> None:
    """Reject invalid labels, and warn about pods that violate a stricter standard."""
    if attributes.subresource or attributes.operation == "DELETE":
        return
    labels, before = (_labels(each) for each in (attributes.obj, attributes.old))
    causes = list(_problems(labels))
    if causes and (attributes.operation == "CREATE" or causes != list(_problems(before))):
        raise status.invalid("Namespace", "", attributes.object_name(), causes)
    new, old = policy_of(labels).enforce, policy_of(before).enforce
    if attributes.operation == "CREATE" or new == old or new.level == LEVELS[0]:
        return
    if new.version != old.version or new.is_stricter(old):
        attributes.warnings += _warnings_of_pods(attributes, new)


def _labels(namespace: Raw | None) -> Mapping[str, str]:
    found: Mapping[str, str] = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    return found


def _problems(labels: Mapping[str, str]) -> Iterator[Cause]:
    for mode in ("enforce", "audit", "warn"):
        for key, good, words in (
            (f"{PREFIX}{mode}", LEVELS.__contains__, f"must be one of {', '.join(LEVELS)}"),
            (f"{PREFIX}{mode}-version", _VERSION.fullmatch, 'must be "latest" or "v1.x"'),
        ):
            if key in labels and not good(labels[key]):
                yield invalid_value(f"metadata.labels[{key}]", labels[key], words)


def _warnings_of_pods(attributes: Attributes, standard: Standard) -> list[str]:
    name = attributes.object_name()
    pods = attributes.backend.store.list(f"/core/pods/{name}/").items
    names: dict[str, list[str]] = {}
    for stored in pods[:MOST_CHECKED]:
        pod = msgspec.json.decode(stored.value)
        broken = ", ".join(each.reason for each in _broken(standard, pod))
        if broken:
            names.setdefault(broken, []).append(pod["metadata"]["name"])
    found = []
    if len(pods) > MOST_CHECKED:
        message = f"only checked against the first {MOST_CHECKED} of {len(pods)} existing pods"
        found.append(f"new PodSecurity enforce level {message}")
    if names:
        found.append(f'existing pods in namespace "{name}" violate the new PodSecurity enforce level "{standard}"')
    return [*found, *sorted(f"{min(pods)}{_others(len(pods) - 1)}: {why}" for why, pods in names.items())]


def _others(count: int) -> str:
    return "" if not count else f" (and {count} other {'pod' if count == 1 else 'pods'})"
