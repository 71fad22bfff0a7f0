"""The rules by which a pod gets its node, once more: one pod and one node at a time, in plain loops over manifests.

Written from the specification of the filters and scores, not from the engine, and kept simple rather than fast, so that
the engine can be compared with it on clusters that no one thought of.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Data = dict[str, Any]
HOSTNAME, ZONE, GPU = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HARD = ("NoSchedule", "NoExecute")
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


# --- the cluster


@dataclass
class Placed:
    """A pod that holds its place on a node, is giving it up, or is promised one."""

    pod: Data
    node: str
    leaving: bool = False
    promised: bool = False


@dataclass
class World:
    """A cluster as manifests describe it."""

    nodes: dict[str, Data] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    services: list[Data] = field(default_factory=list)

    def take(self, manifest: Data) -> None:
        """Take in an object; pods only if they hold a place on a node."""
        kind, meta = manifest["kind"], manifest["metadata"]
        if kind == "Node":
            self.nodes[meta["name"]] = manifest
        elif kind == "Namespace":
            self.namespaces[meta["name"]] = meta.get("labels", {})
        elif kind == "Service":
            self.services.append(manifest)
        elif kind == "Pod" and manifest.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            on = manifest["spec"].get("nodeName")
            if on:
                self.placed.append(Placed(manifest, on, leaving="deletionTimestamp" in meta))

    def known(self) -> Iterable[Placed]:
        """Pods on nodes that exist."""
        return (p for p in self.placed if p.node in self.nodes)

    def on(self, node: str) -> list[Placed]:
        return [p for p in self.placed if p.node == node]

    def used(self, node: str) -> Counter[str]:
        """What pods take of a node now."""
        return taken(p for p in self.on(node) if not p.promised)

    def used_later(self, node: str) -> Counter[str]:
        """What pods take once those that leave are gone and promises are kept."""
        return taken(p for p in self.on(node) if not p.leaving)

    def offers(self, node: str) -> dict[str, int]:
        return {name: amount(name, q) for name, q in self.nodes[node]["status"].get("allocatable", {}).items()}

    def label(self, node: str, key: str) -> str | None:
        value: str | None = labels(self.nodes[node]).get(key)
        return value


def taken(by: Iterable[Placed]) -> Counter[str]:
    """The sum of what pods ask for."""
    total: Counter[str] = Counter()
    for placed in by:
        total.update(requests(placed.pod))
    return total


def labels(thing: Data) -> dict[str, str]:
    found: dict[str, str] = thing["metadata"].get("labels") or {}
    return found


def namespace(pod: Data) -> str:
    return str(pod["metadata"].get("namespace", "default"))


def amount(name: str, q: str | int) -> int:
    """Milli-units, but bytes of memory and pieces of pods."""
    scale = 1 if name in ("memory", "pods") else 1000
    text = str(q)
    if text[-2:] in BINARY:
        return int(text[:-2]) * BINARY[text[-2:]] * scale
    return int(text[:-1]) * scale // 1000 if text.endswith("m") else int(text) * scale


def requests(pod: Data) -> Counter[str]:
    total = Counter({"pods": 1})
    for container in pod["spec"]["containers"]:
        asked = container.get("resources", {}).get("requests", {})
        total.update({name: amount(name, q) for name, q in asked.items()})
    return total


def nonzero(pod: Data) -> tuple[int, int]:
    """Cpu and memory, where a container that asks for none counts a little."""
    cpu = memory = 0
    for container in pod["spec"]["containers"]:
        asked = container.get("resources", {}).get("requests", {})
        cpu += amount("cpu", asked.get("cpu", 0)) or 100
        memory += amount("memory", asked.get("memory", 0)) or 200 << 20
    return cpu, memory


# --- selectors


def holds(need: Data, value: str | None) -> bool:
    operator, values = need["operator"], need.get("values") or []
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    numbers = [v for v in (value, *values) if v is not None and v.lstrip("-").isdigit()]
    if value is None or len(values) != 1 or len(numbers) != 2:
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def selects(selector: Data | None, of: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    pairs = (selector.get("matchLabels") or {}).items()
    needs = selector.get("matchExpressions") or []
    return all(of.get(k) == v for k, v in pairs) and all(holds(n, of.get(n["key"])) for n in needs)


def with_keys(
    selector: Data | None, owner: Data, match: Iterable[str] | None, mismatch: Iterable[str] | None
) -> Data | None:
    """A selector with the owner's values of some labels worked in."""
    if selector is None:
        return None
    own = labels(owner)
    more = [{"key": k, "operator": "In", "values": [own[k]]} for k in match or () if k in own]
    more += [{"key": k, "operator": "NotIn", "values": [own[k]]} for k in mismatch or () if k in own]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or []), *more]}


def affinity(pod: Data, kind: str, strength: str) -> list[Data]:
    """Terms of a pod's affinity of a kind."""
    found = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(strength) or []
    return list(found)


# --- filters of one node


def term_matches_node(term: Data, node: Data) -> bool:
    needs, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not needs and not fields:
        return False
    named = all(len(f.get("values", [])) == 1 and holds(f, node["metadata"]["name"]) for f in fields)
    return named and all(holds(n, labels(node).get(n["key"])) for n in needs)


def wants_node(pod: Data, node: Data) -> bool:
    """Node selector and required node affinity."""
    if any(labels(node).get(k) != v for k, v in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return required is None or any(term_matches_node(t, node) for t in required.get("nodeSelectorTerms") or [])


def tolerates(toleration: Data, taint: Data) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    plain = toleration.get("operator") in (None, "", "Equal")
    return plain and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(pod: Data, node: Data, effects: Iterable[str], tolerations: list[Data] | None = None) -> int:
    """Number of taints with these effects that a pod does not tolerate."""
    given = pod["spec"].get("tolerations") or [] if tolerations is None else tolerations
    taints = [t for t in node.get("spec", {}).get("taints") or [] if t.get("effect") in effects]
    return sum(1 for taint in taints if not any(tolerates(t, taint) for t in given))


def host_ports(pod: Data) -> list[tuple[int, str, str]]:
    return [
        (port["hostPort"], port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0")
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or []
        if port.get("hostPort")
    ]


def ports_collide(one: tuple[int, str, str], other: tuple[int, str, str]) -> bool:
    return one[:2] == other[:2] and (one[2] == other[2] or "0.0.0.0" in (one[2], other[2]))


def lacks_port(pod: Data, others: Iterable[Placed]) -> bool:
    taken = [port for placed in others for port in host_ports(placed.pod)]
    return any(ports_collide(mine, theirs) for mine in host_ports(pod) for theirs in taken)


def fits_alone(world: World, pod: Data, name: str) -> bool:
    """All filters that look at one node only."""
    node = world.nodes[name]
    cordoned = node.get("spec", {}).get("unschedulable", False)
    if cordoned and not any(tolerates(t, CORDON) for t in pod["spec"].get("tolerations") or []):
        return False
    staying = [placed for placed in world.on(name) if not placed.leaving]
    if len(staying) >= world.offers(name).get("pods", 0) or lacks_port(pod, staying):
        return False
    return wants_node(pod, node) and untolerated(pod, node, HARD) == 0


# --- pod affinity


def term_means(world: World, term: Data, owner: Data, other: Data, *, owner_runs: bool = False) -> bool:
    """Whether a term of one pod speaks of another.

    The namespaces that a newcomer's selector finds are those that exist; for a pod that runs a missing namespace is one
    without labels.
    """
    of, selector = namespace(other), term.get("namespaceSelector")
    listed = term.get("namespaces")
    meant = of in listed if listed else (selector is None and of == namespace(owner))
    if selector is not None and (owner_runs or of in world.namespaces):
        meant = meant or selects(selector, world.namespaces.get(of, {}))
    wanted = with_keys(term.get("labelSelector"), owner, term.get("matchLabelKeys"), term.get("mismatchLabelKeys"))
    return meant and selects(wanted, labels(other))


def attracted(world: World, pod: Data, name: str) -> bool:
    terms = affinity(pod, "podAffinity", REQUIRED)
    found: Counter[tuple[str, str]] = Counter()
    for placed in world.known():
        if all(term_means(world, t, pod, placed.pod) for t in terms):
            for term in terms:
                value = world.label(placed.node, term["topologyKey"])
                if value is not None:
                    found[term["topologyKey"], value] += 1
    here = [(t["topologyKey"], world.label(name, t["topologyKey"])) for t in terms]
    if any(value is None for _, value in here):
        return False
    if all(found[place] for place in here):  # type: ignore[index]
        return True
    return not found and all(term_means(world, t, pod, pod) for t in terms)


def same_domain(world: World, key: str, one: str, other: str) -> bool:
    return world.label(one, key) is not None and world.label(one, key) == world.label(other, key)


def repelled(world: World, pod: Data, name: str, *, now: bool = False) -> bool:
    """By its own anti-affinity, or by that of a pod that runs; by pods that leave only `now`."""
    for placed in world.known():
        if placed.leaving and not now:
            continue
        for term in affinity(pod, "podAntiAffinity", REQUIRED):
            if term_means(world, term, pod, placed.pod) and same_domain(world, term["topologyKey"], name, placed.node):
                return True
        for term in affinity(placed.pod, "podAntiAffinity", REQUIRED):
            if term_means(world, term, placed.pod, pod, owner_runs=True) and same_domain(
                world, term["topologyKey"], name, placed.node
            ):
                return True
    return False


# --- topology spread


def spread_selector(pod: Data, constraint: Data) -> Data | None:
    return with_keys(constraint.get("labelSelector"), pod, constraint.get("matchLabelKeys"), ())


def is_empty(selector: Data | None) -> bool:
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def matching_on(world: World, pod: Data, selector: Data | None, name: str) -> int:
    """Pods of the namespace on a node that a constraint counts; an empty selector counts none."""
    if is_empty(selector):
        return 0
    return sum(
        1
        for placed in world.on(name)
        if not placed.leaving and namespace(placed.pod) == namespace(pod) and selects(selector, labels(placed.pod))
    )


def counted_nodes(world: World, pod: Data, constraint: Data, keys: list[str]) -> list[str]:
    out = []
    for name, node in world.nodes.items():
        if any(world.label(name, key) is None for key in keys):
            continue
        if constraint.get("nodeAffinityPolicy") != "Ignore" and not wants_node(pod, node):
            continue
        if constraint.get("nodeTaintsPolicy") == "Honor" and untolerated(pod, node, HARD):
            continue
        out.append(name)
    return out


def constraints(pod: Data, *, soft: bool) -> list[Data]:
    declared = pod["spec"].get("topologySpreadConstraints") or []
    return [c for c in declared if (c.get("whenUnsatisfiable") == "ScheduleAnyway") is soft]


def spread_allows(world: World, pod: Data, name: str) -> bool:
    hard = constraints(pod, soft=False)
    keys = [c["topologyKey"] for c in hard]
    for constraint in hard:
        key, selector = constraint["topologyKey"], spread_selector(pod, constraint)
        value = world.label(name, key)
        if value is None:
            return False
        found: dict[str, int] = {}
        for node in counted_nodes(world, pod, constraint, keys):
            domain = str(world.label(node, key))
            found[domain] = found.get(domain, 0) + matching_on(world, pod, selector, node)
        least = min(found.values(), default=10**9)
        if len(found) < (constraint.get("minDomains") or 1):
            least = 0
        mine = 1 if selects(selector, labels(pod)) else 0
        if found.get(value, 0) + mine - least > constraint.get("maxSkew", 1):
            return False
    return True


# --- which nodes


def has_room(world: World, pod: Data, name: str, used: Mapping[str, int]) -> bool:
    offers, asked = world.offers(name), requests(pod)
    return all(used[r] + asked[r] <= offers.get(r, 0) for r in {"cpu", "memory", *asked})


def candidates(world: World, pod: Data) -> tuple[list[str], bool]:
    """Nodes to choose from, and whether they have room now: nodes that are being freed only if no other will do."""
    fit = [
        name
        for name in world.nodes
        if fits_alone(world, pod, name)
        and (not affinity(pod, "podAffinity", REQUIRED) or attracted(world, pod, name))
        and not repelled(world, pod, name)
        and spread_allows(world, pod, name)
        and has_room(world, pod, name, world.used_later(name))
    ]
    now = [
        name
        for name in fit
        if has_room(world, pod, name, world.used(name))
        and not lacks_port(pod, world.on(name))
        and not repelled(world, pod, name, now=True)
    ]
    return (now, True) if now else (fit, False)


# --- scores


def room(world: World, pod: Data, name: str, *, free: bool) -> int:
    """Least allocated (free) or most allocated."""
    counted = [nonzero(p.pod) for p in world.on(name)] + [nonzero(pod)]
    parts = []
    for i, resource in enumerate(("cpu", "memory")):
        offered, asked = world.offers(name).get(resource, 0), sum(c[i] for c in counted)
        if offered:
            parts.append(max(offered - asked, 0) * 100 // offered if free else min(asked, offered) * 100 // offered)
    return sum(parts) // len(parts) if parts else 0


def balance(world: World, pod: Data, name: str) -> int:
    asked, used, offers = requests(pod), taken(world.on(name)), world.offers(name)
    if not (asked["cpu"] or asked["memory"] or asked[GPU]):
        return 0
    counted = [r for r in ("cpu", "memory", GPU) if offers.get(r) and (r != GPU or asked[GPU])]

    def evenness(extra: Mapping[str, int]) -> int:
        parts = [min(1.0, (used[r] + extra.get(r, 0)) / offers[r]) for r in counted]
        if len(parts) == 2:
            return int((1 - abs(parts[0] - parts[1]) / 2) * 100)
        mean = sum(parts) / max(len(parts), 1)
        return int((1 - math.sqrt(sum((p - mean) ** 2 for p in parts) / max(len(parts), 1))) * 100)

    return 50 + (50 + evenness(asked) - evenness({})) // 2


def preferred_nodes(world: World, pod: Data, names: list[str]) -> dict[str, int]:
    terms = affinity(pod, "nodeAffinity", PREFERRED)
    raw = {n: sum(t["weight"] for t in terms if term_matches_node(t["preference"], world.nodes[n])) for n in names}
    top = max(raw.values())
    return {n: 100 * value // top if top else 0 for n, value in raw.items()}


def soft_taints(world: World, pod: Data, names: list[str]) -> dict[str, int]:
    effect = "PreferNoSchedule"
    own = [t for t in pod["spec"].get("tolerations") or [] if t.get("effect") in (None, "", effect)]
    raw = {n: untolerated(pod, world.nodes[n], (effect,), own) for n in names}
    top = max(raw.values())
    return {n: 100 - 100 * value // top if top else 100 for n, value in raw.items()}


def preferred_neighbours(world: World, pod: Data, names: list[str]) -> dict[str, int]:
    bins: Counter[tuple[str, str]] = Counter()

    def wish(term: Data, weight: int, at: str) -> None:
        value = world.label(at, term["topologyKey"])
        if value is not None:
            bins[term["topologyKey"], value] += weight

    for placed in world.known():
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for preferred in affinity(pod, kind, PREFERRED):
                if term_means(world, preferred["podAffinityTerm"], pod, placed.pod):
                    wish(preferred["podAffinityTerm"], sign * preferred["weight"], placed.node)
            for preferred in affinity(placed.pod, kind, PREFERRED):
                if term_means(world, preferred["podAffinityTerm"], placed.pod, pod, owner_runs=True):
                    wish(preferred["podAffinityTerm"], sign * preferred["weight"], placed.node)
    raw = {n: sum(weight for (key, value), weight in bins.items() if world.label(n, key) == value) for n in names}
    low, high = min(raw.values()), max(raw.values())
    return {n: int(100 * (value - low) / (high - low)) if high > low else 0 for n, value in raw.items()}


def default_spread(world: World, pod: Data) -> list[Data]:
    """The constraints of a pod that declares none and that services select."""
    merged: dict[str, str] = {}
    for service in world.services:
        selector = service["spec"].get("selector") or {}
        if selector and namespace(service) == namespace(pod) and selects({"matchLabels": selector}, labels(pod)):
            merged |= selector
    if not merged:
        return []
    return [
        {"maxSkew": skew, "topologyKey": key, "labelSelector": {"matchLabels": merged}}
        for key, skew in ((HOSTNAME, 3), (ZONE, 5))
    ]


def soft_spread(world: World, pod: Data, names: list[str]) -> dict[str, int]:
    declared = bool(pod["spec"].get("topologySpreadConstraints"))
    wanted = constraints(pod, soft=True) if declared else default_spread(world, pod)
    if not wanted:
        return dict.fromkeys(names, 0)
    keys = [c["topologyKey"] for c in wanted]
    judged = [n for n in names if not declared or all(world.label(n, k) is not None for k in keys)]
    raw = dict.fromkeys(judged, 0.0)
    for constraint in wanted:
        key, selector = constraint["topologyKey"], spread_selector(pod, constraint)
        size = len(judged) if key == HOSTNAME else len({world.label(n, key) for n in judged})
        found: Counter[str | None] = Counter()
        for node in counted_nodes(world, pod, constraint, keys if declared else []):
            found[world.label(node, key)] += matching_on(world, pod, selector, node)
        for n in judged:
            if world.label(n, key) is not None:
                count = matching_on(world, pod, selector, n) if key == HOSTNAME else found[world.label(n, key)]
                raw[n] += count * math.log(size + 2) + constraint.get("maxSkew", 1) - 1
    rounded = {n: math.floor(value + 0.5) for n, value in raw.items()}
    if not rounded:
        return dict.fromkeys(names, 0)
    low, high = min(rounded.values()), max(rounded.values())
    scores = {n: 100 * (high + low - value) // high if high else 100 for n, value in rounded.items()}
    return {n: scores.get(n, 0) for n in names}


def binpack(world: World, pod: Data, name: str, weights: Mapping[str, int]) -> Fraction:
    asked, used, offers = requests(pod), world.used(name), world.offers(name)
    total, of = Fraction(0), 0
    for resource, weight in weights.items():
        if not asked[resource]:
            continue
        of += weight
        if weight and offers.get(resource):
            after = used[resource] + asked[resource]
            if after > offers[resource]:
                return Fraction(0)
            total += Fraction(weight * after, offers[resource])
    return total / of * 100 if of else Fraction(0)


def scores(world: World, pod: Data, names: list[str], weights: Mapping[str, int]) -> dict[str, Fraction]:
    """Sum of all scores of the candidates; weights by the arguments of nodeorder, and `binpack` and its resources."""
    over = {
        "nodeaffinity": preferred_nodes(world, pod, names),
        "tainttoleration": soft_taints(world, pod, names),
        "podaffinity": preferred_neighbours(world, pod, names),
        "podtopologyspread": soft_spread(world, pod, names),
    }
    packing = {r: weights.get(f"binpack.{r}", 0) for r in ("cpu", "memory", GPU)}
    out = {}
    for name in names:
        total = Fraction(sum(weights[kind] * found[name] for kind, found in over.items()))
        total += weights["leastrequested"] * room(world, pod, name, free=True)
        total += weights["mostrequested"] * room(world, pod, name, free=False)
        total += weights["balancedresource"] * balance(world, pod, name)
        out[name] = total + weights["binpack"] * binpack(world, pod, name, packing)
    return out
