"""Flows of Volcano's jobs: each job is created from a template when those on which it depends are completed.

`controller` creates and deletes the jobs, `status` computes the status of a flow, `templates` lists the jobs of a
template.
"""

BY_FLOW = "volcano.sh/createdByJobFlow"
BY_TEMPLATE = "volcano.sh/createdByJobTemplate"
"""On jobs, as label and annotation: `namespace.name` of their template or flow."""
