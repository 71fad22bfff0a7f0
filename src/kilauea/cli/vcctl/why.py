"""The reasons why a job waits and the change that would let it start, as in `kilauea explain`, one line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kilauea.client.access import Access
    from kilauea.engine.explain.group import Explanation

STARTS = "nothing blocks it: it starts in the next scheduling cycle"


async def why_it_waits(access: Access, key: str) -> list[tuple[str, str]]:
    """Labels and texts for a job (`namespace/name`); empty if the reason is unknown."""
    from kilauea.cli.remedy import remedy
    from kilauea.runtime.inputs.explaining import why_job

    why = await why_job(access, key)
    if why is None:
        return []
    if why.explanation is None:
        return [("Waits Because", why.refused)]
    lines, change = list(_causes(why.explanation)), remedy(why.explanation, why.objects)
    lines += [("Smallest Change", change)] if change else []
    if why.start is not None:
        from kilauea.cli.expected_output import expected_text
        from kilauea.cli.group_names import owners_of

        lines.append(("Expected Start", expected_text(why.start, why.now, owners_of(why.objects))))
    return lines


def _causes(explanation: Explanation) -> Iterator[tuple[str, str]]:
    from kilauea.engine.explain.formatting import numbers

    if explanation.verdict in ("starts", "runs", "ended"):
        yield "Waits Because", STARTS
        return
    for label, blocker in zip(("Waits Because", "And Because"), explanation.blockers, strict=False):
        figures = f" ({numbers(blocker)})" if blocker.resource else ""
        yield label, blocker.message if figures.strip(" ()") in blocker.message else f"{blocker.message}{figures}"
