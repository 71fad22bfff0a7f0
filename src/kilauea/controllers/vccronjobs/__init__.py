"""Volcano's cron jobs (batch.volcano.sh): one of its jobs whenever a schedule says so.

`history` says which jobs run and which are forgotten, `controller` makes them.
"""
