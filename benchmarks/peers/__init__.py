"""Libraries that judged is compared with: their environments and worker programs."""
