"""Names of the protobuf messages of kinds."""

from __future__ import annotations

from kilauea.apiserver.schema import definition_name

_ANSWERED = frozenset(
    {("authentication.k8s.io/v1", "TokenRequest"), ("autoscaling/v1", "Scale"), ("policy/v1", "Eviction")}
)
"""Kinds of subresources, which are not resources themselves."""
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_META_KINDS = frozenset({"DeleteOptions", "PartialObjectMetadata", "Status"})


def message_name(api_version: str, kind: str) -> str:
    """Return the name of the protobuf message of a kind, which is that of its definition.

    Raises:
        LookupError: the kind is not built in.
    """
    group, _, version = api_version.rpartition("/")
    if kind in _META_KINDS:
        return f"{_META}{kind}"
    if (api_version, kind) in _ANSWERED:
        return f"io.k8s.api.{group.partition('.')[0]}.{version}.{kind}"
    return definition_name(group, version, kind)
