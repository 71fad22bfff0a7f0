"""Batch scripts: their options, what becomes of them, and the variables that scripts read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Server
from kilauea.api.kinds import VC_JOBS
from kilauea.cli.batch import batch, batch_job
from kilauea.cli.jobs.batch_request import output_place, redirection
from kilauea.cli.jobs.script import read_script
from kilauea.cli.vcctl.command import CommandError
from support.vcctl_runs import Console, Objects, Ran


@pytest.fixture
def submit(server: Server, console: Console, objects: Objects, namespace: str, tmp_path: Path) -> Any:
    """Submits a script, and returns what the command printed and the job."""

    def call(text: str, *words: str, name: str = "job.sh") -> tuple[Ran, dict[str, Any]]:
        file = tmp_path / name
        file.write_text(text)
        ran = console("kilauea", "batch", "--namespace", namespace, *words[:-1], str(file), *words[-1:])
        if ran.code:
            return ran, {}
        return ran, objects.one(VC_JOBS, namespace, ran.out.split()[-1])

    return call


def container(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return found


SCRIPT = """#!/bin/bash -l
#SBATCH --job-name=My_Train
#SBATCH -N 2 -n 2 -c 4   # a comment
#SBATCH --mem=8000 --time 1-00:00:00
#SBATCH --gres=gpu:a100:2
#KILAUEA -p blue

# another
echo "rank $SLURM_PROCID"
#SBATCH -n 64
"""


def test_lines_of_a_script_become_a_job(submit: Any) -> None:
    ran, job = submit(SCRIPT, "argument")
    assert ran.code == 0
    assert ran.out.startswith("Submitted batch job my-train-")
    assert "note: --gres gpu:a100:2: the type a100 has no effect: any GPU serves\n" in ran.err
    spec, made = job["spec"], container(job)
    assert (spec["queue"], spec["minAvailable"], spec["tasks"][0]["replicas"]) == ("blue", 2, 2)
    assert made["resources"]["requests"] == {"cpu": "4", "memory": "8000Mi", "nvidia.com/gpu": "2"}
    assert made["command"] == ["/bin/bash", "-l", "-c", SCRIPT, "job.sh", "argument"]
    assert spec["tasks"][0]["template"]["spec"]["activeDeadlineSeconds"] == 86_400
    env = {each["name"]: each.get("value") for each in made["env"]}
    known = {"SLURM_JOB_NAME": "My_Train", "SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "4", "SLURM_NNODES": "2"}
    assert env.items() >= known.items()
    assert env["SLURM_JOB_ID"] == job["metadata"]["name"]
    assert env["SLURM_SUBMIT_DIR"] == str(Path.cwd())
    assert "workingDir" not in made


def test_the_command_line_wins_over_the_script(submit: Any) -> None:
    ran, job = submit("#!/bin/sh\n#SBATCH -p blue -c 4\ntrue\n", "-p", "default", "--parsable", "x")
    assert ran.out == f"{job['metadata']['name']}\n"
    assert job["spec"]["queue"] == "default"
    assert container(job)["resources"]["requests"]["cpu"] == "4"


def test_options_without_effect_are_named_with_the_reason(submit: Any) -> None:
    text = "#!/bin/sh\n#SBATCH --mail-type=END --frob 3 -A physics\n#SBATCH -o out.txt\nsrun ./prog\n"
    ran, _ = submit(text, "x")
    assert ran.code == 0
    assert ran.err.splitlines()[:5] == [
        "note: job.sh:2: --frob is not known and has no effect",
        "note: --account has no effect: queues have no accounts: name a queue with -p",
        "note: --mail-type has no effect: the cluster sends no mail",
        "note: job.sh:4: srun does not exist in pods: each copy runs the whole script, so leave srun out",
        "note: --output and --error have no effect: pods do not run on this machine",
    ]


SHOWN = "output: kubectl logs -n default -l volcano.sh/job-name={name} --tail=-1"


def test_it_says_where_the_output_is(submit: Any, namespace: str) -> None:
    ran, job = submit("#!/bin/sh\n#SBATCH -o out.txt\ntrue\n", "x")
    name = job["metadata"]["name"]
    shown = f"kubectl logs -n {namespace} -l volcano.sh/job-name={name} --tail=-1"
    assert ran.err.splitlines()[-1] == f"{name}: output: {shown}"
    ran, job = submit("#!/bin/sh\n#SBATCH -n 2\ntrue\n", "x")
    name = job["metadata"]["name"]
    shown = f"kubectl logs -n {namespace} -l volcano.sh/job-name={name} --tail=-1 --prefix"
    assert ran.err.splitlines()[-1] == f"{name}: output: {shown}"


@pytest.mark.parametrize(
    ("output", "error", "place"),
    [
        pytest.param("", "", SHOWN, id="the log"),
        pytest.param("%x-%j.txt", "", "output in {folder}/My job-{name}.txt", id="one file"),
        pytest.param("a%%b", "/tmp/%3a-%N", "output in {folder}/a%b, errors in /tmp/%3a-%N", id="two files"),
        pytest.param("", "e", SHOWN + ", errors in {folder}/e", id="errors"),
        pytest.param("both", "both", "output in {folder}/both", id="the same file"),
    ],
)
def test_files_with_output_are_named_as_far_as_they_are_known(
    tmp_path: Path, output: str, error: str, place: str
) -> None:
    given: dict[str, Any] = {str(option.name): "" for option in batch.params}
    given |= {"output": output, "error": error, "cpus": 1, "limit": 0, "ntasks": None, "ntasks_per_node": None}
    given |= {"job_name": "My job", "image": "x", "chdir": str(tmp_path)}
    job = batch_job(read_script("job", b"#!/bin/sh\ntrue\n"), (), given, "default", here=True)
    expected = place.format(folder=tmp_path, name=job["metadata"]["name"])
    assert output_place(job, output, error, here=True) == expected


@pytest.mark.parametrize(
    ("options", "resources"),
    [
        ("-n 4 --gpus 8 --mem-per-cpu=1G -c 2", {"cpu": "2", "memory": "2048Mi", "nvidia.com/gpu": "2"}),
        ("-N 1 -n 4 --mem 16G --gres gpu:4", {"cpu": "1", "memory": "4096Mi", "nvidia.com/gpu": "1"}),
        ("-N 2 --ntasks-per-node 2 --gpus-per-node 4", {"cpu": "1", "nvidia.com/gpu": "2"}),
        ("--gpus-per-task=v100:3 --mem 0", {"cpu": "1", "nvidia.com/gpu": "3"}),
    ],
)
def test_amounts_of_nodes_and_jobs_are_divided_among_copies(
    submit: Any, options: str, resources: dict[str, str]
) -> None:
    _, job = submit(f"#!/bin/sh\n#SBATCH {options}\ntrue\n", "x")
    assert container(job)["resources"]["requests"] == resources


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo\n", "job.sh: the first line does not name an interpreter: begin the script with #!/bin/sh"),
        ("#!/usr/bin/perl\n", "interpreter /usr/bin/perl is not supported: use a shell or Python"),
        ("#!/bin/sh\r\ntrue\r\n", "has DOS line endings"),
        ("#!/bin/sh\n#SBATCH -t soon\n", "job.sh:2: Invalid value for '-t' / '--time': invalid time \"soon\""),
        ("#!/bin/sh\n#SBATCH --gpus 3 -n 2\n", "--gpus: 3 GPUs do not divide among 2 copies"),
        ("#!/bin/sh\n#SBATCH --mem=lots\n", '--mem: invalid amount "lots": use 4000 (megabytes), 4000M or 4G'),
        ("#!/bin/sh\n#SBATCH -J 'x\n", "job.sh:2: -J 'x cannot be read: No closing quotation"),
        ("#!/bin/sh\n#SBATCH train.py\n", "job.sh:2: train.py is not an option"),
        ("#!/bin/sh\n#SBATCH -a 1-3 -n 2\n", "--array and --ntasks 2: an element of an array is one copy"),
        ("#!/bin/sh\n#SBATCH -d later:x\n", 'invalid dependency "later:x"'),
        ("#!/bin/sh\n" + "# filler\n" * 20_000, "are too many, at most 100000"),
    ],
)
def test_a_script_that_cannot_be_submitted_says_why(submit: Any, text: str, said: str) -> None:
    ran, _ = submit(text, "x")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_python_runs_as_a_script_and_others_get_help(submit: Any) -> None:
    text = "#!/usr/bin/env python3\n#SBATCH -c 2\nprint(1)\n"
    _, job = submit(text, "x", name="job.py")
    assert container(job)["command"] == ["python3", "-c", text, "x"]


def test_a_missing_script_is_an_error_of_usage(console: Console) -> None:
    ran = console("kilauea", "batch", "no-such-script.sh")
    assert (ran.code, ran.err) == (2, "Error: no-such-script.sh: no such file or directory\n")


def test_output_files_have_the_patterns_of_slurm(tmp_path: Path) -> None:
    script = redirection("out-%j_%a-%x %%1.txt", "err-%4t.txt", "truncate") + "echo out; echo err >&2"
    variables = {"SLURM_JOB_ID": "j1", "SLURM_ARRAY_TASK_ID": "7", "SLURM_JOB_NAME": "my job", "SLURM_PROCID": "3"}
    subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=variables, check=True)
    assert (tmp_path / "out-j1_7-my job %1.txt").read_text() == "out\n"
    assert (tmp_path / "err-3.txt").read_text() == "err\n"


def test_each_element_of_an_array_has_an_output_file_of_its_own(tmp_path: Path) -> None:
    script = read_script("job", b"#!/bin/sh\necho element $SLURM_ARRAY_TASK_ID\n")
    given: dict[str, Any] = {str(option.name): "" for option in batch.params}
    given |= {"array": "1,5", "output": "out-%a.txt", "cpus": 1, "limit": 0, "ntasks": None, "ntasks_per_node": None}
    made = container(batch_job(script, (), {**given, "image": "x", "chdir": str(tmp_path)}, "default", here=True))
    for index in ("0", "1"):
        variables = {**os.environ, "VC_TASK_INDEX": index}
        subprocess.run(made["command"], cwd=made["workingDir"], env=variables, check=True)
    assert (tmp_path / "out-1.txt").read_text() == "element 1\n"
    assert (tmp_path / "out-5.txt").read_text() == "element 5\n"


def test_an_output_file_with_signs_of_the_shell_is_only_a_name(tmp_path: Path) -> None:
    subprocess.run(["/bin/sh", "-c", redirection('a"$(touch bad)`x`', "", "append") + "echo"], cwd=tmp_path, check=True)
    assert [file.name for file in tmp_path.iterdir()] == ['a"$(touch bad)`x`']


def test_a_script_that_is_not_text_is_refused() -> None:
    with pytest.raises(CommandError, match="byte 10 is not UTF-8"):
        read_script("job", b"#!/bin/sh\n\xff")


def test_copies_that_write_to_one_file_remove_nothing_of_each_other(tmp_path: Path) -> None:
    for name, kept in (("all.txt", "1\n2\n"), ("copy-%t.txt", "2\n")):
        for number in ("1", "2"):
            script = redirection(name, "", "truncate", copies=2) + f"echo {number}"
            subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, check=True, env={"SLURM_PROCID": "0"})
        assert (tmp_path / name.replace("%t", "0")).read_text() == kept
