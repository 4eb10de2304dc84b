"""The bundle's ONNX graphs, written node by node, in fp32 and int8."""
