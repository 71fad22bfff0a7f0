"""Rules for jobs and cron jobs: `strategy.py` has the strategies, each other module the rules of one part."""
