"""Environment variables of a container, and the references to them in its command.

As in kubelets: variables of sources first, then those listed by the container, which may refer to earlier ones as
`$(NAME)`, and last those of services.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilauea.api.kinds import CONFIG_MAPS, SECRETS
from kilauea.api.ports import Key, Obj, Resource
from kilauea.api.quantity import QuantityError, parse_milli, parse_units
from kilauea.nodes.env_files import EnvFileError, value_in

CONFIG_ERROR = "CreateContainerConfigError"
_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DOMAIN = "cluster.local"
DEFAULTS = {"PATH": _PATH, "HOME": "/root"}
"""Default variables of containers."""

Lookup = Callable[[Resource, Key], Obj | None]
"""Returns an object; None if there is none."""


class ConfigError(Exception):
    """A container refers to a missing object; the message is that of kubelets."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """Facts about a pod that its containers can refer to.

    Attributes:
        pod: the pod in the API.
        host_ips: addresses of its node.
        pod_ips: its addresses.
        allocatable: allocatable resources of its node, used for limits that neither a container nor its pod has.
        volumes: folders of its volumes, by name.
    """

    pod: Obj
    host_ips: Sequence[str] = ()
    pod_ips: Sequence[str] = ()
    allocatable: Mapping[str, str] | None = None
    volumes: Mapping[str, Path] | None = None

    def field(self, path: str) -> str:
        """Return the value of a field by its path.

        Raises:
            ConfigError: there is no such field.
        """
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if keyed := _KEYED.fullmatch(path):
            return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
        simple = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata.get("namespace", ""),
            "metadata.uid": metadata.get("uid", ""),
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "status.hostIP": next(iter(self.host_ips), ""),
            "status.hostIPs": ",".join(self.host_ips),
            "status.podIP": next(iter(self.pod_ips), ""),
            "status.podIPs": ",".join(self.pod_ips),
        }
        if path in simple:
            return str(simple[path])
        if path in ("metadata.labels", "metadata.annotations"):
            pairs: Mapping[str, str] = metadata.get(path.partition(".")[2]) or {}
            return "\n".join(f"{name}={_quoted(value)}" for name, value in sorted(pairs.items()))
        raise ConfigError(f"unsupported fieldPath: {path}")

    def resource(self, reference: Obj, container: Obj) -> str:
        """Return the limit or request of a resource of a container, in the unit of the reference.

        Raises:
            ConfigError: the container or the resource does not exist, or the divisor is invalid.
        """
        name = reference.get("containerName") or container["name"]
        spec = self.pod["spec"]
        found = (*(spec.get("initContainers") or ()), *spec["containers"])
        about = next((each for each in found if each["name"] == name), None)
        if about is None:
            raise ConfigError(f"container {name} not found")
        kind, _, resource = reference["resource"].partition(".")
        resources = about.get("resources") or {}
        given = (resources.get(kind) or {}).get(resource)
        if given is None and kind == "limits":
            of_pod = (spec.get("resources") or {}).get("limits") or {}
            given = of_pod.get(resource) or (self.allocatable or {}).get(resource)
        try:
            return str(_divided(resource, given or "0", reference.get("divisor") or "1"))
        except QuantityError as error:
            raise ConfigError(str(error)) from error


def _quoted(value: str) -> str:
    """A value in Go's quoted form."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped.replace(chr(13), chr(92) + "r")}"'


def _divided(resource: str, given: str, divisor: str) -> int:
    parse = parse_milli if resource == "cpu" else parse_units
    unit = parse("1" if divisor == "0" else divisor)
    return -(-parse(given) // max(unit, 1))


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to variables; those to unknown ones stay, and `$$` becomes `$`."""

    def replaced(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return variables.get(found[2], found[0])

    return _REFERENCE.sub(replaced, text)


def container_environment(
    container: Obj, facts: PodFacts, lookup: Lookup, services: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a container.

    Args:
        container: the container in the pod's specification.
        facts: facts about its pod.
        lookup: returns ConfigMaps and Secrets.
        services: variables of services.

    Raises:
        ConfigError: a required object does not exist.
    """
    found: dict[str, str] = {}
    namespace = facts.pod["metadata"].get("namespace", "")
    for source in container.get("envFrom") or ():
        found.update(_all_of(source, namespace, lookup))
    for each in container.get("env") or ():
        if each.get("valueFrom") and not each.get("value"):
            value = _value_from(each["valueFrom"], container, facts, namespace, lookup)
            if value is None:
                continue
        else:
            value = expand(each.get("value") or "", {**services, **found})
        found[each["name"]] = value
    return {**services, **found}


def _all_of(source: Obj, namespace: str, lookup: Lookup) -> Iterator[tuple[str, str]]:
    """The variables of a whole ConfigMap or Secret."""
    prefix = source.get("prefix") or ""
    for field, resource in (("configMapRef", CONFIG_MAPS), ("secretRef", SECRETS)):
        if field in source:
            found = _object(resource, source[field], namespace, lookup)
            for name, value in sorted(_texts(found).items()):
                yield prefix + name, value


def _object(resource: Resource, reference: Obj, namespace: str, lookup: Lookup) -> Obj | None:
    name = reference.get("name") or ""
    found = lookup(resource, Key(namespace, name))
    if found is None and not reference.get("optional"):
        raise ConfigError(f'{resource.kind.lower()} "{name}" not found')
    return found


def _texts(found: Obj | None) -> dict[str, str]:
    """The entries of a ConfigMap or Secret as texts."""
    if found is None:
        return {}
    data = found.get("data") or {}
    if found.get("kind") == SECRETS.kind:
        return {name: _decoded(value) for name, value in data.items()}
    return dict(data)


def _decoded(value: str) -> str:
    return base64.b64decode(value).decode(errors="surrogateescape")


def _value_from(source: Obj, container: Obj, facts: PodFacts, namespace: str, lookup: Lookup) -> str | None:
    """The value of a source; None if it is optional and missing."""
    if "fieldRef" in source:
        return facts.field(source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return facts.resource(source["resourceFieldRef"], container)
    if "fileKeyRef" in source:
        return _of_file(source["fileKeyRef"], facts.volumes or {})
    for field, resource in (("configMapKeyRef", CONFIG_MAPS), ("secretKeyRef", SECRETS)):
        reference: Any = source.get(field)
        if reference is None:
            continue
        found = _object(resource, reference, namespace, lookup)
        value = _texts(found).get(reference["key"])
        if value is None and not reference.get("optional"):
            where = f"{resource.kind} {namespace}/{reference.get('name', '')}"
            raise ConfigError(f"couldn't find key {reference['key']} in {where}")
        return value
    raise ConfigError("this kind of valueFrom is not supported: use fieldRef, resourceFieldRef or a key reference")


def _of_file(reference: Obj, volumes: Mapping[str, Path]) -> str | None:
    """The value of a variable in a file of a volume; None if it is optional and missing."""
    volume, path, key = reference["volumeName"], reference["path"], reference["key"]
    if volume not in volumes:
        raise ConfigError(f'cannot find the volume "{volume}" referenced by FileKeyRef')
    try:
        value = value_in(volumes[volume], path, key)
    except EnvFileError as error:
        raise ConfigError(f"couldn't parse env file: {error}") from error
    if not value and not reference.get("optional"):
        raise ConfigError(f'environment variable key "{key}" not found in file "{path}" of volume "{volume}"')
    return value or None


def command_of(container: Obj, variables: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The command and the arguments of a container, with references replaced."""
    command = [expand(each, variables) for each in container.get("command") or ()]
    return command, [expand(each, variables) for each in container.get("args") or ()]


def hostname_of(pod: Obj, machine: str) -> str:
    """Return the host name that the containers of a pod see."""
    spec = pod["spec"]
    if spec.get("hostnameOverride"):
        return str(spec["hostnameOverride"])
    if spec.get("hostNetwork"):
        return machine
    name = str(spec.get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")
    return _with_domain(pod, name) if spec.get("setHostnameAsFQDN") else name


def full_hostname_of(pod: Obj, machine: str) -> str:
    """Return the host name that the containers of a pod see, with its domain if the pod has a subdomain."""
    name, spec = hostname_of(pod, machine), pod["spec"]
    plain = not (spec.get("hostnameOverride") or spec.get("hostNetwork") or spec.get("setHostnameAsFQDN"))
    return _with_domain(pod, name) if plain else name


def _with_domain(pod: Obj, name: str) -> str:
    subdomain = pod["spec"].get("subdomain")
    return f"{name}.{subdomain}.{pod['metadata'].get('namespace', '')}.svc.{_DOMAIN}" if subdomain else name


def cluster_ip(service: Obj) -> str:
    """The cluster's address of a service; empty if it has none."""
    address = (service.get("spec") or {}).get("clusterIP") or ""
    return "" if address == "None" else str(address)


def service_variables(services: Iterable[Obj], address: Callable[[Obj], str]) -> dict[str, str]:
    """The service variables of containers, in the format of Docker links.

    Args:
        services: the services for the containers of a pod.
        address: returns the address at which a service is reached; empty for none.
    """
    found: dict[str, str] = {}
    for service in services:
        host, ports = address(service), (service.get("spec") or {}).get("ports") or ()
        if host and ports:
            found.update(_about_service(service["metadata"]["name"], host, ports))
    return found


def _about_service(name: str, host: str, ports: Sequence[Obj]) -> Iterator[tuple[str, str]]:
    prefix = name.upper().replace("-", "_")
    shown = f"[{host}]" if ":" in host else host
    yield f"{prefix}_SERVICE_HOST", host
    yield f"{prefix}_SERVICE_PORT", str(ports[0]["port"])
    for port in ports:
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}", str(port["port"])
    for number, port in enumerate(ports):
        protocol = (port.get("protocol") or "TCP").lower()
        url = f"{protocol}://{shown}:{port['port']}"
        if number == 0:
            yield f"{prefix}_PORT", url
        link = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        yield link, url
        yield f"{link}_PROTO", protocol
        yield f"{link}_PORT", str(port["port"])
        yield f"{link}_ADDR", host
