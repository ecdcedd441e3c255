"""The files of contexts and of answers that commands read."""
