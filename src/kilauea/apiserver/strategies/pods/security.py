"""Checks of security contexts: users, groups, profiles and sysctls of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kilauea.apiserver.fields import check_range, duplicate, forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.local_paths import check_descending
from kilauea.apiserver.strategies.pods.windows import check_windows_options

_LARGEST_ID = 2**31 - 1
_LONGEST_SYSCTL = 253
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_WORDS = f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL.pattern}$"
_OF_HOST = (
    ("hostIPC", re.compile(r"kernel\.(shm|msg).*|kernel\.sem|fs\.mqueue\..*")),
    ("hostNetwork", re.compile(r"net\..*")),
)
"""Sysctls of a namespace that the pod can share with its node."""
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
_ADMINISTRATOR = "CAP_SYS_ADMIN"
_LONGEST_PROFILE = 4095


def check_pod_security(path: str, spec: Object) -> Iterator[Cause]:
    """Check the security context of a pod, at `path` of the specification, and shared namespaces."""
    context, where = spec.get("securityContext") or {}, f"{path}.securityContext"
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _check_id(f"{where}.{field}", context.get(field))
    for number, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _check_id(f"{where}.supplementalGroups[{number}]", group)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        message = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid_value(f"{where}.shareProcessNamespace", True, message)
    if context.get("sysctls"):
        yield from _check_sysctls(f"{where}.sysctls", context["sysctls"], spec)
    yield from _check_word(f"{where}.fsGroupChangePolicy", context, ("Always", "OnRootMismatch"))
    yield from _check_seccomp(f"{where}.seccompProfile", context.get("seccompProfile"))
    if context.get("windowsOptions") is not None:
        yield from check_windows_options(f"{where}.windowsOptions", context["windowsOptions"])
    yield from _check_apparmor(f"{where}.appArmorProfile", context.get("appArmorProfile"))
    yield from _check_word(f"{where}.supplementalGroupsPolicy", context, ("Merge", "Strict"))
    yield from _check_word(f"{where}.seLinuxChangePolicy", context, ("Recursive",))


def _check_word(path: str, context: Object, allowed: tuple[str, ...]) -> Iterator[Cause]:
    """Check that a value is an allowed one."""
    word = context.get(path.rpartition(".")[2])
    if word is not None and word not in allowed:
        yield not_supported(path, word, allowed)


def check_security(path: str, context: Object, *, own_users: bool) -> Iterator[Cause]:
    """Check the security context of a container; `own_users` is True in a pod with a user namespace."""
    for field in ("runAsUser", "runAsGroup"):
        yield from _check_id(f"{path}.{field}", context.get(field))
    mount = context.get("procMount")
    if mount is not None:
        if mount not in _PROC_MOUNTS:
            yield not_supported(f"{path}.procMount", mount, _PROC_MOUNTS)
        if mount == "Unmasked" and not own_users:
            yield invalid_value(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _check_seccomp(f"{path}.seccompProfile", context.get("seccompProfile"))
    if context.get("allowPrivilegeEscalation") is False:
        message = "cannot set `allowPrivilegeEscalation` to false and "
        if context.get("privileged"):
            yield invalid_value(path, _told(context), f"{message}`privileged` to true")
        for each in (context.get("capabilities") or {}).get("add") or ():
            if each == _ADMINISTRATOR:
                yield invalid_value(path, _told(context), f"{message}`capabilities.Add` {_ADMINISTRATOR}")
    if context.get("windowsOptions") is not None:
        yield from check_windows_options(f"{path}.windowsOptions", context["windowsOptions"])
    yield from _check_apparmor(f"{path}.appArmorProfile", context.get("appArmorProfile"))


_TOLD = (
    "capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot",
    "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount", "seccompProfile", "appArmorProfile",
)  # fmt: skip
_NAMES = {"seLinuxOptions": "SELinuxOptions"}
_PARTS = {
    "capabilities": ("add", "drop"),
    "seccompProfile": ("type", "localhostProfile"),
    "appArmorProfile": ("type", "localhostProfile"),
}


def _told(context: Object) -> dict[str, Any]:
    """Return a security context as the real server shows it: all fields, with the field names of Go."""
    return {
        _NAMES.get(field, _capital(field)): _told_part(context.get(field), _PARTS.get(field, ())) for field in _TOLD
    }


def _told_part(value: Any, fields: tuple[str, ...]) -> Any:
    if not isinstance(value, dict):
        return value
    return {_capital(field): value.get(field) for field in (*fields, *(each for each in value if each not in fields))}


def _capital(field: str) -> str:
    return field[0].upper() + field[1:]


def _check_id(path: str, number: int | None) -> list[Cause]:
    """Check the ID of a user or group."""
    return check_range(path, number, 0, _LARGEST_ID)


def _check_sysctls(path: str, parameters: list[Object], spec: Object) -> Iterator[Cause]:
    names: set[str] = set()
    for number, parameter in enumerate(parameters):
        name, where = parameter.get("name", ""), f"{path}[{number}].name"
        if not name:
            yield required(where)
        elif len(name) > _LONGEST_SYSCTL or not _SYSCTL.fullmatch(name):
            yield invalid_value(where, name, _SYSCTL_WORDS)
        elif name in names:
            yield duplicate(where, name)
        for field, of_host in _OF_HOST:
            if spec.get(field) and of_host.fullmatch(_with_dots(name)):
                yield invalid_value(where, name, f"may not be specified when '{field}' is true")
        names.add(name)


def _with_dots(name: str) -> str:
    """Return a sysctl name separated by dots instead of slashes."""
    first = re.search(r"[./]", name)
    if first is None or first[0] == ".":
        return name
    return name.translate({ord("/"): ".", ord("."): "/"})


def _check_seccomp(path: str, profile: Object | None) -> Iterator[Cause]:
    if profile is None:
        return
    kind, place = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        if place is None:
            yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from check_descending(f"{path}.localhostProfile", place)
    elif place is not None:
        message = "can only be set when seccomp type is Localhost"
        yield invalid_value(f"{path}.localhostProfile", _told_part(profile, _PARTS["seccompProfile"]), message)
    if not kind:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILES:
        yield not_supported(f"{path}.type", kind, _PROFILES)


def _check_apparmor(path: str, profile: Object | None) -> Iterator[Cause]:
    if profile is None:
        return
    kind, name = profile.get("type", ""), profile.get("localhostProfile")
    where = f"{path}.localhostProfile"
    if not kind:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in _PROFILES:
        yield not_supported(f"{path}.type", kind, _PROFILES)
    if kind != "Localhost":
        if name is not None:
            yield invalid_value(where, name, "can only be set when AppArmor type is Localhost")
    elif not name:
        yield required(where, "must be set when AppArmor type is Localhost")
    else:
        if name != name.strip():
            yield invalid_value(where, name, "must not be padded with whitespace")
        if len(name) > _LONGEST_PROFILE:
            yield Cause(where, "FieldValueTooLong", f"Too long: may not be more than {_LONGEST_PROFILE} bytes")


def check_own_users(path: str, spec: Object) -> Iterator[Cause]:
    """Check that a pod with a user namespace shares no other namespace with its node, and uses no devices."""
    message = "when `hostUsers` is false"
    for field, told in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            yield forbidden_field(f"{path}.{told}", message)
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for number, container in enumerate(spec.get(part) or ()):
            if container.get("volumeDevices"):
                yield forbidden_field(f"{path}.{part}[{number}].volumeDevices", message)
