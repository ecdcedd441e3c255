"""Trains the model of `answer_equivalence` on the development data and writes its file.

The logistic model and the boosted trees use the same features. The calibration is Platt's: a
logistic regression of the labels on cross-validated logits, folded by question, so that no item
calibrates a model that it trained. Items of NQ301 have double weight: there are few of them, and
they were labelled with more care.

Only training needs scikit-learn; the product does not. The same data, versions and seed give the
same file.

    python -m benchmarks.equivalence.train           # compares with the shipped file
    python -m benchmarks.equivalence.train --write   # writes the file
"""

from __future__ import annotations

import argparse
import hashlib
import io
from dataclasses import fields
from pathlib import Path

import numpy as np
from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.judges.equivalence import judge as shipped_model
from judged_server.judges.equivalence.features import VERSION
from judged_server.judges.equivalence.judge import LEAF_UNIT, Model, features_of, items_of
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.equivalence.data import FILES, Items, load

FILE = Path(shipped_model.__file__).parent / "model.npz"
N_FOLDS = 10
SEED = 0
DEPTH = 3
"""Levels of every tree."""
CLIP = 5.0
WEIGHTS = {"nq301_human": 2.0, "evouna_nq": 1.0, "evouna_tq": 1.0}


def table_of(items: Items) -> dict[str, FloatArray]:
    """Return the features of all items. Raises ValueError if the judge abstains from one."""
    answers = items_of(items.groups)
    if any(answer.fault is not None for answer in answers):
        raise ValueError("the data have items that the judge abstains from")
    return features_of(answers)


def weights_of(items: Items) -> FloatArray:
    """Return the training weight of each item."""
    return np.array([WEIGHTS[name] for name in FILES])[items.files]


def fit(table: dict[str, FloatArray], labels: BoolArray, weights: FloatArray, seed: int) -> Model:
    """Return a model trained on some items, not calibrated."""
    x = np.column_stack(list(table.values()))
    mean = np.average(x, axis=0, weights=weights)
    deviation = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
    deviation[deviation == 0] = 1.0
    standard = np.clip((x - mean) / deviation, -CLIP, CLIP)
    linear = LogisticRegression(C=0.05, max_iter=1000).fit(standard, labels, weights)
    trees = GradientBoostingClassifier(
        n_estimators=200,
        max_depth=DEPTH,
        learning_rate=0.05,
        subsample=0.5,
        max_features=0.3,
        min_samples_leaf=10,
        random_state=seed,
    ).fit(x, labels, weights)
    split, threshold, leaf = _whole_trees(trees)
    share = np.average(labels, weights=weights)
    return Model(
        names=np.array(list(table)),
        center=mean,
        scale=deviation,
        weights=linear.coef_[0],
        intercept=linear.intercept_,
        split=split,
        threshold=threshold,
        leaf=leaf,
        base=np.array([np.log(share / (1 - share))]),
        calibration=np.array([1.0, 0.0]),
        version=np.array([VERSION]),
    )


def _whole_trees(trees: GradientBoostingClassifier) -> tuple[IntArray, FloatArray, IntArray]:
    """Return the trees as complete binary trees: leaves above the last level are duplicated."""
    n_nodes, n_leaves = 2**DEPTH - 1, 2**DEPTH
    estimators = [row[0].tree_ for row in trees.estimators_]
    split = np.zeros((len(estimators), n_nodes), np.int64)
    threshold = np.full((len(estimators), n_nodes), np.inf)
    leaf = np.zeros((len(estimators), n_leaves), np.int64)
    for number, tree in enumerate(estimators):
        nodes = [0]
        for node in range(n_nodes):
            at = nodes[node]
            if tree.children_left[at] < 0:
                nodes += [at, at]
            else:
                split[number, node] = tree.feature[at]
                threshold[number, node] = tree.threshold[at]
                nodes += [tree.children_left[at], tree.children_right[at]]
        values = tree.value[nodes[n_nodes:], 0, 0] * trees.learning_rate
        leaf[number] = np.round(values / LEAF_UNIT)
    return split, threshold, leaf


def cross_validated(
    items: Items, table: dict[str, FloatArray], n_folds: int, seed: int
) -> FloatArray:
    """Return the logit of each item from a model trained without its question."""
    folds, weights = items.folds(n_folds, seed), weights_of(items)
    logits = np.empty(len(items.labels))
    for fold in range(n_folds):
        rest, tested = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        model = fit(
            {name: column[rest] for name, column in table.items()},
            items.labels[rest],
            weights[rest],
            seed,
        )
        logits[tested] = model.logits({name: column[tested] for name, column in table.items()})
    return logits


def platt(logits: FloatArray, labels: BoolArray, weights: FloatArray) -> FloatArray:
    """Return slope and intercept of the calibrated logit (Platt 1999), unregularised."""
    fitted = LogisticRegression(C=1e9).fit(logits[:, None], labels, weights)
    return np.array([fitted.coef_[0, 0], fitted.intercept_[0]])


def train(seed: int = SEED) -> Model:
    """Return the calibrated model of all development data."""
    items = load()
    table, weights = table_of(items), weights_of(items)
    logits = cross_validated(items, table, N_FOLDS, seed)
    model = fit(table, items.labels, weights, seed)
    model.calibration[:] = platt(logits, items.labels, weights)
    return model


def to_bytes(model: Model) -> bytes:
    """Return the model as a NumPy archive; the same arrays give the same bytes."""
    file = io.BytesIO()
    arrays = {field.name: getattr(model, field.name) for field in fields(model)}
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def main() -> None:
    """Train, compare with the shipped file, and write with --write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the file of the model")
    arguments = parser.parse_args()
    model = train()
    raw = to_bytes(model)
    print(f"{len(model.names)} features, {len(model.leaf)} trees, {len(raw):,} bytes")
    print(f"calibration: {model.calibration.tolist()}")
    print(f"sha256 {hashlib.sha256(raw).hexdigest()}")
    if arguments.write:
        FILE.write_bytes(raw)
        print(f"written to {FILE}")
        return
    there, sha256 = shipped_model.shipped()
    items = load()
    table = table_of(items)
    apart = float(np.abs(model.logits(table) - there.logits(table)).max())
    print(f"shipped: sha256 {sha256}; logits differ by at most {apart:.3g}")


if __name__ == "__main__":
    main()
