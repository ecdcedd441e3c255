"""The model's own arithmetic against scikit-learn's, and how questions are dealt into folds."""

from __future__ import annotations

import numpy as np
from judged_server.judges.equivalence.judge import shipped
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.equivalence.data import load
from benchmarks.equivalence.train import CLIP, FILE, fit, to_bytes


def test_the_arrays_say_what_scikit_learn_says() -> None:
    rng = np.random.default_rng(5)
    table = {f"f{n}": rng.integers(0, 6, 700) / 3 for n in range(9)}
    x = np.column_stack(list(table.values()))
    labels = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=700) > 2
    weights = rng.integers(1, 3, 700).astype(float)
    model = fit(table, labels, weights, seed=3)
    standard = np.clip((x - model.center) / model.scale, -CLIP, CLIP)
    linear = LogisticRegression(C=0.05, max_iter=1000).fit(standard, labels, weights)
    trees = GradientBoostingClassifier(
        n_estimators=200,
        max_depth=3,
        learning_rate=0.05,
        subsample=0.5,
        max_features=0.3,
        min_samples_leaf=10,
        random_state=3,
    ).fit(x, labels, weights)
    wanted = (linear.decision_function(standard) + trees.decision_function(x)) / 2
    np.testing.assert_allclose(model.logits(table), wanted, atol=1e-6)


def test_the_same_arrays_make_the_same_file() -> None:
    assert to_bytes(shipped()[0]) == FILE.read_bytes()


def test_no_question_is_in_two_folds() -> None:
    items = load()
    folds = items.folds(10, seed=4)
    assert len(set(zip(items.questions.tolist(), folds.tolist(), strict=True))) == 965
    of_both = set(items.questions[items.files == 0]) & set(items.questions[items.files == 1])
    assert len(of_both) == 49
