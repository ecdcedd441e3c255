"""Runtimes of models: ONNX Runtime, OpenVINO or a GPU, and how one is chosen."""
