"""A kubelet for this machine: pods that are bound to its nodes run here as processes.

    pods of its nodes  ->  a worker for each pod  ->  container runtime
          ^                                                 |
          +----  status, events  <----  states of containers

`kubelet.py` watches the pods and runs a worker for each (`pod_worker.py`), which takes its pod from volumes to init
containers to containers to its end. Containers run behind an interface (`container_runtime.py`): `processes/` runs them
as process groups on this machine. Containers and their logs outlive the process that started them; a restarted kubelet
finds them and continues.
"""
