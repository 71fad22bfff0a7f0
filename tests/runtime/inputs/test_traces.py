"""Traces: what each format means, and what is said of lines that cannot be used."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kilauea.api.core import Node
from kilauea.api.scheduling import Queue
from kilauea.api.times import SECOND
from kilauea.history.records import VOLCANO_JOB, JobRecord, PodRecord
from kilauea.runtime.inputs.traces.reading import read_nodes, read_trace, trace_of
from kilauea.runtime.inputs.traces.tables import TOLD, TraceError
from kilauea.simulator.replay.trace import Trace

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
SWF = "; MaxNodes: 4\n; MaxProcs: 16\n1 0 5 60 6 -1 -1 6 -1 -1 1 3 1 -1 2 -1 -1 -1\n"


def trace(text: str) -> Trace:
    """The trace in a text."""
    return trace_of("jobs.csv", text.encode())


def test_a_table_says_what_each_job_requests() -> None:
    found = trace(
        "name,submit,duration,pods,min_available,cpu,memory,gpu,example.com/nic,queue,max_retry,preemptable,gpu_model\n"
        "Train_1,2026-01-01T00:00:10Z,1h30m,4,2,500m,2Gi,1,3,research,7,true,A100|H100\n"
    )
    [job] = found.jobs
    assert (job.name, job.submit, job.duration) == ("train-1", 0, 5400 * SECOND)
    assert (job.pods, job.min_available, job.queue, job.max_retry, job.preemptable) == (4, 2, "research", 7, True)
    requests = {"cpu": "500m", "memory": "2Gi", "nvidia.com/gpu": "1", "example.com/nic": "3"}
    assert dict(job.tasks[0].requests) == requests
    assert job.tasks[0].models == ("A100", "H100")
    assert found.findings == ()


def test_times_count_from_the_first_submission() -> None:
    found = trace("submit,duration\n500,1\n530,1\n")
    assert [job.submit for job in found.jobs] == [0, 30 * SECOND]


def test_a_gang_of_philly_takes_pods_of_eight_cards() -> None:
    found = trace("source_row,submit_s,timestamp,vc,num_gpus,duration_s\n9,45,x,6214e9,12,30\n")
    [job] = found.jobs
    assert [(task.replicas, dict(task.requests)["nvidia.com/gpu"]) for task in job.tasks] == [(1, "8"), (1, "4")]
    assert (job.queue, job.duration) == ("6214e9", 30 * SECOND)


def test_times_of_muri_are_milliseconds() -> None:
    found = trace("job_id,num_gpu,submit_time,iterations,duration\n0,8,0,1,5095000\n1,1,1534000,1,281000\n")
    assert [(job.submit, job.duration) for job in found.jobs] == [(0, 5095 * SECOND), (1534 * SECOND, 281 * SECOND)]


def test_a_pod_of_openb_runs_from_when_it_was_scheduled() -> None:
    found = trace(f"{OPENB}p,6000,12288,1,460,T4,BE,Running,100,400,150.0\n")
    [job] = found.jobs
    assert (job.duration, job.queue, job.preemptable, job.tasks[0].models) == (250 * SECOND, "offline", True, ("T4",))


def test_instances_of_recommendation_services_last_from_the_start_or_to_the_end_of_the_trace() -> None:
    found = trace(
        "instance_sn,app_name,cpu_request,gpu_request,memory_request,creation_time,deletion_time\n"
        "instance_0,app_0,12,1,120.5,,\n"
        "instance_1,app_1,8,0,16.0,475.0,500.0\n"
    )
    assert found.format == "dlrm"
    first, second = found.jobs
    assert (first.submit, first.duration, first.queue) == (0, 31 * 86_400 * SECOND, "app-0")
    assert first.tasks[0].requests == (("cpu", "12"), ("memory", "123392Mi"), ("nvidia.com/gpu", "1"))
    assert (second.submit, second.duration, second.preemptable) == (475 * SECOND, 25 * SECOND, False)
    assert "nvidia.com/gpu" not in dict(second.tasks[0].requests)


def test_processors_of_a_log_become_pods_of_the_size_of_a_node() -> None:
    found = trace(SWF)
    [job] = found.jobs
    assert [(task.replicas, dict(task.requests)["cpu"]) for task in job.tasks] == [(1, "4"), (1, "2")]
    assert (job.duration, job.queue) == (60 * SECOND, "q2")
    assert len([obj for obj in found.objects if isinstance(obj, Node)]) == 4


def test_an_export_of_a_history_gives_the_jobs_that_ended() -> None:
    resources = {"cpu": 500, "memory": 1 << 30, "nvidia.com/gpu": 2000}

    def pod(name: str, start: int, end: int | None, state: str = "Succeeded", job: str = "u") -> PodRecord:
        return PodRecord(
            uid=f"{name}-{start}",
            namespace="a",
            name=name,
            job=job,
            resources=resources,
            started=start * SECOND,
            ended=None if end is None else end * SECOND,
            state=state,
        )

    records = [
        JobRecord(uid="u", namespace="a", name="x", kind=VOLCANO_JOB, queue="q", submitted=5 * SECOND, minimum=2),
        pod("x-0", 15, 25, "Evicted"),
        pod("x-0", 30, 90),
        pod("x-1", 15, 95),
        JobRecord(uid="v", namespace="a", name="y", kind=VOLCANO_JOB, queue="q", submitted=6 * SECOND),
        pod("y-0", 20, None, "Running", "v"),
    ]
    lines = ['{"type":"history","version":1,"since":0}', *(msgspec.json.encode(each).decode() for each in records)]
    found = trace("\n".join([*lines, '{"type":"job","uid":"w","name']))
    [job] = found.jobs
    assert (job.name, job.namespace, job.queue, job.duration, job.min_available) == ("a-x", "a", "q", 80 * SECOND, 2)
    requests = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"}
    assert [(task.replicas, dict(task.requests)) for task in job.tasks] == [(2, requests)]
    assert found.left_out == 2
    assert any("jobs.csv:8: not JSON: the file was truncated" in finding for finding in found.findings)


JOB = '{"type":"job","uid":"a","namespace":"x","name":"good","queue":"q","submitted":1000000}'
POD = '{"type":"pod","uid":"p","job":"a","name":"good-0","resources":{"cpu":500},"started":2000000,"ended":9000000}'


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param("5", 'jobs.csv:4: "5" is not a record', id="no record"),
        pytest.param('{"type":"job","name":"y"}', "jobs.csv:4: job y: field uid is missing", id="a job without uid"),
        pytest.param(
            POD.replace('"a"', '"e"').replace('"p"', '"p2"'),
            "jobs.csv:4: pod good-0: its job is not in the file: export a history that starts before the job",
            id="a pod whose job was cut off",
        ),
        pytest.param(
            JOB.replace('"a"', '"b"').replace(',"submitted":1000000', "") + "\n" + POD.replace('"a"', '"b"'),
            "jobs.csv:4: job good: field submitted is missing",
            id="a job without its time",
        ),
        pytest.param(
            JOB.replace('"a"', '"b"') + "\n" + POD.replace('"a"', '"b"').replace("9000000", "1000000"),
            "jobs.csv:4: job good: a pod ends before it starts",
            id="a clock that went back",
        ),
        pytest.param(
            JOB.replace('"a"', '"b"') + "\n" + POD.replace('"a"', '"b"').replace("500", '"x"'),
            "write the fields as kilauea history export does",
            id="an amount that is not a number",
        ),
        pytest.param(JOB, "jobs.csv:4: job good is in line 2, too: this line is used", id="exports that overlap"),
    ],
)
def test_what_is_wrong_in_an_export_of_a_history_is_told(lines: str, words: str) -> None:
    found = trace("\n".join(['{"type":"history","version":1,"since":0}', JOB, POD, lines]))
    assert [job.name for job in found.jobs] == ["x-good"]
    assert any(words in finding for finding in found.findings), found.findings


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("30,-5", 'jobs.csv:3: duration: "-5" is negative', id="a negative duration"),
        pytest.param("x,5", 'jobs.csv:3: submit: "x" is not a time: use seconds, or RFC 3339', id="no time"),
        pytest.param("nan,5", 'jobs.csv:3: submit: "nan" is out of bounds', id="not a number"),
        pytest.param("1e30,5", 'jobs.csv:3: submit: "1e30" is out of bounds', id="a time beyond all bounds"),
        pytest.param(",5", "jobs.csv:3: submit: the cell is empty", id="an empty cell"),
        pytest.param("5,1parsec", "jobs.csv:3: duration:", id="an unknown unit"),
        pytest.param("5", "jobs.csv:3: 1 cells, but the header has 2 columns", id="a cell too few"),
        pytest.param("<b>,5", 'jobs.csv:3: submit: "<b>" is not a time', id="markup"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_left_out(line: str, words: str) -> None:
    found = trace(f"submit,duration\n0,60\n{line}\n90,60\n")
    assert [job.submit for job in found.jobs] == [0, 90 * SECOND]
    assert found.left_out == 1
    assert found.findings[0].startswith(words)


def test_only_the_first_faults_of_a_kind_are_told_one_by_one() -> None:
    found = trace("submit,duration\n0,60\n" + "5,-1\n" * 1000)
    assert len(found.findings) == TOLD + 1
    assert found.findings[-1] == f"jobs.csv: {1000 - TOLD} more lines: duration cannot be used"


@pytest.mark.parametrize(
    ("cpu", "words"),
    [
        pytest.param("1e18", 'jobs.csv:3: cpu: "1e18" in thousandths is larger than', id="too large to be counted"),
        pytest.param("-1", 'jobs.csv:3: cpu: "-1" is negative', id="negative"),
        pytest.param("four", 'jobs.csv:3: cpu: "four"', id="a word"),
    ],
)
def test_an_amount_that_cannot_be_used_is_named_once_with_its_column(cpu: str, words: str) -> None:
    found = trace(f"submit,duration,cpu\n0,60,1\n30,60,{cpu}\n")
    assert (len(found.jobs), found.left_out) == (1, 1)
    [finding] = found.findings
    assert finding.startswith(words)
    assert "use an amount such as 4, 500m or 16Gi" in finding
    assert "[cpu]" not in finding


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("submit,duration,queues\n0,1,a\n", "unknown; did you mean 'queue'?; it is ignored", id="a typo"),
        pytest.param(
            "submit,duration\n0,1\n90,1\n30,1\n", "jobs.csv:4: submitted 1m before line 3", id="a clock that went back"
        ),
        pytest.param(
            "submit,duration\n0,1\n60,1\n864000,1\n864060,1\n",
            "jobs.csv:3: no job is submitted for 9d23h between this line and line 4",
            id="a gap",
        ),
        pytest.param("name,submit,duration\na,0,1\na,1,1\n", 'jobs.csv:3: "a" is in line 2, too', id="a name twice"),
    ],
)
def test_what_is_strange_is_told(text: str, words: str) -> None:
    findings = trace(text).findings
    assert any(words in finding for finding in findings), findings


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "the file is empty", id="an empty file"),
        pytest.param(b"submit,duration\n", "no line describes a job", id="a header only"),
        pytest.param(
            b"submit,duratoin\n0,1\n", "no column duration; did you mean 'duratoin'?", id="a column is missing"
        ),
        pytest.param(b"submit,duration,submit\n0,1,2\n", 'column "submit" appears twice', id="a column twice"),
        pytest.param(
            b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,1\n",
            "it is unknown when they were submitted and how long they ran",
            id="pods without times",
        ),
        pytest.param(b"\xff\xfe\x00", "not UTF-8 text", id="no text"),
        pytest.param(b"submit,duration\n-5,-5\n", "no line describes a job", id="no line can be used"),
    ],
)
def test_a_trace_without_any_job_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(TraceError, match=r"jobs\.csv") as refused:
        trace_of("jobs.csv", data)
    assert words in str(refused.value)


def test_virtual_clusters_of_philly_become_nodes_and_queues(tmp_path: Path) -> None:
    file = tmp_path / "vc.csv"
    file.write_text("vc,nodes,gpus_per_node\nalpha,2,8\nbeta,1,8\n")
    objects, findings = read_nodes(str(file))
    assert [obj.name for obj in objects if isinstance(obj, Node)] == ["alpha-0", "alpha-1", "beta-0"]
    deserved = [obj.spec.deserved for obj in objects if isinstance(obj, Queue) and obj.spec]
    assert [each["nvidia.com/gpu"] for each in deserved if each] == ["16", "8"]
    assert findings == ()


def test_nodes_of_spot_instances_have_memory_by_their_cores(tmp_path: Path) -> None:
    file = tmp_path / "spot.csv"
    file.write_text("gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,4,192,0\n,0,8,1\n")
    objects, findings = read_nodes(str(file))
    nodes = [obj for obj in objects if isinstance(obj, Node)]
    assert [obj.name for obj in nodes] == ["node-0", "node-1"]
    assert nodes[0].status is not None
    assert nodes[0].status.allocatable == {"pods": "110", "cpu": "192", "memory": "1536Gi", "nvidia.com/gpu": "4"}
    assert "8Gi for each core" in findings[0]


@pytest.mark.slow
def test_the_shared_traces_are_read_as_a_whole(shared: Path) -> None:
    counts = {
        "openb_pods_default": 8152,
        "philly_jobs_2017-10": 47192,
        "muri_400_jobs": 400,
        "dlrm_2025_instances": 16176,
    }
    for name, count in counts.items():
        found = read_trace(str(shared / "data" / f"{name}.csv.gz"))
        assert len(found.jobs) + found.left_out == count
        assert found.left_out == 0, found.findings
