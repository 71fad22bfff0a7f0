"""All known kinds, including those that scheduling does not use; any other kind is misspelled or foreign."""

from __future__ import annotations

from collections.abc import Iterable


def unknown(kinds: Iterable[str]) -> list[str]:
    """The unknown ones among some kinds (`group/Kind`, `Kind` for the core group)."""
    kinds = sorted(kinds)
    if not kinds:
        return []
    from kilauea.api.crds.kinds import KINDS  # noqa: PLC0415 - most plans read no other kinds, and begin sooner without
    from kilauea.apiserver.schema import builtin_resources  # noqa: PLC0415

    built_in = {(facts["group"], facts["responseKind"]["kind"]) for facts in builtin_resources()}
    custom = {(kind.resource.group, kind.resource.kind) for kind in KINDS}
    return [kind for kind in kinds if tuple(kind.rpartition("/")[::2]) not in built_in | custom]
