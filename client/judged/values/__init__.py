"""What goes over the wire, as Python has it: the one form of it, of the client and of the server.

Frozen dataclasses and enums, of the standard library alone. A field bears the name that it has in
the contract; `judged._codec` makes messages of values and values of messages.
"""

from judged.values.agreement import (
    Agreement as Agreement,
    MeasuredAgreement as MeasuredAgreement,
    RankAgreement as RankAgreement,
    RatingLevel as RatingLevel,
    RatingTable as RatingTable,
    SystemScores as SystemScores,
)
from judged.values.calibration import (
    CalibrateOptions as CalibrateOptions,
    Calibration as Calibration,
    CascadeBounds as CascadeBounds,
    JudgeQuality as JudgeQuality,
    LabelledScores as LabelledScores,
    Reliability as Reliability,
    ReliabilityBin as ReliabilityBin,
    Threshold as Threshold,
    ThresholdCriterion as ThresholdCriterion,
)
from judged.values.calibrators import (
    Calibrator as Calibrator,
    ErrorGuarantee as ErrorGuarantee,
    ItemShares as ItemShares,
    Shift as Shift,
)
from judged.values.calibration import (
    CascadeFrontier as CascadeFrontier,
    CascadeOptions as CascadeOptions,
    FrontierPoint as FrontierPoint,
    FrontierStage as FrontierStage,
    ScoredStage as ScoredStage,
    StagedLabels as StagedLabels,
    load_cascade as load_cascade,
    save_cascade as save_cascade,
)
from judged.values.choices import (
    CacheMode as CacheMode,
    ClaimVerdict as ClaimVerdict,
    Flag as Flag,
    Matching as Matching,
    NoGold as NoGold,
    Source as Source,
    Status as Status,
    Unjudged as Unjudged,
)
from judged.values.comparison import (
    CompareOptions as CompareOptions,
    ComparedRuns as ComparedRuns,
    ComparisonPower as ComparisonPower,
    DocumentRankings as DocumentRankings,
    MovedQuery as MovedQuery,
    RunComparison as RunComparison,
    RunRelevance as RunRelevance,
    TestResult as TestResult,
)
from judged.values.groups import (
    Context as Context,
    EmbeddedRanking as EmbeddedRanking,
    EmbeddedRankings as EmbeddedRankings,
    Embeddings as Embeddings,
    QueryGroup as QueryGroup,
    Span as Span,
    Spans as Spans,
)
from judged.values.choices import (
    CorrectedEstimate as CorrectedEstimate,
    Estimate as Estimate,
    HumanLabels as HumanLabels,
    Interval as Interval,
    IntervalMethod as IntervalMethod,
    IntervalOptions as IntervalOptions,
)
from judged.values.judges import (
    Asking as Asking,
    CascadeUsage as CascadeUsage,
    CostEstimate as CostEstimate,
    Judge as Judge,
    JudgeIdentity as JudgeIdentity,
    PanelMember as PanelMember,
    Scalar as Scalar,
    StageUsage as StageUsage,
    Usage as Usage,
)
from judged.values.metrics import (
    Evaluation as Evaluation,
    MetricCounts as MetricCounts,
    MetricOptions as MetricOptions,
    MetricResult as MetricResult,
    MetricSlice as MetricSlice,
    MetricTable as MetricTable,
    NegativeMatch as NegativeMatch,
    NegativeReport as NegativeReport,
    TextItem as TextItem,
    TextMetricResult as TextMetricResult,
    TextMetricTable as TextMetricTable,
)
from judged.values.agreement import (
    PairedComparison as PairedComparison,
    PositionBias as PositionBias,
    RankedSystem as RankedSystem,
    SystemRanking as SystemRanking,
)
from judged.values.agreement import (
    GainRanking as GainRanking,
    GainRankings as GainRankings,
    IdFit as IdFit,
    JudgedRanking as JudgedRanking,
    JudgedRankings as JudgedRankings,
    PerQueryValues as PerQueryValues,
    Relevance as Relevance,
    RetrievedDocuments as RetrievedDocuments,
    ScoredDocuments as ScoredDocuments,
    TrecRankings as TrecRankings,
)
from judged.values.scores import (
    AnswerItem as AnswerItem,
    AnswerScore as AnswerScore,
    DimensionScore as DimensionScore,
    Rubric as Rubric,
    RubricSummary as RubricSummary,
    ScoreCounts as ScoreCounts,
    ScoredAnswers as ScoredAnswers,
    VerifiedClaim as VerifiedClaim,
)
from judged.values.server_info import (
    BudgetLeft as BudgetLeft,
    ChatModelInfo as ChatModelInfo,
    JudgeInfo as JudgeInfo,
    Limits as Limits,
    MetricInfo as MetricInfo,
    ModelInfo as ModelInfo,
    ParameterInfo as ParameterInfo,
    RubricInfo as RubricInfo,
    ServerInfo as ServerInfo,
    TenantUsage as TenantUsage,
    UsageRow as UsageRow,
)
from judged.values.groups import (
    JudgedChunk as JudgedChunk,
    Verdict as Verdict,
    VerdictCounts as VerdictCounts,
    VerdictDetail as VerdictDetail,
    VerdictError as VerdictError,
    VerdictSample as VerdictSample,
    Verdicts as Verdicts,
)
