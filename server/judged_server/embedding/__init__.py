"""Embedding models: stored, checked, tokenised, batched and run on ONNX Runtime or OpenVINO."""

import os
import sys

# ONNX Runtime's own builds report their use to its makers, and keep a device id in the user's cache
# folder, unless this is set before they are imported. Nothing in this package imports them earlier.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# So is the library of model hubs told to be quiet.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

# `import openvino` imports its makers' telemetry, which writes a client id to the home folder and
# reports to them. Where None stands for that module, OpenVINO takes its own stub instead.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
