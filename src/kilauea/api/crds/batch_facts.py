"""Facts of `batch.volcano.sh`: Job and CronJob."""

from __future__ import annotations

from kilauea.api import batch
from kilauea.api.crds.facts import (
    ATOMIC,
    COUNT,
    COUNTS,
    INT32,
    INT64,
    LABEL,
    NAME,
    POSITIVE,
    SHORT,
    SUBDOMAIN,
    TIME,
    Facts,
    each_one_of,
    fact,
    kubernetes,
    one_of,
)

EVENTS = (
    "* PodPending PodRunning PodFailed PodEvicted Unknown TaskCompleted OutOfSync CommandIssued JobUpdated TaskFailed"
).split()
PHASES = (
    "Pending Aborting Aborted Running Restarting Completing Completed Terminating Terminated Failed".split()
)  # fmt: skip
_PHASE = one_of(*PHASES)
_CORE = "io.k8s.api.core.v1."

FACTS: Facts = {
    batch.JobVolume: {
        "mount_path": fact(
            "Mount path in each container; unique in a job.", minLength=1, pattern="^[^:]+$", required=True
        ),
        "volume_claim_name": fact("Claim to use; if empty, one is created and its name set here.", NAME),
        "volume_claim": kubernetes("Claim to make.", f"{_CORE}PersistentVolumeClaimSpec"),
    },
    batch.LifecyclePolicy: {
        "action": fact(
            "Action: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or "
            "ResumeJob."
        ),
        "event": fact("Event that triggers the action.", one_of(*EVENTS)),
        "events": fact("Events, any of which triggers the action.", each_one_of(*EVENTS)),
        "exit_code": fact("Exit code of the first container of a pod, instead of an event; not 0.", INT32),
        "timeout": fact("Time to wait before the action, such as 10m."),
    },
    batch.DependsOn: {
        "name": fact("Tasks that must be ready first."),
        "iteration": fact("any: one of them is enough; all: every one is required."),
    },
    batch.PartitionPolicy: {
        "total_partitions": fact("Number of partitions.", POSITIVE, required=True),
        "partition_size": fact(
            "Number of pods in a partition; totalPartitions times partitionSize is replicas.", POSITIVE, required=True
        ),
        "min_partitions": fact("Number of partitions that must run together for the task to start.", COUNT, default=0),
        "network_topology": fact("Network topology constraints of the pods of each partition."),
    },
    batch.Task: {
        "name": fact("Name of the task; part of the names of its pods.", LABEL),
        "replicas": fact("Number of pods.", COUNT),
        "min_available": fact("Number of pods that must run together; all if not set.", COUNT),
        "template": kubernetes("The pods of the task.", f"{_CORE}PodTemplateSpec"),
        "policies": fact("Actions on events of this task; considered before those of the job."),
        "topology_policy": fact(
            "Alignment of its pods with NUMA nodes.", one_of("none", "best-effort", "restricted", "single-numa-node")
        ),
        "max_retry": fact("Number of restarts of its containers before the event TaskFailed.", COUNT),
        "depends_on": fact("Tasks that must be ready before this one starts."),
        "partition_policy": fact("Partitions of equal size into which its pods are divided."),
    },
    batch.JobSpec: {
        "scheduler_name": fact("Scheduler of pods whose template does not name one.", SHORT),
        "min_available": fact("Number of pods that must run together; the sum over the tasks if not set.", COUNT),
        "volumes": fact("Volumes that every container of the job mounts."),
        "tasks": fact("The tasks of the job.", minItems=1),
        "policies": fact("Actions on events of the job, its tasks and pods."),
        "plugins": fact(
            "Plugins of the job by name (ssh, env, svc, tensorflow, mpi, pytorch, hcclrank, ray, ringsconfigmap), with "
            "arguments."
        ),
        "running_estimate": fact("Estimated run time, such as 1h30m."),
        "queue": fact("Queue that the job is charged to.", SUBDOMAIN, default="default"),
        "max_retry": fact("Maximum number of restarts.", COUNT, default=3),
        "ttl_seconds_after_finished": fact(
            "Seconds after its end at which the job is deleted; never if not set.", COUNT
        ),
        "priority_class_name": fact(
            "Priority class of the job, and of pods whose template does not name one.", SUBDOMAIN
        ),
        "min_success": fact("Number of pods that must succeed for the job to complete.", POSITIVE),
        "network_topology": fact("Network topology constraints of its pods."),
    },
    batch.JobState: {
        "phase": fact("Phase of the job.", _PHASE),
        "reason": fact("Machine-readable reason in CamelCase."),
        "message": fact("Human-readable reason."),
        "last_transition_time": fact("Time of the last change.", TIME),
    },
    batch.TaskState: {"phase": fact("Number of pods by phase.", COUNTS)},
    batch.JobCondition: {
        "status": fact("The phase.", _PHASE, required=True),
        "last_transition_time": fact("Time of the last transition.", TIME),
    },
    batch.JobStatus: {
        "state": fact("Phase of the job."),
        "min_available": fact("minAvailable of the spec.", COUNT),
        "task_status_count": fact("Pods of each task by phase."),
        "pending": fact("Number of pending pods.", COUNT),
        "running": fact("Number of running pods.", COUNT),
        "succeeded": fact("Number of pods that have succeeded.", COUNT),
        "failed": fact("Number of pods that have failed.", COUNT),
        "terminating": fact("Number of pods that are being deleted.", COUNT),
        "unknown": fact("Number of pods whose node does not respond.", COUNT),
        "version": fact("Number of times that the whole job was stopped.", COUNT),
        "retry_count": fact("Number of restarts.", COUNT),
        "running_duration": fact("Run time so far."),
        "controlled_resources": fact("Objects that were created for the job."),
        "conditions": fact("Phases of the job so far, newest last."),
    },
    batch.Job: {"spec": fact("Desired tasks and policies."), "status": fact("Observed state.")},
    batch.JobTemplateSpec: {
        "metadata": fact("Labels and annotations of the jobs."),
        "spec": fact("Desired tasks and policies."),
    },
    batch.CronJobSpec: {
        "schedule": fact("Cron schedule: five fields, or a macro such as @hourly.", required=True),
        "time_zone": fact("IANA name of the time zone of the schedule."),
        "starting_deadline_seconds": fact("Jobs that are late by more than this are skipped.", INT64, minimum=0),
        "concurrency_policy": fact(
            "If the last job still runs: Allow both, Forbid the new one, Replace the old one.",
            one_of("Allow", "Forbid", "Replace"),
            default="Allow",
        ),
        "suspend": fact("True to pause the creation of jobs.", default=False),
        "job_template": fact("Template of the jobs.", required=True),
        "successful_jobs_history_limit": fact("Number of completed jobs to keep.", COUNT, default=3),
        "failed_jobs_history_limit": fact("Number of failed jobs to keep.", COUNT, default=1),
    },
    batch.CronJobStatus: {
        "active": fact("Jobs that have not ended.", ATOMIC),
        "last_schedule_time": fact("Time when a job was last created.", TIME),
        "last_successful_time": fact("Time when a job last completed.", TIME),
    },
    batch.CronJob: {"spec": fact("Schedule and job template."), "status": fact("Observed state.")},
}
