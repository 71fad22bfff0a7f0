"""Facts of `flow.volcano.sh` and `bus.volcano.sh`: JobFlow, JobTemplate and Command."""

from __future__ import annotations

from kilauea.api import flow
from kilauea.api.bus import Command
from kilauea.api.crds.facts import INT32, NAME, PORT, SHORT, TIME, Facts, fact, one_of

FACTS: Facts = {
    Command: {
        "action": fact("What to do, such as AbortJob or CloseQueue."),
        "target": fact("The job or queue that shall do it."),
        "reason": fact("Why, in one word."),
        "message": fact("Why, for people."),
    },
    flow.JobTemplateStatus: {"job_depends_on_list": fact("Names of the jobs that were made of it.")},
    flow.JobTemplate: {"spec": fact("What shall run."), "status": fact("What was made of it.")},
    flow.HttpHeader: {"name": fact("Name of the header."), "value": fact("Value of the header.")},
    flow.HttpGet: {
        "task_name": fact("Task that is asked.", NAME),
        "path": fact("Path that is asked for."),
        "port": fact("Port that is asked at.", PORT),
        "http_header": fact("Header to send."),
    },
    flow.TcpSocket: {
        "task_name": fact("Task that is asked.", NAME),
        "port": fact("Port that must be open.", PORT, required=True),
    },
    flow.TaskPhase: {
        "task_name": fact("Task that is looked at.", NAME),
        "phase": fact("Phase that it must be in.", SHORT),
    },
    flow.Probe: {
        "http_get_list": fact("Paths that must answer."),
        "tcp_socket_list": fact("Ports that must be open."),
        "task_status_list": fact("Phases that tasks must be in."),
    },
    flow.FlowDependsOn: {
        "targets": fact("Vertices that must be completed."),
        "probe": fact("What else must be so; no controller looks at it."),
    },
    flow.JobPatch: {"job_spec": fact("Fields to put in the place of those of the template.")},
    flow.Flow: {
        "name": fact("JobTemplate of the same namespace that the job is made of.", minLength=1, required=True),
        "depends_on": fact("What must be so before the job is made."),
        "patch": fact("Changes to the job; no controller applies them."),
    },
    flow.JobFlowSpec: {
        "flows": fact("The jobs of the flow."),
        "job_retain_policy": fact("Whether the jobs stay once all have completed.", one_of("retain", "delete")),
    },
    flow.FlowState: {
        "phase": fact("Where the flow is.", one_of("Succeed", "Terminating", "Failed", "Running", "Pending")),
    },
    flow.RunningHistory: {
        "start_timestamp": fact("Since when.", TIME),
        "end_timestamp": fact("Until when.", TIME),
        "state": fact("The state."),
    },
    flow.FlowJobStatus: {
        "name": fact("Name of the job."),
        "state": fact("Phase of the job."),
        "start_timestamp": fact("When it started.", TIME),
        "end_timestamp": fact("When it ended.", TIME),
        "restart_count": fact("How often it has restarted.", INT32),
        "running_histories": fact("The states that it was in."),
    },
    flow.FlowCondition: {
        "phase": fact("Phase of the job."),
        "create_time": fact("When it was made.", TIME),
        "running_duration": fact("How long it has run."),
        "task_status_count": fact("Pods of each task by phase."),
    },
    flow.JobFlowStatus: {
        "pending_jobs": fact("Jobs that wait."),
        "running_jobs": fact("Jobs that run."),
        "failed_jobs": fact("Jobs that have failed."),
        "completed_jobs": fact("Jobs that have completed."),
        "terminated_jobs": fact("Jobs that were terminated."),
        "unknown_jobs": fact("Jobs in any other phase."),
        "job_status_list": fact("How each job is doing."),
        "conditions": fact("What is known of each job, by name."),
        "state": fact("Where the flow is."),
    },
    flow.JobFlow: {"spec": fact("The jobs and their order."), "status": fact("How they are doing.")},
}
