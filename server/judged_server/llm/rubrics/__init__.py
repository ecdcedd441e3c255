"""What a language model is asked: rubrics as files, checked when read, and their prompts."""
