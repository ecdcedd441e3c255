"""What runs a model: ONNX Runtime, OpenVINO or a GPU, and how it is chosen."""
