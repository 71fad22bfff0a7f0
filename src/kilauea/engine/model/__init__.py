"""What the engine thinks in: resources, nodes, tasks, jobs, queues, and which pods are neighbours of which."""
