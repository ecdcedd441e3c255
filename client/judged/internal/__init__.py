"""Generated from proto/judged/internal by proto/generate.py. Do not edit."""
