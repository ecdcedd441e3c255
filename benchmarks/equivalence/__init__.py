"""Quality of the judge `answer_equivalence`, and the training of its model."""
