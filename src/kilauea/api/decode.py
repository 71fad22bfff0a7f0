"""Decoding of Kubernetes manifests in JSON or YAML, lists and streams of them, to typed objects; and JSON encoding.

Errors do not stop the decoding: an invalid object becomes an `ObjectError` that names the source, the object, the
field, the value and the fix, and the others load. No input raises an exception. Unsupported kinds are counted.

JSON is decoded directly to the typed object, skipping unused fields; only if that fails is the object decoded again, as
plain dicts, to describe the error (`kilauea.api.errors`). YAML is first parsed to plain dicts by
`kilauea.api.yamltext`. Objects that a Python program has loaded are handled like YAML (`decode_trees`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from kilauea.api import agents, core, dynamic, kubernetes_groups, metrics, scheduling, storage, topology
from kilauea.api.errors import CLUSTER_KINDS, ObjectError, Path, explain, path_text
from kilauea.api.kinds import KUBERNETES_GROUP, SCHEDULING
from kilauea.api.meta import Object
from kilauea.api.trees import NotData, plain
from kilauea.api.yamltext import TextError, TextFault, position, read_documents

__all__ = ["GROUPS", "KINDS", "Decoded", "ObjectError", "decode", "decode_trees", "encode_json"]

KINDS: dict[str, type[Object]] = {
    "Pod": core.Pod,
    "Node": core.Node,
    "Namespace": core.Namespace,
    "ResourceQuota": core.ResourceQuota,
    "Service": core.Service,
    "ReplicationController": core.ReplicationController,
    "ReplicaSet": core.Workload,
    "StatefulSet": core.Workload,
    "PodGroup": scheduling.PodGroup,
    KUBERNETES_GROUP: kubernetes_groups.KubernetesPodGroup,
    "Queue": scheduling.Queue,
    "PriorityClass": scheduling.PriorityClass,
    "PodDisruptionBudget": scheduling.PodDisruptionBudget,
    "HyperNode": topology.HyperNode,
    "PersistentVolume": storage.PersistentVolume,
    "PersistentVolumeClaim": storage.PersistentVolumeClaim,
    "StorageClass": storage.StorageClass,
    "CSINode": storage.CSINode,
    "CSIDriver": storage.CSIDriver,
    "CSIStorageCapacity": storage.CSIStorageCapacity,
    "VolumeAttachment": storage.VolumeAttachment,
    "DeviceClass": dynamic.DeviceClass,
    "ResourceSlice": dynamic.ResourceSlice,
    "DeviceTaintRule": dynamic.DeviceTaintRule,
    "ResourceClaim": dynamic.ResourceClaim,
    "ResourceClaimTemplate": dynamic.ResourceClaimTemplate,
    "NodeMetrics": metrics.NodeMetrics,
    "Numatopology": agents.Numatopology,
    "NodeShard": agents.NodeShard,
    "ConfigMap": core.ConfigMap,
}
"""The supported kinds, with their types."""

GROUPS: dict[str, str] = {kind: SCHEDULING[kind].group for kind in KINDS}
"""The required API group of each kind; any version is accepted, and a missing apiVersion."""

WORKLOADS = frozenset(
    {
        "apps/Deployment",
        "apps/StatefulSet",
        "batch.volcano.sh/CronJob",
        "batch.volcano.sh/Job",
        "batch/CronJob",
        "batch/Job",
    }
)
"""Kinds (`group/Kind`) that create pods: kept as written, because their pods are, too."""

MAX_LIST_DEPTH = 8
"""Maximum depth of nested lists."""

MAX_TEXT_ERRORS = 100
"""Maximum errors in the text of one source, after which the rest is not read."""

_T = TypeVar("_T")


MANIFESTS = frozenset({"Pod", "PodGroup", "Queue"})
"""Kinds whose original form is kept."""


class Manifest(NamedTuple):
    """An object as written by its author, including fields that its type omits.

    Attributes:
        kind: the kind.
        name: `namespace/name`, or the name.
        tree: returns the whole object as dicts and lists.
    """

    kind: str
    name: str
    tree: Callable[[], Any]


@dataclass
class Decoded:
    """The objects of a source.

    Attributes:
        objects: the valid objects, in the order of the source.
        workloads: objects that create pods, as written.
        manifests: pods, pod groups and queues that no server has stored yet.
        errors: the errors in invalid objects.
        skipped: the number of objects of unsupported kinds, by `group/Kind` (`Kind` for the core group).
    """

    objects: list[Object] = field(default_factory=list)
    workloads: list[dict[str, Any]] = field(default_factory=list)
    manifests: list[Manifest] = field(default_factory=list)
    errors: list[ObjectError] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


# --- one object, from JSON bytes or from a YAML tree


class _Header(msgspec.Struct):
    """The fields that identify the kind."""

    api_version: str | None = msgspec.field(default=None, name="apiVersion")
    kind: str | None = None


class _JsonItems(msgspec.Struct):
    """The undecoded items of a list."""

    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class _TreeItems(msgspec.Struct):
    """The items of a list of plain dicts and lists."""

    items: list[Any] | msgspec.UnsetType | None = msgspec.UNSET


@lru_cache(maxsize=64)
def _decoder(type_: type[_T]) -> msgspec.json.Decoder[_T]:
    """Return the decoder of a type; cached, as creating one costs more than using it."""
    return msgspec.json.Decoder(type_)


def _json_items(part: Any) -> list[Any] | None:
    """Return the `items` of a JSON object; None if it has none."""
    items = _decoder(_JsonItems).decode(part).items
    return None if items is msgspec.UNSET else items or []


def _tree_items(part: Any) -> list[Any] | None:
    """Return the `items` of a tree; None if it has none."""
    items = msgspec.convert(part, _TreeItems).items
    return None if items is msgspec.UNSET else items or []


class _Form(NamedTuple):
    """Access to a part of a document: JSON bytes (`Raw`), or dicts and lists."""

    convert: Callable[[Any, Any], Any]
    items: Callable[[Any], list[Any] | None]
    tree: Callable[[Any], Any]


_JSON = _Form(lambda part, type_: _decoder(type_).decode(part), _json_items, msgspec.json.decode)
_TREE = _Form(msgspec.convert, _tree_items, lambda part: part)


class _Place(NamedTuple):
    """The position of a part, and the kind implied by the enclosing list."""

    document: int
    path: Path = ()
    kind: str = ""
    api_version: str = ""
    depth: int = 0
    faults: tuple[TextFault, ...] = ()

    def inside(self, path: Path, kind: str, api_version: str) -> _Place:
        """Return the place of an element of the list at this place."""
        path = self.path + path
        faults = tuple(fault for fault in self.faults if fault.path[: len(path)] == path)
        return _Place(self.document, path, kind, api_version, self.depth + 1, faults)


_NULL_IS_EMPTY = frozenset({"labels", "annotations", "matchLabels", "nodeSelector"})


def without_nulls(tree: Any, parent: str = "") -> Any:
    """Return the tree without null fields, as Kubernetes reads it; in maps of strings, null is the empty string."""
    if isinstance(tree, list):
        return [without_nulls(value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if parent in _NULL_IS_EMPTY:
        return {key: "" if value is None else value for key, value in tree.items()}
    return {key: without_nulls(value, key) for key, value in tree.items() if value is not None}


def _identity(tree: object, kind: str) -> str:
    """Return `namespace/name` (or the name) of an invalid object; empty if it has none."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        return ""
    namespace = metadata.get("namespace") or "default"
    return name if kind in CLUSTER_KINDS else f"{namespace if isinstance(namespace, str) else 'default'}/{name}"


class _Metadata(msgspec.Struct):
    """The fields that identify an object of a kind."""

    name: str = ""
    namespace: str | None = None


class _Named(msgspec.Struct):
    """An object reduced to its name."""

    metadata: _Metadata | None = None


def _outline(form: _Form, part: Any) -> Any:
    """Return only the name of an object as a tree, if the whole cannot be converted; None if that is invalid, too."""
    try:
        return msgspec.to_builtins(form.convert(part, _Named))
    except _FAILURES:
        return None


class _Reader:
    """Collects the objects and errors of one source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.out = Decoded()
        self.text_errors = 0

    def report(self, place: _Place, kind: str, name: str, path: Path, message: str) -> None:
        """Report an error in a part; without a name of the object, the path starts at the document."""
        text = path_text(path if name else place.path + path)
        self.out.errors.append(ObjectError(self.source, place.document, kind, name, text, message))

    def report_at(self, index: int, line: int, column: int, message: str) -> None:
        """Report an error in the text of the source."""
        error = ObjectError(self.source, index, message=message, line=line, column=column)
        if not self.out.errors or str(self.out.errors[-1]) != str(error):
            self.out.errors.append(error)
            self.text_errors += 1

    def take(self, form: _Form, part: Any, place: _Place) -> None:
        """Read one part: an object, a list of objects, or an object of a skipped kind."""
        try:
            header: _Header = form.convert(part, _Header)
        except _FAILURES as error:
            self.reject(form, part, place, place.kind, error)
            return
        kind, api_version = header.kind or place.kind, header.api_version or place.api_version
        if kind.endswith("List") and self.take_list(form, part, place, kind, api_version):
            return
        if not kind:
            self.report(place, "", "", ("kind",), "missing: every object needs apiVersion, kind and metadata.name")
            self.reject_faults(form, part, place, "")
            return
        group = api_version.rpartition("/")[0]
        if f"{kind}.{group}" == KUBERNETES_GROUP:
            kind = KUBERNETES_GROUP
        if f"{group}/{kind}" in WORKLOADS and not place.faults:
            self.take_workload(form, part, place, kind)
        if kind not in KINDS or (api_version and group != GROUPS[kind]):
            self.out.skipped[f"{group}/{kind}" if group else kind] += 1
        elif place.faults:
            self.reject_faults(form, part, place, kind)
        else:
            self.take_object(form, part, place, kind, api_version)

    def take_object(self, form: _Form, part: Any, place: _Place, kind: str, api_version: str) -> None:
        """Read an object of a supported kind."""
        try:
            obj = self.typed(form, part, KINDS[kind])
        except _FAILURES as error:
            self.reject(form, part, place, kind, error)
            return
        if not obj.metadata.name:
            self.report(place, kind, "", ("metadata", "name"), "missing: every object needs a name")
            return
        obj.kind, obj.api_version = kind, api_version
        self.out.objects.append(obj)
        if kind in MANIFESTS and not obj.metadata.uid:
            name = obj.metadata.name if kind in CLUSTER_KINDS else obj.key
            self.out.manifests.append(Manifest(kind, name, partial(form.tree, part)))

    def take_workload(self, form: _Form, part: Any, place: _Place, kind: str) -> None:
        """Keep an object that creates pods, if it has a name."""
        tree = form.tree(part)
        if _identity(tree, kind):
            self.out.workloads.append({**tree, "kind": kind})

    @staticmethod
    def typed(form: _Form, part: Any, type_: type[Object]) -> Object:
        """Return the typed object; an invalid null counts as an absent field."""
        try:
            obj: Object = form.convert(part, type_)
        except msgspec.ValidationError as error:
            if "got `null`" not in str(error):
                raise
            obj = msgspec.convert(without_nulls(form.tree(part)), type_)
        return obj

    def take_list(self, form: _Form, part: Any, place: _Place, kind: str, api_version: str) -> bool:
        """Read a `List` or `PodList`; return False if the part is an object whose kind has such a name."""
        try:
            items = form.items(part)
        except _FAILURES as error:
            self.reject(form, part, place, kind, error)
            return True
        if items is None and kind != "List":
            return False
        if place.depth >= MAX_LIST_DEPTH:
            self.report(place, kind, "", (), f"lists in lists: use at most {MAX_LIST_DEPTH} levels")
            return True
        # The items of a `PodList` may omit their kind.
        item_kind = kind.removesuffix("List")
        self.take_elements(form, items or [], place, ("items",), item_kind, api_version if item_kind else "")
        return True

    def take_elements(
        self, form: _Form, items: list[Any], place: _Place, path: Path, kind: str = "", api_version: str = ""
    ) -> None:
        """Read the elements of a list, unless the list itself is invalid."""
        start = place.path + path
        outside = [
            fault for fault in place.faults if len(fault.path) <= len(start) or fault.path[: len(start)] != start
        ]
        for fault in outside:
            self.fault(place, "", "", fault)
        if not outside:
            for number, item in enumerate(items):
                self.take(form, item, place.inside((*path, number), kind, api_version))

    def reject(self, form: _Form, part: Any, place: _Place, kind: str, error: Exception) -> None:
        """Report a part that cannot be typed; faults in its text are the likely reason."""
        if place.faults:
            self.reject_faults(form, part, place, kind)
            return
        try:
            tree = form.tree(part)
        except _FAILURES:
            tree = _outline(form, part)
        if not kind and isinstance(tree, dict) and isinstance(tree.get("kind"), str):
            kind = tree["kind"]  # the apiVersion is wrong
        path, message = explain(error, tree)
        self.report(place, kind, _identity(tree, kind), path, message)

    def reject_faults(self, form: _Form, part: Any, place: _Place, kind: str) -> None:
        """Report an object with faults in its text."""
        name = _identity(form.tree(part), kind) if place.faults else ""
        for fault in place.faults:
            self.fault(place, kind, name, fault)

    def fault(self, place: _Place, kind: str, name: str, fault: TextFault) -> None:
        """Report one fault in the text of an object."""
        path = fault.path[len(place.path) :] if name else fault.path
        self.out.errors.append(
            ObjectError(
                self.source, place.document, kind, name, path_text(path), fault.message, fault.line, fault.column
            )
        )


# --- JSON text

_BLANK = re.compile(rb"[ \t\r\n]*")
_BETWEEN = re.compile(rb"(?:[ \t\r\n]+|---[ \t]*(?=\r?\n|\Z)|#[^\n]*)*")
_BYTE = re.compile(r" \(byte (\d+)\)")


def _is_json(data: bytes | memoryview) -> bool:
    """Return True if the bytes are one JSON value."""
    try:
        _decoder(msgspec.Raw).decode(data)
    except _FAILURES:
        return False
    return True


def _json_end(data: bytes, at: int) -> int:
    """Return the offset after the JSON value that begins at `at`.

    The end is taken from msgspec's error about trailing data, so a stream of values needs no other parser.

    Raises:
        msgspec.DecodeError, RecursionError: the value is invalid.
    """
    view = memoryview(data)[at:]
    try:
        _decoder(msgspec.Raw).decode(view)
    except msgspec.DecodeError as error:
        found = _BYTE.search(str(error))
        if found is None or "trailing characters" not in str(error):
            raise
        # The number is that of the first byte after the value, counted from 0 or from 1.
        for size in (int(found[1]) - 1, int(found[1])):
            if _is_json(view[:size]):
                return at + size
        raise
    return len(data)


def _json_error(data: bytes, at: int, error: Exception) -> tuple[int, str]:
    """Return offset and message for a value that is not JSON."""
    if isinstance(error, RecursionError):
        return at, "nested too deep: nothing in Kubernetes nests more than a few dozen levels"
    text = str(error)
    found = _BYTE.search(text)
    if found is None:
        return len(data), "not valid JSON: the text ends in the middle of a value"
    reason = _BYTE.sub("", text).removeprefix("JSON is malformed: ")
    return at + int(found[1]), f"not valid JSON: {reason}"


def _next_json(data: bytes, at: int) -> int:
    """Return the start of the next line that is a whole JSON object or a document separator, or the end."""
    while at := data.find(b"\n", at) + 1:
        if data.startswith(b"---", at):
            return at
        if data.startswith(b"{", at):
            end = data.find(b"\n", at)
            if _is_json(memoryview(data)[at : end if end >= 0 else None]):
                return at
    return len(data)


def _read_json(reader: _Reader, data: bytes, at: int, index: int) -> int:
    """Read the JSON value at an offset; return the offset at which to continue."""
    try:
        end = _json_end(data, at)
    except (msgspec.DecodeError, RecursionError) as error:
        where, message = _json_error(data, at, error)
        reader.report_at(index, *position(data, where), message)
        return _next_json(data, at)
    part = memoryview(data)[at:end]
    if data.startswith(b"[", at):
        reader.take_elements(_JSON, _decoder(list[msgspec.Raw]).decode(part), _Place(index), ())
    else:
        reader.take(_JSON, part, _Place(index))
    after = _BLANK.match(data, end)
    following = data[after.end() : after.end() + 3] if after else b""
    if following[:1] in (b"", b"{", b"[", b"#") or following == b"---":
        return end
    reader.report_at(index, *position(data, end), "something other than another object follows this one")
    return _next_json(data, end)


# --- YAML text


def _read_yaml(reader: _Reader, data: bytes, at: int, number: int) -> None:
    """Read a source from an offset as YAML."""
    for part in read_documents(data[at:], position(data, at)[0]):
        if isinstance(part, TextError):
            reader.report_at(number, *part)
            if reader.text_errors >= MAX_TEXT_ERRORS:
                return
        elif type(part.value) is list:
            reader.take_elements(_TREE, part.value, _Place(number, faults=part.faults), ())
        elif part.value is not None or part.faults:
            reader.take(_TREE, part.value, _Place(number, faults=part.faults))
        else:
            continue
        number += 1


# --- whole sources


def _utf8(data: bytes) -> bytes:
    """Return the text as UTF-8 without a byte order mark.

    Raises:
        UnicodeDecodeError: it is neither UTF-8 nor marked as UTF-16.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16").encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def decode(data: bytes | memoryview, source: str) -> Decoded:
    """Read all objects of a source: JSON or YAML, one object or many, lists and nested lists.

    Several JSON values may follow each other, with or without line ends or lines `---` between them. A source is JSON
    if its first character is `{` or `[`. No input raises an exception: errors are in `errors`.

    Args:
        data: the content of the source.
        source: its name, for messages.
    """
    reader = _Reader(source)
    try:
        text = _utf8(bytes(data))
    except UnicodeDecodeError as error:
        reader.report_at(0, 1, 1, f"not UTF-16 text, although it begins like it: {error.reason}")
        return reader.out
    at, index = 0, 0
    while reader.text_errors < MAX_TEXT_ERRORS:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if text[at : at + 1] not in (b"{", b"["):
            _read_yaml(reader, text, at, index)
            break
        at, index = _read_json(reader, text, at, index), index + 1
    return reader.out


def decode_trees(trees: Iterable[object], source: str) -> Decoded:
    """Read objects given as dicts, as returned by loaders of YAML and JSON.

    Like `decode`, it never raises an exception for invalid objects. Lists of objects are read, and None is skipped,
    because an empty YAML document is None.

    Args:
        trees: the objects, which are not changed.
        source: their name, for messages.
    """
    reader = _Reader(source)
    for number, tree in enumerate(trees):
        place = _Place(number)
        try:
            part = plain(tree)
        except NotData as error:
            kind, name = _label_of(tree)
            reader.report(place, kind, name, error.path, error.message)
        except RecursionError:
            reader.report(place, *_label_of(tree), (), "nested too deep: an object must not contain itself")
        else:
            if isinstance(part, list):
                reader.take_elements(_TREE, part, place, ())
            elif part is not None:
                reader.take(_TREE, part, place)
    return reader.out


def _label_of(tree: object) -> tuple[str, str]:
    """Return kind and `namespace/name` of an object, empty if missing."""
    kind = tree.get("kind") if isinstance(tree, dict) else None
    return (kind, _identity(tree, kind)) if isinstance(kind, str) else ("", "")


def encode_json(value: Any, *, indent: int = 0) -> bytes:
    """Encode wire types, dataclasses, dicts and lists as JSON with sorted keys, so that equal values give equal bytes.

    Args:
        value: the value to encode.
        indent: spaces per level; 0 for a single line.

    Raises:
        TypeError: the value contains something that JSON cannot represent.
    """
    text = msgspec.json.encode(value, order="sorted")
    return msgspec.json.format(text, indent=indent) if indent else text
