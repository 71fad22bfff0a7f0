"""The part of SPDY/3.1 that Kubernetes uses: streams in one connection, which kubectl tunnels through a WebSocket.

`frames.py` decodes and encodes frames, without I/O; `connection.py` manages the streams of one connection.
"""
