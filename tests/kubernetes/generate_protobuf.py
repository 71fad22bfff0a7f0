"""Read the numbers of the fields of the built-in kinds from the `.proto` files of the Kubernetes modules.

    python tests/kubernetes/generate_protobuf.py

Run by hand after `generate_schemas.py`. It writes `src/kilauea/apiserver/protobuf/messages.json.gz`: for each message
its fields by number, each as [name, type, label]. The type is a scalar's or the name of a message; the label is
`repeated`, `map` or empty; the name is empty where the fields of the message stand in the object itself.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from real_binaries import HERE

from kilauea.apiserver.schema import builtin_resources, definition_name, openapi_definitions

TARGET = HERE.parents[1] / "src/kilauea/apiserver/protobuf/messages.json.gz"
OTHERS = [("authentication", "v1", "TokenRequest"), ("autoscaling", "v1", "Scale"), ("policy", "v1", "Eviction")]
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
META_KINDS = ("DeleteOptions", "ListMeta", "PartialObjectMetadata", "Status")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_MESSAGE = re.compile(r"message (\w+) \{([^{}]*)\}")
_FIELD = re.compile(r"(optional|repeated|map<string, )\s*([\w.]+)>?\s+(\w+) = (\d+)")
_SCALARS = frozenset("string bytes bool int32 int64 uint32 uint64 double float".split())

Messages = dict[str, dict[str, list[str]]]


def module_folder(module: str) -> Path:
    """Where a Go module of the comparison lies on this machine."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    return Path(subprocess.run(command, cwd=HERE, capture_output=True, check=True, text=True).stdout.strip())


def messages_of(path: Path) -> Messages:
    """The messages of one file by their full names."""
    text = _COMMENT.sub("", path.read_text())
    package = re.search(r"^package ([\w.]+);", text, re.M)
    assert package is not None, path
    out: Messages = {}
    for name, body in _MESSAGE.findall(text):
        fields = {}
        for label, kind, field, number in _FIELD.findall(body):
            label = {"optional": "", "repeated": "repeated"}.get(label, "map")
            fields[number] = [field, _full(kind, package[1]), label]
        out[_dotted(f"{package[1]}.{name}")] = fields
    return out


def _full(kind: str, package: str) -> str:
    if kind in _SCALARS:
        return kind
    return _dotted(kind.removeprefix(".") if "." in kind else f"{package}.{kind}")


def _dotted(name: str) -> str:
    """`io.k8s.api...`, as OpenAPI has it, for `k8s.io.api...`; packages have underscores, modules have hyphens."""
    return re.sub(r"\b(apiextensions|kube)_", r"\1-", name.replace("k8s.io.", "io.k8s.", 1))


def name_fields(messages: Messages) -> None:
    """Give fields the names of OpenAPI, and none to those whose message stands in the object itself."""
    definitions: Any = openapi_definitions()
    for name, fields in messages.items():
        known = definitions.get(name, {}).get("properties")
        for field in fields.values() if known else ():
            hyphens = re.sub(r"[A-Z]", lambda upper: f"-{upper[0].lower()}", field[0])
            lower = field[0][:1].lower() + field[0][1:]
            field[0] = next((other for other in (f"${field[0]}", hyphens, lower) if other in known), field[0])
            if field[0] not in known and field[1] not in _SCALARS:
                field[0] = ""


def needed(messages: Messages, roots: list[str]) -> Messages:
    """The messages that some refer to."""
    found: Messages = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found and name in messages:
            found[name] = messages[name]
            waiting += [kind for _, kind, _ in messages[name].values()]
    return dict(sorted(found.items()))


def main() -> None:
    """Write the file."""
    messages: Messages = {}
    for module in ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator"):
        for path in sorted(module_folder(module).rglob("generated.proto")):
            messages |= messages_of(path)
    name_fields(messages)
    kinds = [(each["group"], each["version"], each["responseKind"]["kind"]) for each in builtin_resources()]
    roots = [definition_name(*kind) for kind in kinds] + [f"{META}{kind}" for kind in META_KINDS]
    roots += [f"io.k8s.api.{group}.{version}.{kind}" for group, version, kind in OTHERS]
    text = json.dumps(needed(messages, roots), separators=(",", ":")).encode()
    TARGET.write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
