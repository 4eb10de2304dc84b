"""`python -m dragoman_client.protoset`: a description of Triton's gRPC service for grpcurl.

Triton does not support gRPC reflection, from which grpcurl would otherwise get the description.

Source: https://github.com/fullstorydev/grpcurl#protoset-files
"""

from __future__ import annotations

import sys


def protoset() -> bytes:
    """Returns the serialized `FileDescriptorSet` of tritonclient's proto files."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from tritonclient.grpc import model_config_pb2, service_pb2

    files = FileDescriptorSet()
    for module in (model_config_pb2, service_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    return bytes(files.SerializeToString())


if __name__ == "__main__":
    sys.stdout.buffer.write(protoset())
