"""The embedded Kubernetes API server: answers requests of real clients in this process, and stores to a file."""
