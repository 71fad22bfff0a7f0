"""Number of nodes to add until a pod group starts: plans the cluster with one more node each time.

python examples/python/nodes_needed.py examples/first-steps/cluster.yaml default/second
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

import kilauea

MOST = 100


def node(number: int) -> dict[str, Any]:
    """A node to add."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"added-{number}"},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
    }


def nodes_needed(objects: list[Any], group: str) -> int | None:
    """Return how many nodes make a pod group start; None if even `MOST` do not."""
    for count in range(MOST + 1):
        explanation = kilauea.explain([*objects, *map(node, range(count))], group)
        if explanation.verdict != "waits":
            return count
    return None


def main() -> None:
    """Answer for the file and the pod group on the command line."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: nodes_needed.py FILE NAMESPACE/PODGROUP")
    file, group = sys.argv[1:]
    try:
        count = nodes_needed(list(yaml.safe_load_all(Path(file).read_text())), group)
    except kilauea.InvalidInput as error:
        raise SystemExit(str(error)) from error
    if count is None:
        raise SystemExit(f"{group} waits with {MOST} more nodes, too: `kilauea explain podgroup` tells for what")
    print(f"nodes of 4 cpu to add until {group} starts: {count}")


if __name__ == "__main__":
    main()
