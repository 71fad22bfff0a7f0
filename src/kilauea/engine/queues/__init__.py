"""Queues: their order, what they may still use, what they lend each other, and their faults."""
