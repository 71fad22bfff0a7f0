"""JobFlow: its vertices must not form a cycle, and its jobs must be able to carry its name in a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kilauea.admission.graphs import first_unknown, has_circle
from kilauea.admission.reading import name_of, read
from kilauea.admission.review import Denied, Review, Settings
from kilauea.api.flow import JobFlow
from kilauea.api.ports import View

LONGEST_LABEL = 63
_NO_DAG = "jobflow Flow is not DAG"


def validate(review: Review, _view: View, _settings: Settings) -> list[str]:
    """Warnings about names that the flow has several times.

    Raises:
        Denied: the flow may not be as it is.
    """
    flow = read(review.obj, JobFlow)
    _check_graph(flow)
    if review.operation == "CREATE":
        namespace = review.namespace or flow.namespace
        for label, name in _labels(flow, name_of(flow, review.obj)):
            value = f"{namespace}.{name}"
            if len(value) > LONGEST_LABEL:
                why = f'their label {label} would be "{value}", longer than the {LONGEST_LABEL} characters of a label'
                raise Denied(f"jobs of this flow could not be made: {why}: shorten {name}")
    return list(_repeated(flow))


def _repeated(flow: JobFlow) -> Iterator[str]:
    """Names that stand in a flow several times: allowed, as in the original, and seldom meant."""
    vertices = flow.spec.flows or []
    for name, count in Counter(vertex.name for vertex in vertices).items():
        if count > 1:
            what = f"{name} is listed {count} times, but makes one job, as soon as one of the entries may start"
            yield f"spec.flows: {what}: for several jobs create a jobtemplate for each"


def _check_graph(flow: JobFlow) -> None:
    """No vertex waits for itself, or for one that is not there; of several entries of a name the last counts here."""
    vertices = flow.spec.flows or []
    edges = {each.name: (each.depends_on.targets if each.depends_on else None) or () for each in vertices}
    unknown = first_unknown(edges)
    if unknown is not None:
        raise Denied(f"{_NO_DAG}: vertex is not defined: {unknown}")
    if has_circle(edges):
        raise Denied(_NO_DAG)


def _labels(flow: JobFlow, name: str) -> Iterator[tuple[str, str]]:
    """The labels of a flow's jobs, and whose names follow the namespace in them."""
    yield "volcano.sh/createdByJobFlow", name
    for vertex in flow.spec.flows or ():
        yield "volcano.sh/createdByJobTemplate", vertex.name
