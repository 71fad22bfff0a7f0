"""HyperNodes: they must have members, and the patterns of their members must be valid.

Patterns are those of the scheduler's own reader, so that what is admitted is what will be understood.
"""

from __future__ import annotations

from kilauea.admission.review import Denied, Review, Settings
from kilauea.admission.wording import all_of, invalid
from kilauea.api.patterns import pattern_of
from kilauea.api.ports import Obj, View

# Paths begin with the empty name of the object, which field errors write so.
_MEMBERS = "[].spec.members"


def validate(review: Review, view: View, settings: Settings) -> list[str]:
    """Return the errors in a HyperNode.

    Raises:
        Denied: with all that is wrong.
    """
    members = ((review.obj or {}).get("spec") or {}).get("members") or []
    faults = [fault for member in members if (fault := _pattern_fault(member))]
    if not members:
        faults = [f"{_MEMBERS}: Invalid value: null: member must have at least one member"]
    if faults:
        raise Denied(all_of(faults))
    return []


def _pattern_fault(member: Obj) -> str:
    pattern = ((member.get("selector") or {}).get("regexMatch") or {}).get("pattern")
    if not pattern:
        return ""
    try:
        pattern_of(pattern)
    except ValueError as error:
        why = f"member regexMatch pattern is invalid: {error}"
        return invalid(f"{_MEMBERS}.selector.regexMatch.pattern", pattern, why)
    return ""
