"""Making room by evictions: who may lose what and why, and plans of evictions that are kept or dropped whole."""
