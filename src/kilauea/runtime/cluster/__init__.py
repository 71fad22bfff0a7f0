"""A cluster in one process, and its parts as processes: API server, admission, simulated nodes."""
