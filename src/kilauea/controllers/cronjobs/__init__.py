"""Cron jobs of Kubernetes (batch/v1): a job whenever a schedule says so.

`schedule` reads schedules, `controller` makes jobs by them and forgets old ones.
"""
