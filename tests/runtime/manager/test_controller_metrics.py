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
    queues: list[dict[str, Any]] = [
        {"metadata": {"name": "q"}, "status": {"running": 2}},
        {"metadata": {"name": "new"}},
    ]
    jobs = [job("a", "Running", "Failed", "Restarting", "Completed"), job("b", "Running"), {"metadata": {"name": "c"}}]
    flows = [flow("d", "Succeed"), flow("e", "Succeed"), flow("e", "Succeed"), flow("e", "Running")]
    metrics = ControllerMetrics(lambda: queues, lambda: jobs, lambda: flows, list)

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
    assert {line.rpartition(" ")[2] for line in lines()} <= {"0.0"}


def test_the_time_from_a_job_to_each_of_its_pods_falls_into_buckets() -> None:
    def made(uid: str, second: int, *owners: str) -> dict[str, Any]:
        references = [{"uid": owner} for owner in owners]
        created = f"2026-01-01T00:00:{second:02}Z"
        return {"metadata": {"uid": uid, "creationTimestamp": created, "ownerReferences": references}}

    pods = [made("p", 10, "j"), made("q", 11, "x", "j"), made("r", 15, "j"), made("alone", 12), made("other", 13, "y")]
    metrics = ControllerMetrics(list, lambda: [made("j", 10)], list, lambda: pods)
    value = metrics.registry.get_sample_value
    name = "volcano_controller_job_to_pod_creation_latency_milliseconds"
    assert value(f"{name}_count") == 3
    assert value(f"{name}_sum") == 6000
    assert [value(f"{name}_bucket", {"le": end}) for end in ("50", "60000", "+Inf")] == [1, 3, 3]
