"""Volcano's cron jobs (batch.volcano.sh): Volcano jobs on a schedule.

`history` finds running jobs and those to delete, `controller` creates them.
"""
