"""Good requests: every judge, metric, rubric and option over texts drawn from fixed seeds."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from judged.v1 import groups_pb2, metrics_pb2, scores_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_service_pb2 as stats_pb

from tests.goldens.cases import METHODS, Call, Calls, Http, all_requests, pack
from tests.goldens.servers import LLM, PLAIN
from tests.integration.bad_input.panel import member
from tests.integration.scoring.score_requests import spec
from tests.unit.server.judges.reference import SPACES, WORDS

DATA = Path(__file__).resolve().parents[1] / "data" / "nq301" / "items.jsonl"
ITEMS = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
draw = random.Random(37)
_numbers = count()

METRICS = [
    *("precision@3", "recall@2", "recall", "f1@3", "hit_rate@1", "mrr", "mrr@2", "ap", "ap@3"),
    *("ndcg", "ndcg@3", "r_precision", "context_precision@3", "hybrid_log_rank", "err@3"),
    *("rbp(p=0.5)", "rbp@3", "rbp_residual"),
]
EXACT = ["recall_exact@2", "precision_exact", "f1_exact@2", "hybrid_log_rank_exact"]
NEAR = ["recall_similarity", "precision_similarity@2", "f1_similarity"]
POOLED = ["bpref", "judged@5", "infap"]
TEXT = ["bleu", "rouge1", "rouge2", "rougeL", "token_f1", "exact_match"]
METHODS_OF_INTERVALS = [
    metrics_pb2.IntervalOptions(method=method, resamples=200, seed=method, confidence=0.9)
    for method in (1, 2, 3)
]
MODES, POLICIES = (1, 2, 3), (1, 2, 3)


def odd_text() -> str:
    return "".join(draw.choice(WORDS) + draw.choice(SPACES) for _ in range(draw.randint(0, 9)))


def group(*, odd: bool = False, ids: bool = False, **more: Any) -> groups_pb2.QueryGroup:
    """A question with right and wrong answers, or words that texts trip over."""
    item, others = draw.choice(ITEMS), draw.sample(ITEMS, draw.randint(1, 3))
    retrieved = [item["retrieved"], *(other["retrieved"] for other in others)]
    draw.shuffle(retrieved)
    expected, query = item["expected"][:3], item["query"]
    if odd:
        query, expected = odd_text(), [odd_text() for _ in range(2)]
        retrieved = [expected[0].upper(), *(odd_text() for _ in range(3))]
    if ids:
        more |= {"document_ids": [f"d{draw.randrange(9)}" for _ in retrieved]}
    given = {"query_id": f"q{next(_numbers)}", "query": query, "expected": expected}
    return groups_pb2.QueryGroup(**{**given, "retrieved": retrieved, **more})


def groups(n: int, **more: Any) -> list[groups_pb2.QueryGroup]:
    return [group(**more) for _ in range(n)]


def with_topics(n: int) -> list[groups_pb2.QueryGroup]:
    return [group(ids=True, metadata={"topic": draw.choice("ab")}) for _ in range(n)]


def by_ids(*, graded: bool) -> groups_pb2.QueryGroup:
    listed = draw.sample([f"d{n}" for n in range(9)], 5)
    made = groups_pb2.QueryGroup(
        query_id=f"q{next(_numbers)}", retrieved=["t"] * 5, document_ids=listed
    )
    if graded:
        made.grades.update({listed[0]: 2, listed[4]: 1, "elsewhere": 3})
    else:
        made.relevant_document_ids.extend([*draw.sample(listed, 2), "elsewhere"])
    return made


def of_vectors(dimensions: int = 3) -> groups_pb2.QueryGroup:
    sides = {
        side: struct.pack(f"<{n * dimensions}f", *(draw.gauss(0, 1) for _ in range(n * dimensions)))
        for side, n in (("expected", 2), ("retrieved", 3))
    }
    vectors = groups_pb2.GroupEmbeddings(dimensions=dimensions, **sides)
    return groups_pb2.QueryGroup(query_id=f"q{next(_numbers)}", embeddings=vectors)


def of_spans() -> groups_pb2.QueryGroup:
    def span() -> groups_pb2.Span:
        first = draw.randrange(50)
        return groups_pb2.Span(file=draw.choice("fg"), start=first, end=first + draw.randint(1, 40))

    spans = groups_pb2.GroupSpans(
        expected=[span() for _ in range(2)], retrieved=[span() for _ in range(4)]
    )
    return groups_pb2.QueryGroup(query_id=f"q{next(_numbers)}", spans=spans)


def parameter(value: Any) -> groups_pb2.ParameterValue:
    kinds = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
    return groups_pb2.ParameterValue(**{kinds[type(value)]: value})


def judge(kind: str, profile: str = "", /, **given: Any) -> groups_pb2.JudgeSpec:
    known = {"min_score", "members", "calibration"}
    fields = {name: given.pop(name) for name in known & given.keys()}
    values = {name: parameter(value) for name, value in given.items()}
    return groups_pb2.JudgeSpec(kind=kind, profile=profile, parameters=values, **fields)


FREE = {
    "classic": judge("token_overlap"),
    "classic, strict": judge("token_overlap", "classic", min_tokens=4, query_boost=False),
    "weighted": judge("token_overlap", "weighted", min_tokens=3, min_score=0.4),
    "unicode": judge("token_overlap", "unicode"),
    "verbatim": judge("exact", "verbatim"),
    "normalized": judge("exact", "normalized", min_score=1.0),
    "answer_equivalence": judge("answer_equivalence"),
    "semantic": judge("semantic"),
    "semantic, window_max": judge("semantic", long_text="window_max", min_score=0.9),
    "semantic, reject": judge("semantic", long_text="reject"),
    **{
        f"panel, {profile}": judge(
            "panel", profile,
            members=[
                member(judge("exact", "normalized"), **({"weight": 2.0} if weighted else {})),
                member(judge("token_overlap")), member(judge("answer_equivalence")),
            ],
        )
        for profile, weighted in (("majority", False), ("mean", False), ("weighted", True))
    },
}  # fmt: skip
_KEY = "1078d467f6163e953889d821f159611f540b54bdc594c1e5c0305210f792caf7"
_CALIBRATED = judge(
    "exact", "normalized",
    calibration=groups_pb2.JudgeCalibration(
        calibrator=groups_pb2.Calibrator(scoring_key=_KEY, slope=4.0, intercept=-2.0, accept=0.8)
    ),
)  # fmt: skip
FREE["calibrated"] = _CALIBRATED
ASKING = {
    "llm": judge("llm"),
    "llm, three votes": judge("llm", samples=3, temperature=0.7, model="other"),
    "llm, graded": judge("llm", rubric="graded_relevance"),
    "llm, logprobs": judge("llm", scoring="logprobs", model="other"),
    "llm in a panel": judge("panel", members=[member(judge("llm")), member(judge("exact"))]),
    "llm in a cascade": judge("cascade", members=[member(_CALIBRATED), member(judge("llm"))]),
}


def judging(calls: Calls) -> Iterator[Call]:
    for server, judges in ((PLAIN, FREE), (LLM, ASKING)):
        for name, by in judges.items():
            for odd in (False, True):
                asked = pb.BatchJudgeRequest(groups=groups(4, odd=odd), judge=by)
                yield calls.of(name, server, asked)
            asked = pb.BatchJudgeRequest(groups=groups(3), judge=by, include_details=True)
            for cache in (1, 2, 3) if server == LLM else ():
                asked.asking.cache = cache
                yield calls.of(f"{name}, cache {cache}", server, asked)
            yield calls.of(name, server, pb.EstimateBatchRequest(judge=asked))
            first = pb.StreamJudgeStart(judge=by, include_details=True)
            chunks = [pb.JudgeChunk(chunk_id=n, groups=groups(2)) for n in (5, 2, 9)]
            sent = [pb.StreamJudgeRequest(chunk=each) for each in chunks]
            yield calls.of(name, server, pb.StreamJudgeRequest(start=first), *sent)
    for measure in ("iou", "containment"):
        asked = pb.BatchJudgeRequest(
            groups=[of_spans() for _ in range(4)], judge=judge("span", measure=measure)
        )
        yield calls.of(f"span, {measure}", PLAIN, asked)
    asked = pb.BatchJudgeRequest(
        groups=[of_vectors() for _ in range(4)], judge=judge("semantic", model="caller")
    )
    yield calls.of("semantic, vectors of the caller", PLAIN, asked)
    large = pb.BatchJudgeRequest(groups=groups(400), judge=FREE["classic"])
    yield calls.of("large", PLAIN, large)


def options_of_verdicts() -> Iterator[metrics_pb2.MetricOptions]:
    yield metrics_pb2.MetricOptions(per_query=True)
    for interval in METHODS_OF_INTERVALS:
        yield metrics_pb2.MetricOptions(interval=interval, slice_by=["topic"])
    for matching in MODES:
        verdicts = metrics_pb2.VerdictOptions(matching=matching)
        yield metrics_pb2.MetricOptions(per_query=True, verdicts=verdicts)
    for no_gold in POLICIES:
        verdicts = metrics_pb2.VerdictOptions(no_gold=no_gold, strict_duplicates=no_gold == 2)
        yield metrics_pb2.MetricOptions(per_query=True, verdicts=verdicts)


def evaluating(calls: Calls) -> Iterator[Call]:
    for number, options in enumerate(options_of_verdicts()):
        name, by = list(FREE.items())[number % len(FREE)]
        given: dict[str, Any] = {"judge": by, "options": options, "metrics": METRICS}
        if options.verdicts.matching == metrics_pb2.MATCHING_MODE_ANY:
            given["metrics"] = [*METRICS[:7], *EXACT, *NEAR]
        queries = [*with_topics(7), group(expected=[]), group(retrieved=[])]
        asked = pb.EvaluateRequest(groups=queries, include_verdicts=number % 2 == 0, **given)
        yield calls.of(f"options, {name}", PLAIN, asked)
        first = pb.StreamEvaluateStart(include_verdicts=number % 2 == 1, **given)
        chunks = [pb.EvaluateChunk(chunk_id=n, groups=queries[n::2]) for n in (1, 0)]
        sent = [pb.StreamEvaluateRequest(chunk=each) for each in chunks]
        yield calls.of(f"options, {name}", PLAIN, pb.StreamEvaluateRequest(start=first), *sent)
    common: dict[str, Any] = {"metrics": ["mrr", "ndcg@3", "recall@2"]}
    negative = [group(negatives=[draw.choice(ITEMS)["retrieved"]]) for _ in range(3)]
    for name, server, queries, by in (
        ("negatives", PLAIN, negative, FREE["classic"]),
        ("ids", PLAIN, [by_ids(graded=False) for _ in range(4)], None),
        ("grades", PLAIN, [by_ids(graded=True) for _ in range(4)], None),
        ("spans", PLAIN, [of_spans() for _ in range(4)], judge("span")),
        ("llm", LLM, groups(3), ASKING["llm"]),
        ("graded", LLM, groups(3), ASKING["llm, graded"]),
        ("panel", LLM, groups(3), ASKING["llm in a panel"]),
    ):
        asked = pb.EvaluateRequest(groups=queries, judge=by, include_verdicts=True, **common)
        yield calls.of(name, server, asked)


def topics(n: int = 8) -> dict[str, dict[str, float]]:
    return {
        str(topic): {f"d{d}": draw.choice([0, 0, 1, 2]) for d in draw.sample(range(20), 8)}
        for topic in range(n)
    }


def run_of(qrels: dict[str, dict[str, float]]) -> list[metrics_pb2.TopicRun]:
    return [
        metrics_pb2.TopicRun(
            query_id=topic,
            document_ids=(listed := [f"d{d}" for d in draw.sample(range(20), 7)]),
            scores=[round(draw.random(), 1) for _ in listed],  # some tie
        )
        for topic in qrels
    ][:-1]


def qrels_of(qrels: dict[str, dict[str, float]]) -> list[metrics_pb2.TopicQrels]:
    return [
        metrics_pb2.TopicQrels(query_id=topic, document_ids=each, grades=map(int, each.values()))
        for topic, each in qrels.items()
    ]


def columns(of: dict[str, dict[str, float]]) -> metrics_pb2.TopicColumns:
    values = [value for each in of.values() for value in each.values()]
    ids = "".join(f"{d}\n" for each in of.values() for d in each).removesuffix("\n")
    return metrics_pb2.TopicColumns(
        query_ids=of, n_documents=[len(each) for each in of.values()],
        document_ids=ids, values=struct.pack(f"<{len(values)}d", *values),
    )  # fmt: skip


def values(*names: str, n: int = 12) -> metrics_pb2.PerQueryValues:
    table = [[round(draw.random(), 3) for _ in range(n)] for _ in names]
    made = [metrics_pb2.ValueColumn(values=each) for each in table]
    return metrics_pb2.PerQueryValues(query_ids=[f"q{i}" for i in range(n)], columns=made)


def judged_rankings(n: int = 9, human: int = 0, graded: bool = False) -> metrics_pb2.JudgedRankings:
    rankings = [
        metrics_pb2.JudgedRanking(
            query_id=f"q{i}", expected=1 if graded else draw.randint(0, 2), retrieved=3
        )
        for i in range(n)
    ]
    pairs = sum(each.expected * each.retrieved for each in rankings)
    relevant = [draw.random() < 0.4 for _ in range(pairs)]
    verdicts = verdicts_pb2.VerdictColumns(relevant=relevant)
    if graded:
        verdicts.score.extend(draw.randint(0, 3) / 3 for _ in relevant)
    found = metrics_pb2.JudgedRankings(rankings=rankings, verdicts=verdicts)
    if human:
        found.human_labels.query_ids.extend(f"q{i}" for i in range(human))
        of_human = sum(each.expected * each.retrieved for each in rankings[:human])
        found.human_labels.relevant.extend(draw.random() < 0.4 for _ in range(of_human))
    found.max_grade = 3 if graded else 0
    return found


def gains() -> metrics_pb2.GainRankings:
    def ranking(i: int) -> metrics_pb2.GainRanking:
        return metrics_pb2.GainRanking(
            query_id=f"q{i}", gains=draw.sample([0, 0, 0.5, 1, 3], 4), relevant_gains=[3, 1, 1, 0.5]
        )

    return metrics_pb2.GainRankings(rankings=map(ranking, range(8)))


def measuring(calls: Calls) -> Iterator[Call]:
    def asked(about: str, metrics: list[str], options: Any = None, **relevance: Any) -> Call:
        request = pb.ComputeMetricsRequest(metrics=metrics, options=options, **relevance)
        for topic in range(6 if options and options.slice_by else 0):
            request.metadata.add(query_id=f"q{topic}", metadata={"topic": "ab"[topic % 2]})
        return calls.of(about, PLAIN, request)

    for options in options_of_verdicts():
        wide = options.verdicts.matching == metrics_pb2.MATCHING_MODE_ANY
        names = METRICS[:7] if wide else METRICS
        yield asked("judged", names, options, judged=judged_rankings())
        if not options.per_query or options.HasField("verdicts"):
            yield asked("judged, labelled", names, options, judged=judged_rankings(human=5))
    yield asked("judged, graded", METRICS, judged=judged_rankings(graded=True))
    for number in range(10):
        options = metrics_pb2.MetricOptions(per_query=number % 2 == 0)
        qrels = options.qrels
        if number < 6:
            qrels.complete, qrels.unjudged = number % 2 == 1, POLICIES[number % 3]
        elif number < 8:
            qrels.relevance_level, qrels.max_documents = number - 5, 3
        else:
            options.interval.CopyFrom(METHODS_OF_INTERVALS[number - 8])
        pooled = METRICS + (POOLED if number in {1, 6, 7, 8, 9} else [])
        table = topics()
        rankings = metrics_pb2.TrecRankings(qrels=qrels_of(table), run=run_of(table))
        yield asked("trec", pooled, options, trec=rankings)
        scored = {t: {d: draw.random() for d in each} for t, each in topics().items()}
        rankings = metrics_pb2.TrecRankings(
            qrels_columns=columns(table), run_columns=columns(scored)
        )
        yield asked("trec columns", pooled, options, trec=rankings)
    for interval in METHODS_OF_INTERVALS:
        options = metrics_pb2.MetricOptions(interval=interval, per_query=interval.seed == 1)
        yield asked("gains", METRICS, options, gains=gains())
        two = ["ap", "recall"]
        yield asked("values", two, options, values=values(*two))
        machine, human = values(*two), values(*two, n=5)
        yield asked("values, labelled", two, options, values=machine, human_values=human)
        vectors = [of_vectors() for _ in range(4)]
        rankings = pb.EmbeddedRankings(
            rankings=[
                pb.EmbeddedRanking(query_id=each.query_id, embeddings=each.embeddings)
                for each in vectors
            ],
            min_score=0.3,
        )
        yield asked("embedded", [*METRICS[:7], *NEAR], options, embedded=rankings)


def statistics(calls: Calls) -> Iterator[Call]:
    intervals = [None, *METHODS_OF_INTERVALS]
    for number, interval in enumerate(intervals):
        items = [
            stats_pb.TextItem(hypothesis=item["retrieved"], references=item["expected"])
            for item in draw.sample(ITEMS, 20)
        ]
        items += [stats_pb.TextItem(hypothesis=odd_text(), references=[odd_text(), "a"])]
        request = stats_pb.ComputeTextMetricsRequest(
            metrics=TEXT, items=items, interval=interval, per_item=number % 2 == 0
        )
        yield calls.of("texts", PLAIN, request)
        qrels = topics()
        compared = [
            stats_pb.ComparedRun(
                name=name, documents=stats_pb.DocumentRankings(topics=run_of(qrels))
            )
            for name in ("a", "b", "c")[: 2 + number % 2]
        ]
        comparison = stats_pb.CompareOptions(
            permutations=500, seed=number, max_moved=number, difference=0.1 if number else None
        )
        request = stats_pb.CompareRunsRequest(
            metrics=["ap", "ndcg@3"], runs=compared, qrels=qrels_of(qrels), comparison=comparison
        )
        yield calls.of("documents", PLAIN, request)
        compared = [stats_pb.ComparedRun(name=name, values=values("x", "y")) for name in "abc"]
        request = stats_pb.CompareRunsRequest(
            metrics=["ap", "recall"], runs=compared, comparison=comparison
        )
        yield calls.of("values", PLAIN, request)
        compared = [stats_pb.ComparedRun(name=name, judged=judged_rankings()) for name in "ab"]
        request = stats_pb.CompareRunsRequest(
            metrics=["mrr", "recall@2"], runs=compared, comparison=comparison
        )
        yield calls.of("judged", PLAIN, request)
        for level in stats_pb.RatingLevel.values()[1:]:
            raters = [
                stats_pb.Rater(name=name, ratings=draw.choices([0, 1, 2, -1], [4, 3, 2, 1], k=60))
                for name in ("ann", "bob", "cem")[: 2 + number % 2]
            ]
            table = stats_pb.RatingTable(categories=["a", "b", "c"], raters=raters, level=level)
            request = stats_pb.MeasureAgreementRequest(ratings=table, interval=interval)
            yield calls.of(f"level {level}", PLAIN, request)
        request = stats_pb.MeasureAgreementRequest(
            systems=stats_pb.SystemScores(
                systems="abcdef", first=[draw.random() for _ in "abcdef"], second=range(6)
            )
        )
        yield calls.of("systems", PLAIN, request)
        yield calls.of("labels", PLAIN, _calibrate(number, interval))
        yield calls.of("labels", PLAIN, _cascade(number))
        systems, n = ["a", "b", "c"], 60
        pairs = [draw.sample(range(3), 2) for _ in range(n)]
        request = stats_pb.RankSystemsRequest(
            systems=systems, query_ids=[f"q{i // 2}" for i in range(n)],
            first=[one for one, _ in pairs], second=[other for _, other in pairs],
            preference=draw.choices([0.0, 0.5, 1.0], k=n),
            interval=metrics_pb2.IntervalOptions(resamples=100 + 50 * number, seed=3),
        )  # fmt: skip
        yield calls.of("preferences", PLAIN, request)


def _labels(n: int) -> tuple[list[float], list[bool]]:
    scores = [round(draw.random(), 2) for _ in range(n)]
    return scores, [draw.random() < score for score in scores]


_KEYED = verdicts_pb2.JudgeIdentity(kind="exact", scoring_key="0" * 64)


def _calibrate(number: int, interval: Any) -> stats_pb.CalibrateRequest:
    scores, labels = _labels(120)
    more: dict[str, Any] = [
        {},
        {"min_score": 0.6, "clusters": [i // 2 for i in range(120)], "max_error": 0.2},
        {"precision_floor": 0.7, "folds": 3, "criterion": 2, "judge": _KEYED},
        {"max_share": 0.3, "judge": _KEYED, "inclusion_probabilities": [0.5, 1.0] * 40},
    ][number]
    return stats_pb.CalibrateRequest(
        scores=scores, labelled=range(80), labels=labels[:80], interval=interval, **more
    )


def _cascade(number: int) -> stats_pb.CalibrateCascadeRequest:
    scores, labels = _labels(200)
    second = stats_pb.ScoredStage(
        judge=verdicts_pb2.JudgeIdentity(kind="llm", scoring_key="1" * 64), cost=0.1,
        scores=[float(each) for each in labels], missing=[3, 8], flagged=[1],
    )  # fmt: skip
    more: dict[str, Any] = [
        {"max_error": 0.2}, {"max_share": 0.2}, {"max_error": 0.1, "may_abstain": True},
        {"max_cost": 0.05, "clusters": [i // 2 for i in range(200)], "seed": 4},
    ][number]  # fmt: skip
    first = stats_pb.ScoredStage(judge=_KEYED, scores=scores)
    return stats_pb.CalibrateCascadeRequest(stages=[first, second], labels=labels, **more)


def answer(item_id: str, *words: str) -> scores_pb2.AnswerItem:
    item = draw.choice(ITEMS)
    texts = ". ".join([item["retrieved"], *words])
    return scores_pb2.AnswerItem(
        item_id=item_id, query=item["query"], answer=texts, references=item["expected"],
        contexts=[item["expected"][0], "another"], other_answer="or so", confidence=0.8,
        sources_used=["another"],
    )  # fmt: skip


def scoring(calls: Calls) -> Iterator[Call]:
    words = ((), ("bad",), ("failing",), ("refuse",), ("broken",), ("split", "none"))
    rubrics = [
        *("answer_match", "answer_preference", "answer_quality", "answer_relevance"),
        *("context_recall", "context_relevance", "faithfulness", "harmlessness", "helpfulness"),
    ]
    specs = {name: [spec(name)] for name in rubrics} | {
        "two rubrics": [spec("answer_relevance", 0.5), spec("faithfulness")],
        "three votes": [spec("helpfulness", samples=3, temperature=0.5)],
        "another model": [spec("answer_match", model="other")],
        "weights": [spec("answer_quality", weights={"relevance": 3.0, "coherence": 0.0})],
        "few tokens": [spec("faithfulness", max_context_tokens=2)],
    }
    for name, given in specs.items():
        items = [answer(f"{name} {n}", *more) for n, more in enumerate(words)]
        asked = pb.ScoreAnswersRequest(items=items, rubrics=given, include_replies=len(given) > 1)
        yield calls.of(name, LLM, pb.EstimateBatchRequest(score=asked))
        yield calls.of(name, LLM, asked)
    asked.asking.cache = groups_pb2.CACHE_MODE_ONLY
    yield calls.of("from the cache", LLM, asked)
    asked.asking.CopyFrom(groups_pb2.AskingOptions(cache=2, max_cost=1e-9))
    yield calls.of("beyond the limit", LLM, asked)


def good_calls(calls: Calls) -> Iterator[Call]:
    for server in (PLAIN, LLM):
        yield calls.of(server, server, pb.GetServerInfoRequest())
    for part in (judging, evaluating, measuring, statistics, scoring):
        yield from part(calls)
    for server, days in ((PLAIN, 0), (LLM, 0), (LLM, 7)):
        yield calls.of(f"{server} {days}", server, pb.GetUsageRequest(days=days))


def by_http(calls: Calls, called: list[Call]) -> Iterator[Http]:
    """Yield every tenth of the calls as a request by HTTP."""
    offered = [call for call in called if not METHODS[call.method].client_streaming]
    for call in offered[::10]:
        request = next(all_requests(call))
        body = json_format.MessageToJson(request, preserving_proto_field_name=True, indent=None)
        head = f"POST /v1/{call.method} HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        yield Http(calls.named(f"HTTP {call.name}"), call.server, pack((head + body).encode()))
