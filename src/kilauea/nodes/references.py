"""Reasons why a pod does not start: missing ConfigMaps, Secrets, claims or accounts, and users that are not allowed.

The messages are those of kubelets. A volume that cannot be mounted prevents the creation of all containers
(`FailedMount`), a variable without its source, or one that leads to a path outside of a volume, only that of its own
container (`CreateContainerConfigError`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from kilauea.api.ports import Key, Obj, Resource
from kilauea.api.times import SECOND
from kilauea.nodes.environment import ConfigError, PodFacts, container_environment, expand
from kilauea.nodes.running_users import root_refusal
from kilauea.nodes.timestamps import moment_of

Lookup = Callable[[Resource, Key], Obj | None]
"""Returns an object; None if there is none."""
OF_CLUSTER = "kube-api-access-"
"""Prefix of the volumes that the API server adds for the token of the account, with a ConfigMap of the cluster."""
VIEW_LAG = 2 * SECOND
"""Microseconds after the bind of a pod within which a missing object may just not be visible yet."""
FIRST_LOOK = SECOND // 5
SHORTEST_RETRY, LONGEST_RETRY = SECOND, 10 * SECOND
"""Microseconds until a node checks again, increasing with the time that a pod waits."""
_SOURCES = (("configMap", CONFIG_MAPS), ("secret", SECRETS))
_VARIABLES = (("configMapKeyRef", CONFIG_MAPS), ("secretKeyRef", SECRETS))
_ALL_VARIABLES = (("configMapRef", CONFIG_MAPS), ("secretRef", SECRETS))
_NO_KEY = {
    CONFIG_MAPS: "configmap references non-existent config key: {}",
    SECRETS: "references non-existent secret key: {}",
}


class Unmet(NamedTuple):
    """Faults that keep a pod from starting.

    Attributes:
        volumes: a message for each volume that cannot be mounted.
        containers: a message for each container that lacks the source of a variable or cannot be created, by name.
    """

    volumes: Sequence[str]
    containers: Mapping[str, str]


def unmet_of(pod: Obj, lookup: Lookup) -> Unmet | None:
    """Return the faults that keep a pod from starting; None without any.

    Args:
        pod: the pod.
        lookup: returns ConfigMaps, Secrets, volume claims and service accounts.
    """
    spec, volumes, containers = pod["spec"], [], {}
    for volume in spec.get("volumes") or ():
        message = _about_volume(pod, volume, lookup)
        if message:
            volumes.append(message)
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        message = root_refusal(pod, container)
        if not message and (container.get("env") or container.get("envFrom")):
            message = next(_about_variables(pod, container, lookup), "") or _about_paths(pod, container, lookup)
        if message:
            containers[container["name"]] = message
    return Unmet(volumes, containers) if volumes or containers else None


def retry_of(pod: Obj, now: int) -> int:
    """Return the microseconds until a node checks again for missing objects of a pod."""
    since = moment_of((pod.get("status") or {}).get("startTime")) or now
    return min(max((now - since) // 4, SHORTEST_RETRY), LONGEST_RETRY)


def _about_volume(pod: Obj, volume: Obj, lookup: Lookup) -> str:
    """The message about a volume; empty if it can be mounted."""
    name, namespace = volume["name"], pod["metadata"].get("namespace", "")
    claim = _claim_name(pod, volume)
    if claim:
        fault = _about_claim(claim, namespace, lookup)
        message = f"unmounted volumes=[{name}], unattached volumes=[], failed to process volumes=[{name}]"
        return f"Unable to attach or mount volumes: {message}: {fault}" if fault else ""
    projected = volume.get("projected")
    sources = (volume,) if projected is None else projected.get("sources") or ()
    faults = [each for source in sources if (each := _about_source(pod, name, source, lookup))]
    if not faults:
        return ""
    fault = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    return f'MountVolume.SetUp failed for volume "{name}" : {fault}'


def _claim_name(pod: Obj, volume: Obj) -> str:
    """The name of the claim of a volume; empty if it has none."""
    if "persistentVolumeClaim" in volume:
        return str(volume["persistentVolumeClaim"]["claimName"])
    return f"{pod['metadata']['name']}-{volume['name']}" if "ephemeral" in volume else ""


def _about_claim(name: str, namespace: str, lookup: Lookup) -> str:
    claim = lookup(CLAIMS, Key(namespace, name))
    if claim is None:
        fault = f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
    elif not (claim.get("spec") or {}).get("volumeName") or (claim.get("status") or {}).get("phase") != "Bound":
        fault = "PVC is not bound"
    else:
        return ""
    return f"error processing PVC {namespace}/{name}: {fault}"


def _about_source(pod: Obj, volume: str, source: Obj, lookup: Lookup) -> str:
    """The message about a source of a volume; empty if it exists."""
    namespace = pod["metadata"].get("namespace", "")
    if "serviceAccountToken" in source:
        account = pod["spec"].get("serviceAccountName") or "default"
        there = lookup(SERVICE_ACCOUNTS, Key(namespace, account)) is not None
        return "" if there else f'failed to fetch token: serviceaccounts "{account}" not found'
    if volume.startswith(OF_CLUSTER):
        return ""
    for field, resource in _SOURCES:
        reference = source.get(field)
        if reference is None:
            continue
        found = lookup(resource, Key(namespace, _name_in(reference)))
        if found is None:
            return "" if reference.get("optional") else _not_found(resource, reference)
        entries = {**(found.get("data") or {}), **(found.get("binaryData") or {})}
        for item in reference.get("items") or ():
            if item["key"] not in entries and not reference.get("optional"):
                return _NO_KEY[resource].format(item["key"])
    return ""


def _about_variables(pod: Obj, container: Obj, lookup: Lookup) -> Iterator[str]:
    """Yield a message for each variable of a container without a source."""
    namespace = pod["metadata"].get("namespace", "")
    for source in container.get("envFrom") or ():
        for field, resource in _ALL_VARIABLES:
            reference = source.get(field)
            if reference is None or reference.get("optional"):
                continue
            if lookup(resource, Key(namespace, _name_in(reference))) is None:
                yield _not_found(resource, reference)
    for each in container.get("env") or ():
        for field, resource in _VARIABLES if each.get("valueFrom") else ():
            reference = each["valueFrom"].get(field)
            if reference is None or reference.get("optional"):
                continue
            found = lookup(resource, Key(namespace, _name_in(reference)))
            if found is None:
                yield _not_found(resource, reference)
            elif reference["key"] not in (found.get("data") or {}):
                yield f"couldn't find key {reference['key']} in {resource.kind} {namespace}/{_name_in(reference)}"


def _about_paths(pod: Obj, container: Obj, lookup: Lookup) -> str:
    """The message about the first mount whose `subPathExpr` leads outside its volume; empty if none does."""
    texts = [each["subPathExpr"] for each in container.get("volumeMounts") or () if each.get("subPathExpr")]
    if not texts:
        return ""
    try:
        variables = container_environment(container, PodFacts(pod), lookup, {})
    except ConfigError as error:
        return str(error)
    for path in (expand(each, variables) for each in texts):
        if path.startswith("/"):
            return f"error SubPath `{path}` must not be an absolute path"
        if ".." in path.split("/"):
            return f"unable to provision SubPath `{path}`: must not contain '..'"
    return ""


def _name_in(reference: Obj) -> str:
    return str(reference.get("secretName") or reference.get("name") or "")


def _not_found(resource: Resource, reference: Obj) -> str:
    return f'{resource.kind.lower()} "{_name_in(reference)}" not found'
