"""KServe v2, the protocol of Triton, over HTTP and gRPC."""
