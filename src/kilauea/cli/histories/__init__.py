"""Helpers of the commands about the past: the source of a history, times in options, and output."""
