"""Cards of nodes that pods share: one column for each card, and the parts that each pod uses in this cycle."""
