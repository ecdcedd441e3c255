"""The judge `answer_equivalence`: whether an answer says the same as one of the expected ones."""
