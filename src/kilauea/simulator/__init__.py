"""Simulated clusters: scenarios, plans over several cycles, explanations and trials of changes."""
