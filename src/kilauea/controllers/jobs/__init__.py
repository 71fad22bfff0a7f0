"""Jobs of Kubernetes (batch/v1): pods that run until enough have succeeded, or too many have failed.

`controller` decides what is next, `counting` counts pods that have ended, each once even if it is deleted, `making`
makes new ones, `ending` says when a job is over; `failures` and `index_failures` say what the failure of a pod means.
"""
