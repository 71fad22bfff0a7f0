"""Checks of pods with an operating system, and of Windows options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kilauea.api.names import subdomain_problems
from kilauea.apiserver.fields import check_name, forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object

_SYSTEMS = ("linux", "windows")
_PARTS = ("initContainers", "containers", "ephemeralContainers")
_LARGEST_CREDENTIAL = 64 * 1024
_LONGEST_DOMAIN, _LONGEST_USER = 256, 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DOMAIN = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*")
_MARKS = '"/\\:;|=,+*?<>@[]'
_OF_POD = (
    "securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID", "hostIPC",
    "securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser", "securityContext.runAsGroup",
    "securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)  # fmt: skip
"""Fields that pods for Windows cannot have."""
_IF_TRUE = frozenset(("hostPID", "hostIPC"))
_OF_CONTAINER = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip


def check_system(path: str, spec: Object) -> Iterator[Cause]:
    """Check the operating system of a pod, and that it has no fields of the other one."""
    name = spec["os"].get("name", "")
    if not name:
        yield required(f"{path}.os.name")
    elif name not in _SYSTEMS:
        yield not_supported(f"{path}.os", name, _SYSTEMS)
    elif name == "windows":
        yield from _check_for_windows(path, spec)
    else:
        message = "windows options cannot be set for a linux pod"
        if (spec.get("securityContext") or {}).get("windowsOptions") is not None:
            yield forbidden_field(f"{path}.securityContext.windowsOptions", message)
        for where, container in _containers(path, spec):
            if (container.get("securityContext") or {}).get("windowsOptions") is not None:
                yield forbidden_field(f"{where}.securityContext.windowsOptions", message)


def _check_for_windows(path: str, spec: Object) -> Iterator[Cause]:
    message = "cannot be set for a windows pod"
    for field in _OF_POD:
        outer, dot, inner = field.partition(".")
        value = (spec.get(outer) or {}).get(inner) if dot else spec.get(outer)
        if value is not None and (value or field not in _IF_TRUE) and value != []:
            yield forbidden_field(f"{path}.{field}", message)
    for where, container in _containers(path, spec):
        context = container.get("securityContext") or {}
        for field in _OF_CONTAINER:
            if context.get(field) is not None:
                yield forbidden_field(f"{where}.securityContext.{field}", message)


def _containers(path: str, spec: Object) -> Iterator[tuple[str, Object]]:
    """Yield all containers with their paths."""
    for part in _PARTS:
        for number, container in enumerate(spec.get(part) or ()):
            yield f"{path}.{part}[{number}]", container


def check_windows_options(path: str, options: Object) -> Iterator[Cause]:
    """Check the Windows options of a pod or container."""
    name, credential, user = (
        options.get(field) for field in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")
    )
    if name is not None:
        yield from check_name(f"{path}.gmsaCredentialSpecName", name, subdomain_problems(name))
    if credential == "":
        yield invalid_value(f"{path}.gmsaCredentialSpec", credential, "gmsaCredentialSpec cannot be an empty string")
    elif credential is not None and len(credential.encode()) > _LARGEST_CREDENTIAL:
        message = f"gmsaCredentialSpec size must be under {_LARGEST_CREDENTIAL} bytes"
        yield invalid_value(f"{path}.gmsaCredentialSpec", credential, message)
    if user is not None:
        problems = [f"runAsUserName{each}" for each in _user_problems(user)]
        yield from check_name(f"{path}.runAsUserName", user, problems)


def _user_problems(text: str) -> Iterator[str]:
    """Yield the errors in a Windows user name, with or without a domain."""
    if not text:
        yield " cannot be an empty string"
        return
    if _CONTROL.search(text):
        yield " cannot contain control characters"
        return
    if text.count("\\") > 1:
        yield " cannot contain more than one backslash"
        return
    domain, backslash, user = text.rpartition("\\")
    if len(domain) >= _LONGEST_DOMAIN:
        yield f"'s Domain length must be under {_LONGEST_DOMAIN} characters"
    if backslash and not (_NETBIOS.fullmatch(domain) or _DOMAIN.fullmatch(domain)):
        yield "'s Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "'s User cannot be empty"
    elif len(user) > _LONGEST_USER:
        yield f"'s User length must not be longer than {_LONGEST_USER} characters"
    if user and not user.strip(". "):
        yield "'s User cannot contain only periods or spaces"
    if not set(_MARKS).isdisjoint(user):
        yield f"'s User cannot contain the following characters: {_MARKS}"


def check_host_processes(path: str, spec: Object) -> Iterator[Cause]:
    """Check that either all or none of a pod's Windows containers are host processes."""
    wanted = _host_process(spec)
    count = found = 0
    for where, container in _containers(path, spec):
        count += 1
        own = _host_process(container)
        if wanted is not None and own is not None and own != wanted:
            message = f"pod hostProcess value must be identical if both are specified, was {str(wanted).lower()}"
            yield invalid_value(f"{where}.securityContext.windowsOptions.hostProcess", own, message)
        found += bool(wanted if own is None else own)
    if found:
        if found != count:
            message = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
            yield invalid_value(path, "", message)
        if not spec.get("hostNetwork"):
            message = "hostNetwork must be true if pod contains any hostProcess containers"
            yield invalid_value(f"{path}.hostNetwork", False, message)


def _host_process(part: Object) -> Any:
    return ((part.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
