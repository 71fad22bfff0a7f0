"""Which job flows are refused, in the exact words."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.admission.jobflows import validate
from kilauea.admission.review import Settings
from kilauea.api.kinds import JOB_FLOWS
from support.admitted import VIEW, denial, review_of


def refusal(*flows: tuple[str, list[str]], name: str = "f", operation: Any = "CREATE") -> str:
    vertices = [{"name": each, "dependsOn": {"targets": targets}} for each, targets in flows]
    made = {"metadata": {"name": name, "namespace": "default"}, "spec": {"flows": vertices}}
    return denial(validate, review_of(made, operation, made, JOB_FLOWS))


@pytest.mark.parametrize(
    ("flows", "expected"),
    [
        ([], ""),
        ([("a", []), ("b", ["a"]), ("c", ["a", "b", "a"])], ""),
        ([("a", ["ghost"])], "jobflow Flow is not DAG: vertex is not defined: ghost"),
        ([("a", ["a"])], "jobflow Flow is not DAG"),
        ([("a", []), ("b", ["c"]), ("c", ["d"]), ("d", ["b"])], "jobflow Flow is not DAG"),
        ([("a", []), ("b", []), ("a", ["b"])], ""),
        ([("a", ["b"]), ("b", ["a"]), ("a", [])], ""),
        ([("a", []), ("b", ["a"]), ("a", ["b"])], "jobflow Flow is not DAG"),
    ],
)
def test_vertices_wait_for_each_other_without_a_circle(flows: list[tuple[str, list[str]]], expected: str) -> None:
    assert refusal(*flows) == expected
    assert refusal(*flows, operation="UPDATE") == expected


def test_a_name_that_stands_twice_in_a_flow_gets_a_warning() -> None:
    flows = [{"name": name} for name in "aba"]
    made = {"metadata": {"name": "f", "namespace": "default"}, "spec": {"flows": flows}}
    assert validate(review_of(made, "CREATE", None, JOB_FLOWS), VIEW, Settings()) == [
        "spec.flows: a is listed 2 times, but makes one job, as soon as one of the entries may start: for several "
        "jobs create a jobtemplate for each"
    ]


def test_a_flow_whose_jobs_could_not_be_labelled_is_refused_at_once() -> None:
    assert refusal(("a" * 55, []), name="f" * 55) == ""
    assert refusal(("a", []), name="f" * 56) == (
        f'jobs of this flow could not be made: their label volcano.sh/createdByJobFlow would be "default.{"f" * 56}",'
        f" longer than the 63 characters of a label: shorten {'f' * 56}"
    )
    assert "volcano.sh/createdByJobTemplate" in refusal(("a" * 56, []))
    assert refusal(("a", []), name="f" * 56, operation="UPDATE") == ""
