"""The kinds that the commands read and write."""

from __future__ import annotations

from kilauea.api.ports import Resource

JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
FLOWS = Resource("flow.volcano.sh", "v1alpha1", "jobflows", "JobFlow")
TEMPLATES = Resource("flow.volcano.sh", "v1alpha1", "jobtemplates", "JobTemplate")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False)
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")

ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases of a job in which nothing of it runs, or will without an order."""
