"""Warnings about deprecated labels of nodes, for fields of many kinds."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.apiserver.strategies.base import Object

_LABELS = {
    "beta.kubernetes.io/arch": ("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("v1.14", "kubernetes.io/os"),
    "beta.kubernetes.io/instance-type": ("v1.17", "node.kubernetes.io/instance-type"),
    "failure-domain.beta.kubernetes.io/region": ("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("v1.17", "topology.kubernetes.io/zone"),
}
"""Deprecated labels: since when, and the replacement."""


def old_label(path: str, key: str) -> Iterator[str]:
    """Warn about a field of a label that is deprecated; the field shows which label."""
    if key in _LABELS:
        since, name = _LABELS[key]
        yield f'{path}: deprecated since {since}; use "{name}" instead'


def old_key(path: str, key: str) -> Iterator[str]:
    """Warn about a label that is deprecated."""
    if key in _LABELS:
        since, name = _LABELS[key]
        yield f'{path}: {key} is deprecated since {since}; use "{name}" instead'


def old_keys(path: str, term: Object) -> Iterator[str]:
    """Warn about deprecated labels in a term that selects nodes."""
    for number, expression in enumerate(term.get("matchExpressions") or ()):
        yield from old_key(f"{path}.matchExpressions[{number}].key", expression.get("key", ""))
