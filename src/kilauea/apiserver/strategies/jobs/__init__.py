"""Rules for jobs and cron jobs: `strategy.py` has those of the kinds, the others those of one part each."""
