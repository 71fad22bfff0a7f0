"""Jobs of Kubernetes (batch/v1): pods that run until enough have succeeded, or too many have failed.

`controller` decides the next step, `counting` counts pods that have ended, each once even if it is deleted, `scaling`
creates new ones, `ending` determines the end of a job; `failure_policy` and `index_failures` determine the effect of a
pod's failure.
"""
