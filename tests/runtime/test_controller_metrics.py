"""The metrics of the controllers."""

from __future__ import annotations

from typing import Any

from prometheus_client.exposition import generate_latest

from kilauea.telemetry.controller_metrics import ControllerMetrics


def job(name: str, *phases: str) -> dict[str, Any]:
    conditions = [{"status": phase} for phase in phases]
    return {
        "metadata": {"namespace": "d", "name": name},
        "spec": {"queue": "q"},
        "status": {"conditions": conditions},
    }


def flow(namespace: str, phase: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": "f"}, "status": {"state": {"phase": phase}}}


def test_figures_are_those_of_the_objects_and_go_with_them() -> None:
    queues = [{"metadata": {"name": "q"}, "status": {"running": 2}}, {"metadata": {"name": "new"}}]
    jobs = [job("a", "Running", "Failed", "Restarting", "Completed"), job("b", "Running"), {"metadata": {"name": "c"}}]
    flows = [flow("d", "Succeed"), flow("e", "Succeed"), flow("e", "Succeed"), flow("e", "Running")]
    metrics = ControllerMetrics(lambda: queues, lambda: jobs, lambda: flows)

    def lines() -> set[str]:
        return {line for line in generate_latest(metrics.registry).decode().splitlines() if not line.startswith("#")}

    assert lines() >= {
        'volcano_queue_pod_group_running_count{queue_name="q"} 2.0',
        'volcano_queue_pod_group_pending_count{queue_name="new"} 0.0',
        'volcano_job_completed_phase_count{job_name="d/a",queue_name="q"} 1.0',
        'volcano_job_failed_phase_count{job_name="d/a",queue_name="q"} 1.0',
        'volcano_jobflow_succeed_phase_count{jobflow_namespace="d"} 1.0',
        'volcano_jobflow_succeed_phase_count{jobflow_namespace="e"} 2.0',
    }
    queues.clear()
    jobs.clear()
    flows.clear()
    assert lines() == set()
