"""Facts of `flow.volcano.sh` and `bus.volcano.sh`: JobFlow, JobTemplate and Command."""

from __future__ import annotations

from kilauea.api import flow
from kilauea.api.bus import Command
from kilauea.api.crds.facts import INT32, NAME, PORT, SHORT, TIME, Facts, fact, one_of

FACTS: Facts = {
    Command: {
        "action": fact("Action to take, such as AbortJob or CloseQueue."),
        "target": fact("Job or queue that the command applies to."),
        "reason": fact("Machine-readable reason in CamelCase."),
        "message": fact("Human-readable reason."),
    },
    flow.JobTemplateStatus: {"job_depends_on_list": fact("Names of the jobs that were created from it.")},
    flow.JobTemplate: {"spec": fact("Spec of the jobs."), "status": fact("Jobs created from it.")},
    flow.HttpHeader: {"name": fact("Name of the header."), "value": fact("Value of the header.")},
    flow.HttpGet: {
        "task_name": fact("Task to check.", NAME),
        "path": fact("Path of the request."),
        "port": fact("Port of the request.", PORT),
        "http_header": fact("Header to send."),
    },
    flow.TcpSocket: {
        "task_name": fact("Task to check.", NAME),
        "port": fact("Port that must be open.", PORT, required=True),
    },
    flow.TaskPhase: {
        "task_name": fact("Task to check.", NAME),
        "phase": fact("Required phase.", SHORT),
    },
    flow.Probe: {
        "http_get_list": fact("Paths that must respond."),
        "tcp_socket_list": fact("Ports that must be open."),
        "task_status_list": fact("Required phases of tasks."),
    },
    flow.FlowDependsOn: {
        "targets": fact("Jobs of the flow that must have completed."),
        "probe": fact("Additional requirements; ignored by all controllers."),
    },
    flow.JobPatch: {"job_spec": fact("Fields that replace those of the template.")},
    flow.Flow: {
        "name": fact("JobTemplate in the same namespace from which the job is created.", minLength=1, required=True),
        "depends_on": fact("Requirements for the creation of the job."),
        "patch": fact("Changes to the job; no controller applies them."),
    },
    flow.JobFlowSpec: {
        "flows": fact("The jobs of the flow."),
        "job_retain_policy": fact(
            "Keep (retain) or delete the jobs once all have completed.", one_of("retain", "delete")
        ),
    },
    flow.FlowState: {
        "phase": fact("Phase of the flow.", one_of("Succeed", "Terminating", "Failed", "Running", "Pending")),
    },
    flow.RunningHistory: {
        "start_timestamp": fact("Start time of the state.", TIME),
        "end_timestamp": fact("End time of the state.", TIME),
        "state": fact("The state."),
    },
    flow.FlowJobStatus: {
        "name": fact("Name of the job."),
        "state": fact("Phase of the job."),
        "start_timestamp": fact("Start time.", TIME),
        "end_timestamp": fact("End time.", TIME),
        "restart_count": fact("Number of restarts.", INT32),
        "running_histories": fact("States so far."),
    },
    flow.FlowCondition: {
        "phase": fact("Phase of the job."),
        "create_time": fact("Creation time.", TIME),
        "running_duration": fact("Run time so far."),
        "task_status_count": fact("Pods of each task by phase."),
    },
    flow.JobFlowStatus: {
        "pending_jobs": fact("Jobs that wait."),
        "running_jobs": fact("Jobs that run."),
        "failed_jobs": fact("Jobs that have failed."),
        "completed_jobs": fact("Jobs that have completed."),
        "terminated_jobs": fact("Jobs that were terminated."),
        "unknown_jobs": fact("Jobs in any other phase."),
        "job_status_list": fact("Status of each job."),
        "conditions": fact("Conditions of each job, by name."),
        "state": fact("Phase of the flow."),
    },
    flow.JobFlow: {"spec": fact("The jobs and their order."), "status": fact("Observed state.")},
}
