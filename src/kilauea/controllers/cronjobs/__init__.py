"""Cron jobs of Kubernetes (batch/v1): jobs on a schedule.

`slots` says which time is to be served, `controller` makes jobs and forgets old ones.
"""
