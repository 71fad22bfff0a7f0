"""Volcano's jobs: gangs of tasks, with their pods, pod group, volumes and plugins.

`controller` is the entry point. `work` and `members` read a job and its pods, `observed_events` finds their events,
`decision` and `delays` choose an action, `machine` defines its effect; `syncing`, `scaling` and `killing` carry it out,
`counting` and `status` compute the status. `pods`, `groups`, `volumes` and `plugins` build its objects.
"""
