"""Queues: their order, their remaining quota, lending, and faults."""
