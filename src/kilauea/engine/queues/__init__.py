"""Queues: whose turn it is, what a queue may still take, what queues lend each other, and what is wrong with them."""
