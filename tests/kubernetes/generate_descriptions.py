"""Read the descriptions of the built-in kinds from the real API server into `src/kilauea/apiserver/schema/`.

    python tests/kubernetes/generate_descriptions.py

Run by hand after `generate_schemas.py`. It writes `descriptions.json.gz`: for each definition of `builtin.json.gz` the
description of each of its fields, and its own under the empty name. They are apart from the schemas because only
OpenAPI v3 shows them (`kubectl explain`).
"""

from __future__ import annotations

import gzip
import json
from typing import Any

from generate_schemas import PLURALS, TARGET, get, root
from real_server import AS_OURS, Server, real_server


def read_descriptions(server: Server, names: set[str]) -> dict[str, dict[str, str]]:
    """The descriptions of some definitions and their fields."""
    found = {}
    for each in PLURALS:
        for name, definition in get(server, f"/openapi/v3/{root(each)}")["components"]["schemas"].items():
            if name in names:
                found[name] = descriptions_of(definition)
    return dict(sorted(found.items()))


def descriptions_of(definition: dict[str, Any]) -> dict[str, str]:
    """The descriptions of a definition and its fields, those that have one."""
    parts = {"": definition, **definition.get("properties", {})}
    return {name: each["description"] for name, each in parts.items() if each.get("description")}


def main() -> None:
    """Write the file."""
    names = set(json.loads(gzip.decompress((TARGET / "builtin.json.gz").read_bytes()))["definitions"])
    with real_server((), AS_OURS) as server:
        found = read_descriptions(server, names)
    text = json.dumps(found, separators=(",", ":")).encode()
    (TARGET / "descriptions.json.gz").write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
    print(f"{len(found)} of {len(names)} definitions, {len(text):,} bytes")


if __name__ == "__main__":
    main()
