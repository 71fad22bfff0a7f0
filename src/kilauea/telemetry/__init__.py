"""What the components say about themselves in numbers: metrics, and the pages where they are read."""
