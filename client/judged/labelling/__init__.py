"""Labels where they help: which items people should look at, and what their labels are worth.

Items of which the judge is unsure are drawn more often than others, each with a probability that
is known, so that what the labels say holds for all items. Needs no more than the base install, but
for the screen, which is of the extra `label`.
"""

from judged.labelling.items import (
    Item,
    Judged,
    Label,
    LabelFile,
    drawing_order,
    inclusion_probabilities,
)

__all__ = [
    "Item",
    "Judged",
    "Label",
    "LabelFile",
    "drawing_order",
    "inclusion_probabilities",
]
