"""Flows of Volcano's jobs: each job is created from a template when those on which it depends are completed.

`controller` makes and deletes the jobs, `status` says how far a flow is, `templates` which jobs a template has made.
"""

BY_FLOW = "volcano.sh/createdByJobFlow"
BY_TEMPLATE = "volcano.sh/createdByJobTemplate"
"""On jobs, as labels and annotations: `namespace.name` of what they were made from."""
