"""Job arrays: their elements, and the variables that tell a copy which one it is."""

from __future__ import annotations

import subprocess

import pytest

from kilauea.cli.jobs.arrays import array_text, index_script, parse_array, split_limit
from kilauea.cli.jobs.commands import after, literal
from kilauea.cli.jobs.manifest import Request, job_for, submitted


@pytest.mark.parametrize(
    ("text", "elements", "short"),
    [
        ("0-3", (0, 1, 2, 3), "0-3"),
        ("7", (7,), "7"),
        ("1,3,7", (1, 3, 7), "1,3,7"),
        ("0-30:10", (0, 10, 20, 30), "0-30:10"),
        ("5,1-3,2", (1, 2, 3, 5), "1-3,5"),
        ("1,2", (1, 2), "1-2"),
        ("4-4", (4,), "4"),
    ],
)
def test_elements_are_read_and_written_as_slurm_does(text: str, elements: tuple[int, ...], short: str) -> None:
    assert parse_array(text) == elements
    assert array_text(elements) == short
    assert parse_array(short) == elements


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'invalid array ""'),
        ("a-b", 'invalid array "a-b": use 0-99, 0-30:10, 1,3,7 or 0-99%4'),
        ("3-1", '"3-1" has no elements'),
        ("0-9:0", '"0-9:0" has no elements'),
        ("0-999999999", "more than 10000 elements"),
        ("0-9999,10000", "more than 10000 elements"),
        ("٣", "invalid array"),
    ],
)
def test_an_array_that_cannot_be_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="--array") as error:
        parse_array(text)
    assert said in str(error.value)


def test_a_shell_finds_the_element_of_each_copy() -> None:
    elements = (1, 3, 7, 100)
    command = after(index_script(elements), ["sh", "-c", "echo $KILAUEA_ARRAY_INDEX $SLURM_ARRAY_TASK_ID $0", "name"])
    for index, element in enumerate(elements):
        done = subprocess.run(command, env={"VC_TASK_INDEX": str(index)}, capture_output=True, text=True, check=True)
        assert done.stdout == f"{element} {element} name\n"


def test_a_program_gets_its_arguments_as_they_are_after_shell_commands() -> None:
    command = after("x=1; ", ["printf", "%s|", "a b", "$x", "*"])
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "a b|$x|*|"


def test_a_limit_of_elements_at_a_time_is_an_annotation_of_the_job() -> None:
    assert split_limit("0-9%4") == ("0-9", 4)
    assert split_limit("0-9") == ("0-9", 0)
    job = job_for(Request(("true",), "default", elements=(0, 1, 2), at_once=2))
    assert job["metadata"]["annotations"]["kilauea.dev/parallelism"] == "2"
    assert submitted(job).endswith(": 3 elements of 1 cpu, 2 at a time")
    for limit in ("", "0", "x", "-1"):
        with pytest.raises(ValueError, match="--array: invalid limit"):
            split_limit(f"0-9%{limit}")


def test_an_array_is_a_job_whose_copies_start_and_fail_one_by_one() -> None:
    job = job_for(Request(("true",), "default", elements=(0, 1, 2)))
    (task,) = job["spec"]["tasks"]
    assert (job["spec"]["minAvailable"], task["replicas"], task["minAvailable"]) == (1, 3, 1)
    assert "policies" not in job["spec"]
    assert job["metadata"]["annotations"]["kilauea.dev/array"] == "0-2"
    env = {each["name"]: each for each in task["template"]["spec"]["containers"][0]["env"]}
    index = {"fieldRef": {"fieldPath": "metadata.labels['volcano.sh/task-index']"}}
    assert env["KILAUEA_ARRAY_INDEX"]["valueFrom"] == env["SLURM_ARRAY_TASK_ID"]["valueFrom"] == index


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("echo $(date) $HOME", "echo $(date) $HOME"),
        ("echo $(HOME)", "echo $$(HOME)"),
        ("kill $$", "kill $$$$"),
        ("echo $(OTHER)", "echo $(OTHER)"),
    ],
)
def test_words_are_protected_from_the_variables_of_kubernetes(text: str, kept: str) -> None:
    assert literal(text, {"HOME"}) == kept
