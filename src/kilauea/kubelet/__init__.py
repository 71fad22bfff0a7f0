"""A kubelet for this machine: pods that are bound to its nodes run here as processes.

    pods of its nodes  ->  a worker for each pod  ->  container runtime
          ^                                                 |
          +----  status, events  <----  states of containers

`kubelet.py` watches the pods and keeps a worker for each (`pod_worker.py`), which takes its pod from volumes to init
containers to containers to its end. What runs the containers is behind a port (`container_runtime.py`): `processes/`
makes them process groups of this machine. Containers and their logs outlive the process that started them; a kubelet
that starts again finds them and goes on.
"""
