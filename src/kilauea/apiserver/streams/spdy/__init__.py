"""SPDY/3.1, as far as Kubernetes uses it: streams in one connection, which kubectl tunnels through a WebSocket.

`frames.py` reads and writes frames, without input or output; `connection.py` keeps the streams of one connection.
"""
