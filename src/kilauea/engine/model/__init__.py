"""The model of the engine: resources, nodes, tasks, jobs, queues, and pods as neighbours of each other."""
