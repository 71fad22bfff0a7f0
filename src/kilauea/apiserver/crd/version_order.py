"""The order of versions in discovery: the first of a group is the preferred one."""

from __future__ import annotations

import re

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {"": 0, "beta": 1, "alpha": 2}


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then other names."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (3, 0, 0, version)
    return (_STAGES[found[2] or ""], -int(found[1]), -int(found[3] or 0), version)
