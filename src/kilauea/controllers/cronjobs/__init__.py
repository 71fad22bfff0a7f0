"""Cron jobs of Kubernetes (batch/v1): a job whenever a schedule says so.

`slots` says which time is to be served, `controller` makes jobs and forgets old ones.
"""
