"""Cards of nodes that pods share: one column for each card, and who has which part of it in this cycle."""
