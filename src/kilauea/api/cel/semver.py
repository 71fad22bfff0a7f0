"""Semantic versions in CEL, compared as https://semver.org specifies."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kilauea.api.cel.values import CelError

_FORM = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
LONGEST = 256


@dataclass(frozen=True, order=True)
class Semver:
    """A semantic version."""

    order: tuple[Any, ...]
    """The sort key: a release is after its pre-releases; build metadata is ignored."""
    major: int = field(compare=False, default=0)
    minor: int = field(compare=False, default=0)
    patch: int = field(compare=False, default=0)
    cel_type: ClassVar[str] = "kubernetes.Semver"


def semver(text: str, normalize: bool = False) -> Semver:
    """Parse a version; `normalize` allows `v1.0` and leading zeros."""
    found = _FORM.fullmatch(_normal(text) if normalize else text) if len(text) <= LONGEST else None
    if found is None:
        raise CelError(f'"{text}" is not a semantic version: use a form such as 1.2.3')
    parts = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in (found[4] or "").split(".") if part
    )
    major, minor, patch = int(found[1]), int(found[2]), int(found[3])
    return Semver((major, minor, patch, 0 if parts else 1, parts), major, minor, patch)


def is_semver(text: str, normalize: bool = False) -> bool:
    """Return True if a text is a semantic version."""
    if text.__class__ is not str:
        raise CelError("no such overload")
    return len(text) <= LONGEST and _FORM.fullmatch(_normal(text) if normalize else text) is not None


def _normal(text: str) -> str:
    """Return a version with three numbers, without leading zeros and without `v`."""
    text = text.removeprefix("v")
    end = min((at for at in (text.find("-"), text.find("+")) if at >= 0), default=len(text))
    numbers = [part.lstrip("0") or "0" if part.isdigit() else part for part in text[:end].split(".")]
    return ".".join(numbers + ["0"] * (3 - len(numbers))) + text[end:]
