"""The embedded Kubernetes API: the requests of real clients, answered in this process and kept in a file."""
