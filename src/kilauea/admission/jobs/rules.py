"""Validation of jobs and of changes of jobs."""

from __future__ import annotations

from kilauea.admission.jobs.changes import check_change
from kilauea.admission.jobs.creation import check_new
from kilauea.admission.jobs.order import order_warnings
from kilauea.admission.jobs.plugins import plugin_warnings
from kilauea.admission.jobs.policies import policy_warnings
from kilauea.admission.reading import name_of, read
from kilauea.admission.review import Review, Settings
from kilauea.api.batch import Job
from kilauea.api.ports import View


def validate(review: Review, view: View, settings: Settings) -> list[str]:
    """Warnings about a job that is created or changed.

    Raises:
        Denied: it may not be.
    """
    job = read(review.obj, Job)
    name = name_of(job, review.obj)
    if review.operation == "UPDATE":
        check_change(name, job.spec, read(review.old, Job).spec)
    else:
        check_new(name, job.spec, view, settings)
    return [*policy_warnings(job.spec), *order_warnings(job.spec), *plugin_warnings(job.spec)]
