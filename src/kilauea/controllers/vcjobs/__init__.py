"""Volcano's jobs: gangs of tasks, with their pods, pod group, volumes and plugins."""
