"""The pod security standards of Kubernetes: the rules of the levels `baseline` and `restricted`.

Each rule is a function from a pod to a finding: a reason, and the containers or volumes that violate it. The rules are
those of the newest version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api import sysctls

Raw = Mapping[str, Any]
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_CAPABILITIES = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID "
    "SYS_CHROOT".split()
)
_BIND = "NET_BIND_SERVICE"
_SELINUX_TYPES = frozenset(("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"))
_VOLUMES = frozenset(
    "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret".split()
)
_PROFILES = ("RuntimeDefault", "Localhost")


class Finding(NamedTuple):
    """A rule that a pod violates: the general reason, and the details."""

    reason: str
    detail: str

    def __str__(self) -> str:
        """Return reason and details, for a message about one pod."""
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


class Pod(NamedTuple):
    """A pod or a pod template."""

    metadata: Raw
    spec: Raw

    @property
    def context(self) -> Raw:
        """The security context of the pod."""
        found: Raw = self.spec.get("securityContext") or {}
        return found

    @property
    def containers(self) -> Iterator[Raw]:
        """All containers, in the order in which they start."""
        for field in ("initContainers", "containers", "ephemeralContainers"):
            yield from self.spec.get(field) or ()

    @property
    def is_windows(self) -> bool:
        """True if the pod is declared for Windows."""
        return bool((self.spec.get("os") or {}).get("name") == "windows")

    @property
    def has_own_users(self) -> bool:
        """True if the pod has a user namespace, so that its root is not root on the node."""
        return self.spec.get("hostUsers") is False

    def contexts(self) -> Iterator[tuple[Raw, Raw]]:
        """Yield containers and their security contexts."""
        for container in self.containers:
            yield container, container.get("securityContext") or {}

    def named(self, breaks: Callable[[Raw], Any]) -> list[str]:
        """Return the names of the containers whose security context violates a rule."""
        return [str(container["name"]) for container, context in self.contexts() if breaks(context)]


Rule = Callable[[Pod], Finding | None]


def findings(level: str, metadata: Raw, spec: Raw) -> list[Finding]:
    """Return the rules of a level that a pod violates, in the order of Kubernetes."""
    pod = Pod(metadata, spec)
    return [found for rule in _RULES[level] if (found := rule(pod)) is not None]


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{each}"' for each in texts)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _the(word: str, names: Sequence[str]) -> str:
    """Return a word and names, such as `containers "a", "b"`."""
    return f"{_plural(word, len(names))} {_quoted(names)}"


def _setters(by_pod: bool, containers: Sequence[str]) -> str:
    """Return what sets a field: the pod, containers, or both; empty if nothing does."""
    return " and ".join([*(["pod"] if by_pod else []), *([_the("container", containers)] if containers else [])])


# --- baseline


def _app_armor(pod: Pod) -> Finding | None:
    def kind(context: Raw) -> str:
        return str((context.get("appArmorProfile") or {}).get("type") or "")

    containers = pod.named(lambda context: kind(context) == "Unconfined")
    setters = _setters(kind(pod.context) == "Unconfined", containers)
    annotations = [
        f'{key}="{value}"'
        for key, value in sorted((pod.metadata.get("annotations") or {}).items())
        if key.startswith(APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    ]
    values = [*(["Unconfined"] if setters else []), *annotations]
    if annotations:
        setters = " and ".join([*([setters] if setters else []), _plural("annotation", len(annotations))])
    if not values:
        return None
    reason = _plural("forbidden AppArmor profile", len(values))
    return Finding(reason, f"{setters} must not set AppArmor profile type to {_quoted(values)}")


def _added(context: Raw) -> list[str]:
    return list((context.get("capabilities") or {}).get("add") or ())


def _capabilities_baseline(pod: Pod) -> Finding | None:
    names = pod.named(lambda context: set(_added(context)) - _CAPABILITIES)
    if not names:
        return None
    bad = sorted({each for _, context in pod.contexts() for each in _added(context)} - _CAPABILITIES)
    message = f"{_the('container', names)} must not include {_quoted(bad)} in securityContext.capabilities.add"
    return Finding("non-default capabilities", message)


def _host_namespaces(pod: Pod) -> Finding | None:
    found = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return Finding("host namespaces", ", ".join(found)) if found else None


def _host_paths(pod: Pod) -> Finding | None:
    found = [str(each["name"]) for each in pod.spec.get("volumes") or () if each.get("hostPath") is not None]
    return Finding("hostPath volumes", _the("volume", found)) if found else None


def _host_ports(pod: Pod) -> Finding | None:
    ports = {
        str(each["name"]): [str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")]
        for each in pod.containers
    }
    names = [name for name, used in ports.items() if used]
    return _uses(names, "hostPort", {each for used in ports.values() for each in used}) if names else None


def _uses(names: Sequence[str], what: str, values: Iterable[str], quote: bool = False) -> Finding:
    found = sorted(values)
    verb, shown = "uses" if len(names) == 1 else "use", _quoted(found) if quote else ", ".join(found)
    return Finding(what, f"{_the('container', names)} {verb} {_plural(what, len(found))} {shown}")


def _probe_hosts(pod: Pod) -> Finding | None:
    hosts = {str(each["name"]): {*_hosts(each)} - {""} for each in pod.containers}
    names = sorted(name for name, found in hosts.items() if found)
    values = {each for found in hosts.values() for each in found}
    return _uses(names, "probe or lifecycle host", values, quote=True) if names else None


def _hosts(container: Raw) -> Iterator[str]:
    """Yield the hosts in probes and hooks of a container."""
    hooks = container.get("lifecycle") or {}
    handlers = [container.get(f"{each}Probe") for each in ("liveness", "readiness", "startup")]
    for handler in (*handlers, hooks.get("postStart"), hooks.get("preStop")):
        for kind in ("httpGet", "tcpSocket"):
            yield str(((handler or {}).get(kind) or {}).get("host") or "")


def _privileged(pod: Pod) -> Finding | None:
    names = pod.named(lambda context: context.get("privileged"))
    message = f"{_the('container', names)} must not set securityContext.privileged=true"
    return Finding("privileged", message) if names else None


def _proc_mount(pod: Pod) -> Finding | None:
    names = pod.named(lambda context: (context.get("procMount") or "Default") != "Default")
    bad = sorted({str(context["procMount"]) for _, context in pod.contexts() if context.get("procMount")} - {"Default"})
    message = f"{_the('container', names)} must not set securityContext.procMount to {_quoted(bad)}"
    return Finding("procMount", message) if names else None


def _proc_mount_baseline(pod: Pod) -> Finding | None:
    return None if pod.has_own_users else _proc_mount(pod)


def _selinux(pod: Pod) -> Finding | None:
    def problems(context: Raw) -> tuple[list[str], bool, bool]:
        options = context.get("seLinuxOptions") or {}
        kind = str(options.get("type") or "")
        return [kind] if kind not in _SELINUX_TYPES else [], bool(options.get("user")), bool(options.get("role"))

    def breaks(context: Raw) -> bool:
        return any(problems(context))

    setters = _setters(breaks(pod.context), pod.named(breaks))
    if not setters:
        return None
    every = [problems(pod.context), *(problems(context) for _, context in pod.contexts())]
    types = sorted({each for found, _, _ in every for each in found})
    words = [f"{_plural('type', len(types))} {_quoted(types)}"] if types else []
    words += ["user may not be set"] if any(user for _, user, _ in every) else []
    words += ["role may not be set"] if any(role for _, _, role in every) else []
    return Finding("seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(words)}")


def _seccomp(context: Raw) -> str:
    return str((context.get("seccompProfile") or {}).get("type") or "")


def _seccomp_baseline(pod: Pod) -> Finding | None:
    def breaks(context: Raw) -> bool:
        return _seccomp(context) not in ("", *_PROFILES)

    return _bad_seccomp(pod, breaks)


def _bad_seccomp(pod: Pod, breaks: Callable[[Raw], bool]) -> Finding | None:
    setters = _setters(breaks(pod.context), pod.named(breaks))
    if not setters:
        return None
    every = [pod.context, *(context for _, context in pod.contexts())]
    bad = sorted({_seccomp(each) for each in every if breaks(each)})
    return Finding("seccompProfile", f"{setters} must not set securityContext.seccompProfile.type to {_quoted(bad)}")


def _sysctls(pod: Pod) -> Finding | None:
    names = [str(each["name"]) for each in pod.context.get("sysctls") or () if each["name"] not in sysctls.SAFE]
    return Finding("forbidden sysctls", ", ".join(names)) if names else None


def _host_process(pod: Pod) -> Finding | None:
    def breaks(context: Raw) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(breaks(pod.context), pod.named(breaks))
    words = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return Finding("hostProcess", words) if setters else None


# --- restricted


def _escalation(pod: Pod) -> Finding | None:
    names = [] if pod.is_windows else pod.named(lambda context: context.get("allowPrivilegeEscalation") is not False)
    message = f"{_the('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return Finding("allowPrivilegeEscalation != false", message) if names else None


def _capabilities_restricted(pod: Pod) -> Finding | None:
    if pod.is_windows:
        return None
    keeping = pod.named(lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ()))
    adding = pod.named(lambda context: set(_added(context)) - {_BIND})
    words = []
    if keeping:
        words.append(f'{_the("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        bad = sorted({each for _, context in pod.contexts() for each in _added(context)} - {_BIND})
        which = _the("container", adding)
        words.append(f"{which} must not include {_quoted(bad)} in securityContext.capabilities.add")
    return Finding("unrestricted capabilities", "; ".join(words)) if words else None


def _restricted_volumes(pod: Pod) -> Finding | None:
    bad = [each for each in pod.spec.get("volumes") or () if not (set(each) & _VOLUMES) and set(each) != {"name"}]
    if not bad:
        return None
    kinds = sorted({kind for each in bad for kind in set(each) - {"name"}})
    verb = "uses" if len(bad) == 1 else "use"
    names = [str(each["name"]) for each in bad]
    message = f"{_the('volume', names)} {verb} {_plural('restricted volume type', len(kinds))} {_quoted(kinds)}"
    return Finding("restricted volume types", message)


def _non_root(pod: Pod) -> Finding | None:
    if pod.has_own_users:
        return None
    reason, field = "runAsNonRoot != true", "securityContext.runAsNonRoot"
    for_pod = pod.context.get("runAsNonRoot")
    setters = _setters(for_pod is False, pod.named(lambda context: context.get("runAsNonRoot") is False))
    if setters:
        return Finding(reason, f"{setters} must not set {field}=false")
    silent = pod.named(lambda context: context.get("runAsNonRoot") is None) if not for_pod else []
    return Finding(reason, f"pod or {_the('container', silent)} must set {field}=true") if silent else None


def _root(pod: Pod) -> Finding | None:
    if pod.has_own_users:
        return None
    setters = _setters(pod.context.get("runAsUser") == 0, pod.named(lambda context: context.get("runAsUser") == 0))
    return Finding("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _seccomp_restricted(pod: Pod) -> Finding | None:
    if pod.is_windows:
        return None
    found = _seccomp_baseline(pod)
    if found is not None:
        return found
    silent = pod.named(lambda context: not _seccomp(context)) if not _seccomp(pod.context) else []
    message = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Finding("seccompProfile", f"pod or {_the('container', silent)} {message}") if silent else None


_ALWAYS: tuple[Rule, ...] = (_app_armor, _host_namespaces, _host_ports, _probe_hosts, _privileged, _selinux)
_LAST: tuple[Rule, ...] = (_sysctls, _host_process)
_RULES: Mapping[str, Sequence[Rule]] = {
    "privileged": (),
    "baseline": (
        _app_armor,
        _capabilities_baseline,
        _host_namespaces,
        _host_paths,
        _host_ports,
        _probe_hosts,
        _privileged,
        _proc_mount_baseline,
        _selinux,
        _seccomp_baseline,
        *_LAST,
    ),
    "restricted": (
        *_ALWAYS,
        *_LAST,
        _escalation,
        _capabilities_restricted,
        _proc_mount,
        _restricted_volumes,
        _non_root,
        _root,
        _seccomp_restricted,
    ),
}
