"""What jobs get and which are refused, rule by rule, in the exact words."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.admission.jobs import mutate, validate
from kilauea.admission.review import Settings
from support.admitted import VIEW, Data, completed, denial, job, patch_of, queue, review_of, task, view_of

EVENTS = (
    " valid events are [* JobUpdated PodEvicted PodFailed PodPending TaskCompleted TaskFailed Unknown], valid actions"
    " are [AbortJob CompleteJob RestartJob RestartPartition RestartPod RestartTask ResumeJob TerminateJob];"
)
TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
BOTH_TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}
QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
CIRCLE = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);"


def refusal(made: Data, **view: Any) -> str:
    """Why a new job is refused, once it is completed."""
    return denial(validate, review_of(completed(mutate, made)), **view)


# --- what a new job gets


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"tasks": [{"replicas": 2}, {"name": "b", "replicas": 3, "minAvailable": 1, "maxRetry": 5}]},
            [
                ("/spec/queue", "default"),
                ("/spec/schedulerName", "first"),
                ("/spec/maxRetry", 3),
                ("/spec/tasks/0/name", "default0"),
                ("/spec/tasks/0/minAvailable", 2),
                ("/spec/tasks/0/maxRetry", 3),
                ("/spec/minAvailable", 3),
            ],
        ),
        (None, [("/spec", {}), ("/spec/queue", "default"), ("/spec/schedulerName", "first"), ("/spec/maxRetry", 3)]),
    ],
)
def test_a_new_job_gets_what_it_lacks(spec: Any, expected: list[tuple[str, Any]]) -> None:
    made = {"metadata": {"name": "m"}} | ({} if spec is None else {"spec": spec})
    patch = patch_of(mutate, made, Settings(scheduler_names=("first", "second")))
    assert [(each["op"], each["path"], each["value"]) for each in patch] == [("add", *each) for each in expected]


FULL: dict[str, Any] = {"queue": "q", "schedulerName": "s", "maxRetry": 1, "minAvailable": 1}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"replicas": 4, "minAvailable": 0}, {}),
        ({"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}, {"minAvailable": 4}),
        (
            {"replicas": 6, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}},
            {"minAvailable": 4},
        ),
        (
            {"minAvailable": 1, "template": {"spec": {"hostNetwork": True}}},
            {"template/spec/dnsPolicy": "ClusterFirstWithHostNet"},
        ),
        ({"minAvailable": 1, "template": {"spec": {"hostNetwork": True, "dnsPolicy": "Default"}}}, {}),
        ({"minAvailable": 1, "template": {"spec": {"hostNetwork": False}}}, {}),
    ],
)
def test_a_task_gets_what_it_lacks(fields: Data, expected: Data) -> None:
    made = job({"name": "a", "maxRetry": 1, **fields}, **FULL)
    found = {each["path"].removeprefix("/spec/tasks/0/"): each["value"] for each in patch_of(mutate, made)}
    assert found == expected


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({}, {}),
        ({"env": []}, {"env": []}),
        ({"tensorflow": []}, {"tensorflow": [], "svc": []}),
        ({"pytorch": ["--port=1"], "svc": ["x"]}, {"pytorch": ["--port=1"], "svc": ["x"]}),
        ({"ray": []}, {"ray": [], "svc": []}),
        ({"mpi": []}, {"mpi": [], "svc": [], "ssh": []}),
    ],
)
def test_plugins_bring_those_that_they_rely_on(plugins: Data, expected: Data) -> None:
    assert completed(mutate, job(task(), plugins=plugins))["spec"]["plugins"] == expected


# --- which new jobs are refused


def parts(total: int, size: int, **fields: Any) -> Data:
    return {"partitionPolicy": {"totalPartitions": total, "partitionSize": size, **fields}}


def policy(**fields: Any) -> Data:
    return fields


def one_error(message: str) -> str:
    return f"1 error occurred:\n\t* {message}\n\n{EVENTS}"


LONG = "x" * 50
PARTS = "in task: a, job: m"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (job(), "No task specified in job spec"),
        (job(task(), plugins={"mpi": []}), "The specified mpi master task was not found"),
        (job(task(), plugins={"mpi": ["--master=b"]}), "The specified mpi master task was not found"),
        (job(task("master"), plugins={"mpi": []}), ""),
        (job(task(), plugins={"mpi": ["--port=22", "-master", "a"]}), ""),
        (job(task(), networkTopology=BOTH_TIERS), TIERS),
        (job(task(), networkTopology={"highestTierAllowed": 1, "highestTierName": ""}), ""),
        (job(task(minAvailable=2)), "'minAvailable' is greater than 'replicas' in task: a, job: m; job 'minAvailable'"
         " should not be greater than total replicas in tasks;"),
        (job(task(), task()), "duplicated task name a;"),
        (job(task("a" * 63)), f"create pod with name m-{'a' * 63}-0 validate failed [name part must be no more than 63"
         " bytes];"),
        (job(task(topologyPolicy="restricted")), "the cpu request isn't an integer in spec.task[0] container[0]."),
        (job(task(**parts(0, 1))), f"'TotalPartitions' must be greater than 0 {PARTS}'Replicas' are not equal to"
         f" TotalPartitions*PartitionSize {PARTS}"),
        (job(task(**parts(1, 0))), f"'PartitionSize' must be greater than 0 {PARTS}'Replicas' are not equal to"
         f" TotalPartitions*PartitionSize {PARTS}"),
        (job(task(replicas=3, **parts(2, 1))), f"'Replicas' are not equal to TotalPartitions*PartitionSize {PARTS}"),
        (job(task(replicas=4, minAvailable=1, **parts(2, 2, minPartitions=1))),
         f"'MinAvailable' is not equal to MinPartitions*PartitionSize {PARTS}"),
        (job(task(replicas=4, minAvailable=1, **parts(2, 2))), ""),
        (job(task(replicas=4, **parts(2, 2, networkTopology=BOTH_TIERS))), TIERS),
        (job(task(), name="-m"), f"create pod with name -m-a-0 validate failed [{QUALIFIED}];"
         f"create job with name -m validate failed [{QUALIFIED}]"),
        (job(task(), minAvailable=2), "job 'minAvailable' should not be greater than total replicas in tasks;"),
        (job(task(), policies=[policy(event="PodFailed", action="Dance")]),
         one_error('spec.policies: Invalid value: "Dance": invalid policy action').strip()),
        (job(task(policies=[policy(event="Bang", action="AbortJob")])),
         one_error('spec.tasks.policies: Invalid value: "Bang": invalid policy event').strip()),
        (job(task(), plugins={"zzz": [], "svc": [], "abc": []}),
         "unable to find job plugin: abc; unable to find job plugin: zzz;"),
        (job(task(), queue="ghost"), 'unable to find job queue: queue.scheduling.volcano.sh "ghost" not found;'),
        (job(task(), runningEstimate="1 week"),
         'spec.runningEstimate: Invalid value: "1 week": "1 week" is not a duration:'
         " use numbers with units such as 1h30m, 10s, 500ms"),
        (job(task(), queue="root"), "can not submit job to root queue;"),
        (job(task(dependsOn={"name": ["b"]})), CIRCLE),
        (job(task(dependsOn={"name": ["a"]})), CIRCLE),
        (job(task(dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})), CIRCLE),
        (job(task(dependsOn={"name": ["b"], "iteration": "any"}), task("b", dependsOn={})), ""),
        (job(task(minAvailable=3), queue="ghost", plugins={"x": []}),
         "'minAvailable' is greater than 'replicas' in task: a, job: m; job 'minAvailable' should not be greater than"
         ' total replicas in tasks; unable to find job plugin: x; unable to find job queue: queue.scheduling.volcano.sh'
         ' "ghost" not found;'),
    ],
)  # fmt: skip
def test_a_new_job_is_refused_with_all_that_is_wrong(made: Data, expected: str) -> None:
    assert refusal(made) == expected


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ([{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/b", "volumeClaim": {}}], ""),
        ([{"volumeClaimName": "x"}], "mountPath is required;"),
        (
            [{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaimName": "y"}],
            "duplicated mountPath: /a;",
        ),
        ([{"mountPath": "/a"}], "either VolumeClaim or VolumeClaimName must be specified;"),
        (
            [{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": {}}],
            "conflict: If you want to use an existing PVC, just specify VolumeClaimName.If you want to create a new"
            " PVC, you do not need to specify VolumeClaimName",
        ),
        (
            [{"mountPath": "/a", "volumeClaimName": "X"}],
            "invalid VolumeClaimName X : [a lowercase RFC 1123 subdomain must consist of lower case alphanumeric"
            " characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex"
            r" used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]",
        ),
    ],
)
def test_a_volume_has_a_path_of_its_own_and_one_claim(volumes: list[Data], expected: str) -> None:
    assert refusal(job(task(), volumes=volumes)) == expected


@pytest.mark.parametrize(
    ("others", "name", "expected"),
    [
        (
            [queue("q", state="Closing")],
            "q",
            "can only submit job to queue with state `Open`, queue `q` status is `Closing`;",
        ),
        (
            [queue("child", "default")],
            "default",
            "can only submit job to leaf queue, queue `default` has 1 child queues;",
        ),
        ([queue("child", "default")], "child", ""),
        ([queue("new", state="")], "new", ""),
        (
            [queue("p", state="Closed"), queue("c", "p")],
            "p",
            "can only submit job to queue with state `Open`, queue `p` status is `Closed`; can only submit job to leaf"
            " queue, queue `p` has 1 child queues;",
        ),
    ],
)
def test_a_job_goes_to_an_open_queue_without_children(others: list[Data], name: str, expected: str) -> None:
    assert refusal(job(task(), queue=name), view=view_of(*others)) == expected


def container(amounts: Data | None = None, limits: Data | None = None) -> Data:
    return {"name": "c", "image": "i", "resources": {"requests": amounts or {}, "limits": limits or {}}}


@pytest.mark.parametrize(
    ("containers", "sane"),
    [
        ([container({"cpu": "2"})], True),
        ([container({"cpu": 2})], True),
        ([container({"cpu": "2000m"})], True),
        ([container(None, {"cpu": "1"})], True),
        ([container({"memory": "1Gi"}, {"cpu": "1"})], False),
        ([container({"cpu": "1500m"})], False),
        ([container({"cpu": "0"})], False),
        ([container()], False),
    ],
)
def test_a_task_with_a_numa_policy_asks_for_whole_cpus(containers: list[Data], sane: bool) -> None:
    for part in ({"containers": containers}, {"containers": [container({"cpu": "1"})], "initContainers": containers}):
        for each in part.get("initContainers", []):
            each["name"] = "init"
        made = job(task(topologyPolicy="best-effort", template={"spec": part}))
        assert refusal(made) == ("" if sane else "the cpu request isn't an integer in spec.task[0] container[0].")
        assert refusal(job(task(topologyPolicy="none", template={"spec": part}))) == ""


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({"spec": {"containers": [{"name": "c"}]}}, "spec.task[1].template.spec.containers[0].image: Required value."),
        (
            {"spec": {"containers": [{"name": "c"}, {"image": "i"}]}},
            "spec.task[1].template.spec.containers[0].image: Required value. template.spec.containers[1].name: Required"
            " value.",
        ),
        ({}, "spec.task[1].template.spec.containers: Required value."),
        ({"spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]}}, ""),
    ],
)
def test_a_template_must_make_pods_that_kubernetes_takes(template: Data, expected: str) -> None:
    assert refusal(job(task(), task("b", template=template))) == expected


def test_a_name_that_the_server_makes_up_counts_with_its_length() -> None:
    made = job(task())
    made["metadata"] = {"generateName": "m-"}
    assert refusal(made) == ""
    made["metadata"] = {"generateName": "m" * 59}
    assert refusal(made).startswith(f"create pod with name {'m' * 59}xxxxx-a-0 validate failed [name part must be no")


# --- policies


@pytest.mark.parametrize(
    ("policies", "messages"),
    [
        ([policy(event="PodFailed", action="RestartJob"), policy(exitCode=3, action="AbortJob")], []),
        ([policy(events=["PodFailed", "PodFailed"], event="PodFailed", action="RestartPartition")], []),
        ([policy(event="PodFailed", action="AbortJob", timeout="soon")],
         ['spec.policies.timeout: Invalid value: "soon": "soon" is not a duration: '
          "use numbers with units such as 1h30m, 10s, 500ms"]),
        ([policy(event="*", exitCode=1)], ["must not specify event and exitCode simultaneously"]),
        ([policy(action="AbortJob")], ["either event and exitCode should be specified"]),
        ([policy(event="PodRunning", action="AbortJob")],
         ['spec.policies: Invalid value: "PodRunning": invalid policy event']),
        ([policy(event="PodFailed")], ['spec.policies: Invalid value: "": invalid policy action']),
        ([policy(event="PodFailed", action="SyncJob")],
         ['spec.policies: Invalid value: "SyncJob": invalid policy action']),
        ([policy(event="PodFailed", action="AbortJob"), policy(events=["Unknown", "PodFailed"], action="AbortJob")],
         ["duplicate event PodFailed  across different policy"]),
        ([policy(exitCode=0, action="AbortJob")], ["0 is not a valid error code"]),
        ([policy(exitCode=1, action="AbortJob"), policy(exitCode=1, action="AbortJob")], ["duplicate exitCode 1"]),
        ([policy(event="*", action="AbortJob"), policy(event="Unknown", action="AbortJob")],
         ["if there's * here, no other policy should be here"]),
        ([policy(events=["*", "Unknown"], action="AbortJob"), policy(exitCode=0)],
         ["0 is not a valid error code", "if there's * here, no other policy should be here"]),
        ([policy(event="Bang", action="AbortJob"), policy(exitCode=0)],
         ['spec.policies: Invalid value: "Bang": invalid policy event']),
    ],
)  # fmt: skip
def test_policies_are_looked_at_up_to_the_first_bad_one(policies: list[Data], messages: list[str]) -> None:
    lines = "".join(f"\t* {each}\n" for each in messages)
    head = "1 error" if len(messages) == 1 else f"{len(messages)} errors"
    assert refusal(job(task(), policies=policies)) == (f"{head} occurred:\n{lines}\n{EVENTS}" if messages else "")


def test_a_job_whose_gang_needs_tasks_that_wait_for_it_gets_a_warning() -> None:
    made = job(task("server"), task("worker", 3, dependsOn={"name": ["server"]}))
    assert validate(review_of(completed(mutate, made)), VIEW, Settings()) == [
        "spec.tasks: the job never starts: pods of worker are made once server is ready (dependsOn), which waits for "
        "the gang, and the gang needs them (minAvailable): set minAvailable of worker to 0 and spec.minAvailable to at "
        "most 1"
    ]
    elastic = job(task("server"), task("worker", 3, minAvailable=0, dependsOn={"name": ["server"]}))
    assert validate(review_of(completed(mutate, elastic)), VIEW, Settings()) == []


def test_arguments_of_plugins_that_are_unknown_or_wrong_get_a_warning() -> None:
    made = job(task(), plugins={"ssh": ["--no-root"], "svc": ["--inject-hosts-env=maybe"]})
    assert validate(review_of(completed(mutate, made)), VIEW, Settings()) == [
        "spec.plugins.ssh: unknown argument '--no-root' is ignored: the plugin takes --ssh-key-file-path, "
        "--ssh-private-key, --ssh-public-key, --ssh-port",
        "spec.plugins.svc: argument --inject-hosts-env is 'maybe': write true or false, such as "
        "--inject-hosts-env=true; the job waits in Pending with it: delete it and create it again",
    ]


def test_a_policy_that_does_nothing_gets_a_warning() -> None:
    made = job(
        task(policies=[policy(event="PodPending", action="AbortJob"), policy(exitCode=1, action="Dance")]),
        policies=[policy(event="PodPending", action="AbortJob", timeout="1m")],
    )
    assert validate(review_of(completed(mutate, made)), VIEW, Settings()) == [
        "spec.tasks[0].policies[0].timeout: the event PodPending never comes without it: set it, e.g. to 10m",
        'spec.tasks[0].policies[1].action: unknown action "Dance", so nothing is done: use one of AbortJob,'
        " CompleteJob, RestartJob, RestartPartition, RestartPod, RestartTask, ResumeJob, TerminateJob",
    ]
