"""`python -m dragoman_client.protoset`: Triton's gRPC service as grpcurl wants it described.

Triton has no reflection, by which such programs otherwise ask for a service's description.

Source: https://github.com/fullstorydev/grpcurl#protoset-files
"""

from __future__ import annotations

import sys


def protoset() -> bytes:
    """A `FileDescriptorSet`, serialised, of the files that tritonclient was built from."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from tritonclient.grpc import model_config_pb2, service_pb2

    files = FileDescriptorSet()
    for module in (model_config_pb2, service_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    return bytes(files.SerializeToString())


if __name__ == "__main__":
    sys.stdout.buffer.write(protoset())
