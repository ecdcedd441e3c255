"""The commands; what several share is in the folder above."""
