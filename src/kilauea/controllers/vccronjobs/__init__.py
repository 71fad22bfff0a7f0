"""Volcano's cron jobs (batch.volcano.sh): Volcano jobs on a schedule.

`history` says which jobs run and which are forgotten, `controller` makes them.
"""
