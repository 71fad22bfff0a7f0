"""Volcano's jobs: gangs of tasks, with their pods, pod group, volumes and plugins.

`controller` is the entry. `work` and `members` read a job and its pods, `observed_events` finds what has happened to
them, `decision` and `delays` choose an action, `machine` holds its effect; `syncing`, `scaling` and `killing` do it,
`counting` and `status` what is written about it. `pods`, `groups`, `volumes` and `plugins` know what its objects look
like.
"""
