"""The jobs that were created from a template."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.api.kinds import JOB_TEMPLATES, VC_JOBS
from kilauea.api.ports import Interest, Key, Obj, Outcome, View
from kilauea.controllers.jobflows import BY_TEMPLATE
from kilauea.controllers.objects import (
    DEBOUNCE_SECONDS,
    NOTHING,
    is_going,
    labels_of,
    name_of,
    own_key,
    status_of,
    status_patch,
)


def _template_of(job: Obj) -> Iterator[Key]:
    """The template of a job; both names may contain dots, so the namespace of the job is removed."""
    namespace = job["metadata"]["namespace"]
    made_of = labels_of(job).get(BY_TEMPLATE, "")
    if made_of.startswith(f"{namespace}."):
        yield Key(namespace, made_of.removeprefix(f"{namespace}."))


class JobTemplateController:
    """Maintains the lists of jobs in the status of templates."""

    name = "jobtemplate-controller"
    interests = (
        Interest(JOB_TEMPLATES, own_key),
        Interest(VC_JOBS, _template_of, labels=(BY_TEMPLATE,), delay=DEBOUNCE_SECONDS),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Write the names of the existing jobs."""
        template = view.get(JOB_TEMPLATES, key)
        if template is None or is_going(template):
            return NOTHING
        made = view.labelled(VC_JOBS, BY_TEMPLATE, f"{key.namespace}.{key.name}")
        names = [name_of(job) for job in made if job["metadata"]["namespace"] == key.namespace]
        if not names and "jobDependsOnList" not in status_of(template):
            return NOTHING
        return Outcome(status_patch(JOB_TEMPLATES, template, {"jobDependsOnList": names}))
