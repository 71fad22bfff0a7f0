"""Objects of built-in kinds in the protobuf format of Kubernetes.

Go clients send them; responses use this format for clients that accept nothing else.
"""

from kilauea.apiserver.protobuf.decode import PROTOBUF, ProtobufError, decode_protobuf
from kilauea.apiserver.protobuf.encode import encode_protobuf, watch_event

__all__ = ["PROTOBUF", "ProtobufError", "decode_protobuf", "encode_protobuf", "watch_event"]
