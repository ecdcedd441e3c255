"""Embedding models: stored, checked, tokenised, batched and run on ONNX Runtime or OpenVINO."""

import os
import sys

# Official builds of ONNX Runtime report usage to the vendor, and keep a device id in the user's
# cache folder, unless this is set before the import. Nothing in this package imports it earlier.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# The same for the library of model hubs.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

# `import openvino` imports the vendor's telemetry, which writes a client id to the home folder and
# reports usage. With None in place of that module OpenVINO uses its own stub.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
