"""Connections to containers: the protocols of exec, attach and port-forward, over WebSockets.

    kubectl, Python client  <-- messages -->  remote_command.py, port_forward.py  <-->  api/container_streams.py

`channels.py` has the format of messages, `spdy/` the connection that kubectl tunnels for port-forward; `sessions.py`
limits the number of connections.
"""
