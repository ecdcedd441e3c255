"""The words of the service as values: groups, judges, verdicts, answers, usage.

The names below are those that all layers use; each is at home in the module of its noun.
"""

from judged_server.domain.arrays import (
    BoolArray,
    ByteArray,
    Float32Array,
    FloatArray,
    IntArray,
    UnsignedArray,
)
from judged_server.domain.groups import CallerEmbeddings, GroupSpans, QueryGroup, Spans
from judged_server.domain.judges import (
    JudgeSpec,
    PanelMember,
    Parameter,
    ParameterScalar,
)
from judged_server.domain.verdicts import (
    TIE_TOLERANCE,
    ScoreColumns,
    VerdictDetail,
    VerdictFault,
    Verdicts,
    counts_of,
    min_passing_score,
)

__all__ = [
    "TIE_TOLERANCE",
    "BoolArray",
    "ByteArray",
    "CallerEmbeddings",
    "Float32Array",
    "FloatArray",
    "GroupSpans",
    "IntArray",
    "JudgeSpec",
    "PanelMember",
    "Parameter",
    "ParameterScalar",
    "QueryGroup",
    "ScoreColumns",
    "Spans",
    "UnsignedArray",
    "VerdictDetail",
    "VerdictFault",
    "Verdicts",
    "counts_of",
    "min_passing_score",
]
