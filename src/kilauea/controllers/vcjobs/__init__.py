"""Volcano's jobs: gangs of tasks, with their pods, pod group, volumes and plugins.

`controller` is asked what is next. `work` and `members` read a job and its pods, `evidence` what has happened,
`choice` and `delays` what follows from that, `machine` what an action does; `syncing`, `making` and `killing` say how,
`counting` and `status` what is written about it. `pods`, `groups`, `volumes` and `plugins` know what its objects look
like.
"""
