"""Conversations with containers: the protocols of exec, attach and port-forward, above WebSockets.

    kubectl, Python client  <-- messages -->  remote_command.py, port_forward.py  <-->  api/container_streams.py

`channels.py` is the form of messages; `spdy/` the connection that kubectl tunnels for port-forward; `sessions.py`
limits how many there are.
"""
