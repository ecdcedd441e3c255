"""Evaluation of answers: scored by rubrics, by panels and by similarity, and ranked."""
