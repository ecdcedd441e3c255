"""The commands; what several of them share is in the folder above."""
