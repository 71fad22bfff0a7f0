"""Inputs of commands: files, configurations, extensions, a live cluster, and the pods of workloads."""
