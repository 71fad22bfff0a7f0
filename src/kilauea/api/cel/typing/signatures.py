"""Signatures of the functions and operators of CEL.

One line for each name: overloads are separated by `|`, a target precedes a dot, and capital letters are type
parameters.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from kilauea.api.cel.authorization import PREFIX
from kilauea.api.cel.typing.types import OPTIONAL, Type


class Overload(NamedTuple):
    """One overload of a function; the target of a method is the first argument."""

    is_member: bool
    arguments: tuple[Type, ...]
    result: Type


OPERATOR_NAMES = {
    **{sign: f"_{sign}_" for sign in ("&&", "||", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")},
    "!_": "!_", "-_": "-_", "in": "@in", "?:": "_?_:_", "index": "_[_]", "?index": "_[?_]",
}  # fmt: skip
"""The names of operators in errors."""
_ORDERED = "bool int uint double string bytes timestamp duration"
_NUMBERS = "int uint double"
_BETWEEN = "|".join(
    [f"({kind},{kind}) bool" for kind in _ORDERED.split()]
    + [f"({one},{two}) bool" for one in _NUMBERS.split() for two in _NUMBERS.split() if one != two]
)


def _of_lists(result: str) -> str:
    """Return a method of lists for each ordered type; `*` in the result is replaced by the type."""
    return "|".join(f"list<{kind}>.() {result.replace('*', kind)}" for kind in _ORDERED.split())


_TIMES = "timestamp.() int | timestamp.(string) int"
_PARTS = f"{_TIMES} | duration.() int"
_WORD = "string.() string"
_ROUNDED = "(double) double"
_BITS = "(int,int) int | (uint,uint) uint"
_SHIFT = "(int,int) int | (uint,int) uint"
_MOST = "|".join(f"({','.join([kind] * count)}) {kind}" for kind in _NUMBERS.split() for count in (1, 2, 3, 4))
_MOST += "|" + "|".join(f"(list<{kind}>) {kind}" for kind in _NUMBERS.split())
_NARROW = "ResourceCheck.(string) ResourceCheck"
_FORMATS = (
    "byte date datetime dns1035Label dns1035LabelPrefix dns1123Label dns1123LabelPrefix dns1123Subdomain "
    "dns1123SubdomainPrefix labelValue qualifiedName uri uuid"
)
_LINES = {
    "!_": "(bool) bool",
    "-_": "(double) double | (int) int",
    "&&": "(bool,bool) bool",
    "||": "(bool,bool) bool",
    "?:": "(bool,A,A) A",
    "==": "(A,A) bool",
    "!=": "(A,A) bool",
    "<": _BETWEEN, "<=": _BETWEEN, ">": _BETWEEN, ">=": _BETWEEN,
    "in": "(A,list<A>) bool | (A,map<A,B>) bool",
    "+": "(bytes,bytes) bytes | (double,double) double | (duration,duration) duration"
         " | (duration,timestamp) timestamp | (timestamp,duration) timestamp | (int,int) int"
         " | (list<A>,list<A>) list<A> | (string,string) string | (uint,uint) uint",
    "-": "(double,double) double | (duration,duration) duration | (int,int) int | (timestamp,duration) timestamp"
         " | (timestamp,timestamp) duration | (uint,uint) uint",
    "*": "(double,double) double | (int,int) int | (uint,uint) uint",
    "/": "(double,double) double | (int,int) int | (uint,uint) uint",
    "%": "(int,int) int | (uint,uint) uint",
    "index": "(list<A>,int) A | (map<A,B>,A) B | (optional<list<A>>,int) optional<A>"
             " | (optional<map<A,B>>,A) optional<B>",
    "?index": "(list<A>,int) optional<A> | (optional<list<A>>,int) optional<A> | (map<A,B>,A) optional<B>"
              " | (optional<map<A,B>>,A) optional<B>",
    "@not_strictly_false": "(bool) bool",
    "cel.@mapInsert": "(map<A,B>,A,B) map<A,B> | (map<A,B>,map<A,B>) map<A,B>",
    "@sortByAssociatedKeys": "|".join(f"list<A>.(list<{kind}>) list<A>" for kind in _ORDERED.split()),
    # conversions
    "bool": "(bool) bool | (string) bool",
    "bytes": "(bytes) bytes | (string) bytes",
    "double": "(double) double | (int) double | (string) double | (uint) double",
    "duration": "(duration) duration | (int) duration | (string) duration",
    "dyn": "(A) dyn",
    "int": "(int) int | (double) int | (duration) int | (string) int | (timestamp) int | (uint) int",
    "string": "(string) string | (bool) string | (bytes) string | (double) string | (duration) string | (int) string"
              " | (timestamp) string | (uint) string | (IP) string | (CIDR) string",
    "timestamp": "(timestamp) timestamp | (int) timestamp | (string) timestamp",
    "type": "(A) type<A>",
    "uint": "(uint) uint | (double) uint | (int) uint | (string) uint",
    "size": "(bytes) int | bytes.() int | (list<A>) int | list<A>.() int | (map<A,B>) int | map<A,B>.() int"
            " | (string) int | string.() int",
    # texts
    "charAt": "string.(int) string",
    "contains": "string.(string) bool",
    "endsWith": "string.(string) bool",
    "find": "string.(string) string",
    "findAll": "string.(string) list<string> | string.(string,int) list<string>",
    "format": "string.(list<dyn>) string",
    "indexOf": "list<A>.(A) int | string.(string) int | string.(string,int) int",
    "join": "list<string>.() string | list<string>.(string) string",
    "lastIndexOf": "list<A>.(A) int | string.(string) int | string.(string,int) int",
    "lowerAscii": _WORD,
    "matches": "(string,string) bool | string.(string) bool",
    "replace": "string.(string,string) string | string.(string,string,int) string",
    "reverse": "list<A>.() list<A> | string.() string",
    "split": "string.(string) list<string> | string.(string,int) list<string>",
    "startsWith": "string.(string) bool",
    "strings.quote": "(string) string",
    "substring": "string.(int) string | string.(int,int) string",
    "trim": _WORD,
    "upperAscii": _WORD,
    "base64.decode": "(string) bytes",
    "base64.encode": "(bytes) string",
    # times
    "getDate": _TIMES, "getDayOfMonth": _TIMES, "getDayOfWeek": _TIMES, "getDayOfYear": _TIMES, "getFullYear": _TIMES,
    "getMonth": _TIMES, "getHours": _PARTS, "getMilliseconds": _PARTS, "getMinutes": _PARTS, "getSeconds": _PARTS,
    # lists
    "distinct": "list<A>.() list<A>",
    "first": "list<A>.() optional<A>",
    "flatten": "list<list<A>>.() list<A> | list<dyn>.(int) list<dyn>",
    "isSorted": _of_lists("bool"),
    "last": "list<A>.() optional<A>",
    "lists.range": "(int) list<int>",
    "max": _of_lists("*"),
    "min": _of_lists("*"),
    "sets.contains": "(list<A>,list<A>) bool",
    "sets.equivalent": "(list<A>,list<A>) bool",
    "sets.intersects": "(list<A>,list<A>) bool",
    "slice": "list<A>.(int,int) list<A>",
    "sort": _of_lists("list<*>"),
    "sum": "|".join(f"list<{kind}>.() {kind}" for kind in ("int", "uint", "double", "duration")),
    # optionals
    "hasValue": "optional<A>.() bool",
    "optional.none": "() optional<A>",
    "optional.of": "(A) optional<A>",
    "optional.ofNonZeroValue": "(A) optional<A>",
    "optional.unwrap": "(list<optional<A>>) list<A>",
    "or": "optional<A>.(optional<A>) optional<A>",
    "orValue": "optional<A>.(A) A",
    "unwrapOpt": "list<optional<A>>.() list<A>",
    "value": "optional<A>.() A",
    # numbers
    "math.abs": "(int) int | (uint) uint | (double) double",
    "math.bitAnd": _BITS, "math.bitOr": _BITS, "math.bitXor": _BITS,
    "math.bitNot": "(int) int | (uint) uint",
    "math.bitShiftLeft": _SHIFT, "math.bitShiftRight": _SHIFT,
    "math.ceil": _ROUNDED, "math.floor": _ROUNDED, "math.round": _ROUNDED, "math.trunc": _ROUNDED,
    "math.greatest": _MOST, "math.least": _MOST,
    "math.isFinite": "(double) bool", "math.isInf": "(double) bool", "math.isNaN": "(double) bool",
    "math.sign": "(int) int | (uint) uint | (double) double",
    "math.sqrt": "(double) double | (int) double | (uint) double",
    # types of Kubernetes
    "quantity": "(string) Quantity", "isQuantity": "(string) bool",
    "semver": "(string) Semver | (string,bool) Semver", "isSemver": "(string) bool | (string,bool) bool",
    "add": "Quantity.(Quantity) Quantity | Quantity.(int) Quantity",
    "sub": "Quantity.(Quantity) Quantity | Quantity.(int) Quantity",
    "asApproximateFloat": "Quantity.() double", "asInteger": "Quantity.() int", "isInteger": "Quantity.() bool",
    "sign": "Quantity.() int",
    "compareTo": "Quantity.(Quantity) int | Semver.(Semver) int",
    "isGreaterThan": "Quantity.(Quantity) bool | Semver.(Semver) bool",
    "isLessThan": "Quantity.(Quantity) bool | Semver.(Semver) bool",
    "major": "Semver.() int", "minor": "Semver.() int", "patch": "Semver.() int",
    "url": "(string) URL", "isURL": "(string) bool",
    "getEscapedPath": "URL.() string", "getHost": "URL.() string", "getHostname": "URL.() string",
    "getPort": "URL.() string", "getScheme": "URL.() string", "getQuery": "URL.() map<string,list<string>>",
    "ip": "(string) IP | CIDR.() IP", "isIP": "(string) bool", "ip.isCanonical": "(string) bool",
    "family": "IP.() int", "isGlobalUnicast": "IP.() bool", "isLinkLocalMulticast": "IP.() bool",
    "isLinkLocalUnicast": "IP.() bool", "isLoopback": "IP.() bool", "isUnspecified": "IP.() bool",
    "cidr": "(string) CIDR", "isCIDR": "(string) bool",
    "containsCIDR": "CIDR.(string) bool | CIDR.(CIDR) bool", "containsIP": "CIDR.(string) bool | CIDR.(IP) bool",
    "masked": "CIDR.() CIDR", "prefixLength": "CIDR.() int",
    "format.named": "(string) optional<NamedFormat>",
    "validate": "NamedFormat.(string) optional<list<string>>",
    **{f"format.{name}": "() NamedFormat" for name in _FORMATS.split()},
    # authorization
    "path": "Authorizer.(string) PathCheck", "group": "Authorizer.(string) GroupCheck",
    "serviceAccount": "Authorizer.(string,string) Authorizer", "resource": "GroupCheck.(string) ResourceCheck",
    "subresource": _NARROW, "namespace": _NARROW, "name": _NARROW, "fieldSelector": _NARROW, "labelSelector": _NARROW,
    "check": "PathCheck.(string) Decision | ResourceCheck.(string) Decision",
    "allowed": "Decision.() bool", "errored": "Decision.() bool", "error": "Decision.() string",
    "reason": "Decision.() string",
}  # fmt: skip
_OBJECTS = {
    "Quantity": "kubernetes.Quantity", "Semver": "kubernetes.Semver", "URL": "kubernetes.URL",
    "NamedFormat": "kubernetes.NamedFormat",
    **{name: PREFIX + name for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")},
}  # fmt: skip
_OPAQUE = {"IP": "net.IP", "CIDR": "net.CIDR", "optional": OPTIONAL}
_TOKEN = re.compile(r"[A-Za-z_]+|[<>,]")
_FORM = re.compile(r"(?P<target>[^.(]+)?(?P<dot>\.)?\((?P<arguments>[^)]*)\) (?P<result>.+)")


@lru_cache(maxsize=1)
def signatures() -> dict[str, tuple[Overload, ...]]:
    """Return all functions with their overloads."""
    return {name: tuple(_overload(each.strip()) for each in line.split("|")) for name, line in _LINES.items()}


def _overload(text: str) -> Overload:
    found = _FORM.fullmatch(text)
    assert found is not None, text
    target = _types(found["target"] or "")
    return Overload(bool(found["dot"]), (*target, *_types(found["arguments"])), named_type(found["result"]))


def named_type(text: str) -> Type:
    """Parse a type such as `map<string,int>`."""
    (found,) = _types(text)
    return found


def _types(text: str) -> list[Type]:
    tokens = _TOKEN.findall(text)[::-1]
    made = []
    while tokens:
        made.append(_parsed(tokens))
        if tokens:
            tokens.pop()
    return made


def _parsed(tokens: list[str]) -> Type:
    name, params = tokens.pop(), []
    if tokens and tokens[-1] == "<":
        while tokens.pop() != ">":
            params.append(_parsed(tokens))
    if name in _OBJECTS:
        return Type("object", _OBJECTS[name])
    if name in _OPAQUE:
        return Type("opaque", _OPAQUE[name], tuple(params))
    return Type("param", name) if len(name) == 1 else Type(name, params=tuple(params))
