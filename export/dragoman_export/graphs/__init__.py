"""The bundle's ONNX graphs, built node by node, in fp32 and int8."""
