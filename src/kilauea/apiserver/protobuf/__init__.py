"""Objects of built-in kinds in Kubernetes' protobuf form.

Go clients send them; answers in this form go to clients that accept nothing else.
"""

from kilauea.apiserver.protobuf.decode import PROTOBUF, ProtobufError, decode_protobuf
from kilauea.apiserver.protobuf.encode import encode_protobuf, watch_event

__all__ = ["PROTOBUF", "ProtobufError", "decode_protobuf", "encode_protobuf", "watch_event"]
