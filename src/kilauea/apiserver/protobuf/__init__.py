"""Objects of built-in kinds in Kubernetes' protobuf form, which Go clients send. Answers are JSON; they take it."""

from kilauea.apiserver.protobuf.decode import PROTOBUF, ProtobufError, decode_protobuf

__all__ = ["PROTOBUF", "ProtobufError", "decode_protobuf"]
