"""Cron jobs of Kubernetes (batch/v1): jobs on a schedule.

`slots` finds the scheduled time to serve, `controller` creates jobs and deletes old ones.
"""
