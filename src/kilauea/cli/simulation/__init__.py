"""Output of `kilauea simulate`, `kilauea compare` and `kilauea advise`: tables, and a page of plots."""
