"""How good the judge `answer_equivalence` is, and how its model is made."""
