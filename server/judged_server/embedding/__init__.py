"""Embedding models: stored, checked, tokenised, batched and run on ONNX Runtime."""

import os

# ONNX Runtime's own builds report their use to its makers, and keep a device id in the user's cache
# folder, unless this is set before they are imported. Nothing in this package imports them earlier.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
