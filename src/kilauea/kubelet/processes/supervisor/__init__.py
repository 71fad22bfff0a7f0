"""The supervisor: a small separate process that is the parent of all containers of a cluster folder.

It outlives the kubelet that started it, so it uses only the standard library and this package, runs one thread, and
needs little memory.

    __main__.py  ->  server.py: requests of kubelets, as lines of JSON at a socket
                       ->  containers.py: each container from its start to its end
                             ->  launching.py: the new process, up to its command  ->  isolation.py: its namespaces
                             ->  log_files.py, attachments.py: where its output goes
                             ->  cgroups.py, process_tree.py: all processes of a container
"""
