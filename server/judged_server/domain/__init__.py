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
    Calibrator,
    ErrorGuarantee,
    ItemShares,
    JudgeIdentity,
    JudgeSpec,
    PanelMember,
    ParameterScalar,
    stages_sha256,
)
from judged_server.domain.usage import CascadeUsage, StageUsage, Usage
from judged_server.domain.verdicts import (
    TIE_TOLERANCE,
    ScoreColumns,
    VerdictCounts,
    VerdictDetail,
    VerdictFault,
    Verdicts,
    VerdictSample,
    min_passing_score,
)

__all__ = [
    "TIE_TOLERANCE",
    "BoolArray",
    "ByteArray",
    "Calibrator",
    "CallerEmbeddings",
    "CascadeUsage",
    "ErrorGuarantee",
    "Float32Array",
    "FloatArray",
    "GroupSpans",
    "IntArray",
    "ItemShares",
    "JudgeIdentity",
    "JudgeSpec",
    "PanelMember",
    "ParameterScalar",
    "QueryGroup",
    "ScoreColumns",
    "Spans",
    "StageUsage",
    "UnsignedArray",
    "Usage",
    "VerdictCounts",
    "VerdictDetail",
    "VerdictFault",
    "VerdictSample",
    "Verdicts",
    "min_passing_score",
    "stages_sha256",
]
