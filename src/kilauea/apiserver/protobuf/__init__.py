"""Objects of built-in kinds in Kubernetes' protobuf form, which Go clients send. Answers are JSON, which they all take."""

from kilauea.apiserver.protobuf.decode import PROTOBUF, ProtobufError, decode_protobuf

__all__ = ["PROTOBUF", "ProtobufError", "decode_protobuf"]
