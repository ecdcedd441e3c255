"""Generated from proto/judged/v1 by proto/generate.py. Do not edit."""
