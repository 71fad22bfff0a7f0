"""The model of the engine: resources, nodes, tasks, jobs, queues, and pods as neighbors of each other."""
