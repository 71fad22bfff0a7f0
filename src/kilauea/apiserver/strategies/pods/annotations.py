"""Checks of well-known pod annotations: profiles from older clients, and deletion costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kilauea.apiserver.fields import forbidden_field, invalid_value
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.local_paths import check_descending

_MIRROR = "kubernetes.io/config.mirror"
_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF, _APPARMOR_OF = (
    "container.seccomp.security.alpha.kubernetes.io/", "container.apparmor.security.beta.kubernetes.io/",
)  # fmt: skip
_MEANT = (_MIRROR, _COST, _SECCOMP, _SECCOMP_OF, _APPARMOR_OF)
_MARK = re.compile("|".join(map(re.escape, _MEANT)))
_LOCAL = "localhost/"
_TYPES = {"runtime/default": "RuntimeDefault", "docker/default": "RuntimeDefault", "unconfined": "Unconfined"}
"""Profiles in annotations, and the types that fields have for them."""
_PARTS = ("initContainers", "containers", "ephemeralContainers")


def check_pod_annotations(path: str, annotations: Mapping[str, str], spec: Object) -> list[Cause]:
    """Return the errors in annotations, at `path`, of a pod or template with this specification."""
    if not _has_meant(annotations):
        return []
    meant = {key: value or "" for key, value in annotations.items() if key.startswith(_MEANT)}
    return [*_check(path, meant, spec)]


def _has_meant(annotations: Mapping[str, str]) -> bool:
    """Return True if annotations include well-known ones."""
    return _MARK.search("\n".join(annotations)) is not None


def _check(path: str, annotations: Mapping[str, str], spec: Object) -> Iterator[Cause]:
    if _MIRROR in annotations and not spec.get("nodeName"):
        message = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid_value(f"{path}[{_MIRROR}]", annotations[_MIRROR], message)
    cost = annotations.get(_COST)
    if cost is not None and not _is_cost(cost):
        yield invalid_value(f"{path}[{_COST}]", cost, "must be a 32bit integer")
    for key, profile in annotations.items():
        if key == _SECCOMP or key.startswith(_SECCOMP_OF):
            yield from _check_seccomp(f"{path}.{key}", profile)
    names = {each.get("name") for part in _PARTS for each in spec.get(part) or ()}
    for key, profile in annotations.items():
        if not key.startswith(_APPARMOR_OF):
            continue
        name = key.removeprefix(_APPARMOR_OF)
        if name not in names:
            yield invalid_value(f"{path}[{key}]", name, "container not found")
        if profile and profile not in _TYPES and not profile.startswith(_LOCAL):
            yield invalid_value(f"{path}[{key}]", profile, f'invalid AppArmor profile name: "{profile}"')


def _is_cost(text: str) -> bool:
    """Return True if a text is a 32-bit integer without leading zeros."""
    digits = text.removeprefix("-")
    well = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0") and text != "-0"
    return well and len(digits) <= 10 and -(2**31) <= int(text) < 2**31


def _check_seccomp(path: str, profile: str) -> Iterator[Cause]:
    if profile.startswith(_LOCAL):
        yield from check_descending(path, profile.removeprefix(_LOCAL))
    elif profile not in _TYPES:
        yield invalid_value(path, profile, "must be a valid seccomp profile")


def check_profiles(path: str, annotations: Mapping[str, str], spec: Object) -> list[Cause]:
    """Check that profiles in annotations match those in fields; `path` is that of the specification."""
    if not _has_meant(annotations):
        return []
    return [*_check_profiles(path, annotations, spec)]


def _check_profiles(path: str, annotations: Mapping[str, str], spec: Object) -> Iterator[Cause]:
    yield from _check_same(path, annotations.get(_SECCOMP), spec, ("seccompProfile", "seccomp"))
    for part in _PARTS:
        for number, container in enumerate(spec.get(part) or ()):
            where, name = f"{path}.{part}[{number}]", container.get("name", "")
            yield from _check_same(where, annotations.get(_SECCOMP_OF + name), container, ("seccompProfile", "seccomp"))
            yield from _check_same(
                where, annotations.get(_APPARMOR_OF + name), container, ("appArmorProfile", "apparmor")
            )


def _check_same(path: str, annotation: str | None, part: Object, names: tuple[str, str]) -> Iterator[Cause]:
    field, word = names
    profile = (part.get("securityContext") or {}).get(field)
    if annotation is None or profile is None:
        return
    kind = "Localhost" if annotation.startswith(_LOCAL) else _TYPES.get(annotation, "")
    if kind != profile.get("type"):
        message = f"{word} type in annotation and field must match"
        yield forbidden_field(f"{path}.securityContext.{field}.type", message)
    elif kind == "Localhost" and annotation.removeprefix(_LOCAL) != profile.get("localhostProfile"):
        message = f"{word} profile in annotation and field must match"
        yield forbidden_field(f"{path}.securityContext.{field}.localhostProfile", message)
