"""Containers as processes on this machine, behind the interface `container_runtime.py`.

    runtime.py  ->  connection.py  ->  a socket in the cluster's folder  ->  supervisor/, a separate process
       |
       +->  streams.py: input and output of exec and attach, as pipes or a terminal

The supervisor is the parent of all containers, so they outlive the kubelet. This file imports nothing, because the
supervisor imports it.
"""
