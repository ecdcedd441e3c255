"""Generated from proto/judged/internal/v1 by proto/generate.py. Do not edit."""
