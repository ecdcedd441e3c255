"""Good requests: every judge, metric, rubric and option over texts drawn from fixed seeds."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_service_pb2 as stats_pb

from tests.goldens.cases import METHODS, Call, Http, pack, read_message
from tests.goldens.servers import LLM, PLAIN
from tests.integration.scoring.score_requests import spec
from tests.unit.server.judges.reference import SPACES, WORDS

Fields = dict[str, Any]
"""What a message is made of, with those in it as they are in JSON."""
DATA = Path(__file__).resolve().parents[2] / "data" / "nq301" / "items.jsonl"
ITEMS = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
draw, _ids = random.Random(37), (f"q{n}" for n in count())

METRICS = [
    "precision@3",
    "recall@2",
    "recall",
    "f1@3",
    "hit_rate@1",
    "mrr",
    "mrr@2",
    "ap",
    "ap@3",
    "ndcg",
    "ndcg@3",
    "r_precision",
    "context_precision@3",
    "hybrid_log_rank",
    "err@3",
    "rbp(p=0.5)",
    "rbp@3",
    "rbp_residual",
]
OF_ANY = METRICS[:7]
"""Metrics of the matching mode any."""
ON_THE_WAY = [
    "recall_exact@2",
    "precision_exact",
    "f1_exact@2",
    "hybrid_log_rank_exact",
    "recall_similarity",
    "precision_similarity@2",
    "f1_similarity",
]
POOLED = [*METRICS, "bpref", "judged@5", "infap"]
TEXT = ["bleu", "rouge1", "rouge2", "rougeL", "token_f1", "exact_match"]
INTERVALS: list[Fields] = [
    {"method": method, "resamples": 200, "seed": method, "confidence": 0.9} for method in (1, 2, 3)
]


def odd_text() -> str:
    return "".join(draw.choice(WORDS) + draw.choice(SPACES) for _ in range(draw.randint(0, 9)))


def group(**more: Any) -> Fields:
    """A question with right and wrong answers."""
    item, others = draw.choice(ITEMS), draw.sample(ITEMS, draw.randint(1, 3))
    retrieved = [each["retrieved"] for each in (item, *others)]
    draw.shuffle(retrieved)
    found = {"query_id": next(_ids), "query": item["query"], "expected": item["expected"][:3]}
    return {**found, "retrieved": retrieved, **more}


def odd_group() -> Fields:
    """Words that texts trip over."""
    query, *texts = (odd_text() for _ in range(6))
    found = {"query_id": next(_ids), "query": query, "expected": texts[:2]}
    return {**found, "retrieved": [texts[0].upper(), *texts[2:]]}


def with_topic() -> Fields:
    made = group(metadata={"topic": draw.choice("ab")})
    return {**made, "document_ids": [f"d{draw.randrange(9)}" for _ in made["retrieved"]]}


def by_ids(*, graded: bool) -> Fields:
    ids = draw.sample([f"d{n}" for n in range(9)], 5)
    found = {"query_id": next(_ids), "retrieved": ["t"] * 5, "document_ids": ids}
    grades = {ids[0]: 2, ids[4]: 1, "elsewhere": 3}
    return {**found, **({"grades": grades} if graded else {"relevant_document_ids": list(grades)})}


def of_vectors() -> Fields:
    def vectors(n: int) -> bytes:
        return struct.pack(f"<{3 * n}f", *(draw.gauss(0, 1) for _ in range(3 * n)))

    sides = {"dimensions": 3, "expected": vectors(2), "retrieved": vectors(3)}
    return {"query_id": next(_ids), "embeddings": sides}


def of_spans() -> Fields:
    def span() -> Fields:
        start = draw.randrange(50)
        return {"file": draw.choice("fg"), "start": start, "end": start + draw.randint(1, 40)}

    spans = {"expected": [span(), span()], "retrieved": [span() for _ in range(4)]}
    return {"query_id": next(_ids), "spans": spans}


def many(n: int, make: Any = group, **more: Any) -> list[Any]:
    return [make(**more) for _ in range(n)]


def judge(kind: str, profile: str = "", /, **parameters: Any) -> Fields:
    """A judge; what is no parameter is among `parameters` too."""
    apart = {"min_score", "members", "calibration"} & parameters.keys()
    fields = {name: parameters.pop(name) for name in apart}
    kinds = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
    values = {name: {kinds[type(value)]: value} for name, value in parameters.items()}
    return {"kind": kind, "profile": profile, "parameters": values, **fields}


def members(*judges: Fields, weights: tuple[float, ...] = ()) -> list[Fields]:
    made = [{"judge": each} for each in judges]
    return [{**one, "weight": w} for one, w in zip(made, weights, strict=True)] if weights else made


THREE = (judge("exact", "normalized"), judge("token_overlap"), judge("answer_equivalence"))
_KEY = "1078d467f6163e953889d821f159611f540b54bdc594c1e5c0305210f792caf7"
_CALIBRATOR = {"scoring_key": _KEY, "slope": 4.0, "intercept": -2.0, "accept": 0.8}
CALIBRATED = judge("exact", "normalized", calibration={"calibrator": _CALIBRATOR})
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
    "majority": judge("panel", "majority", members=members(*THREE)),
    "mean": judge("panel", "mean", members=members(*THREE)),
    "panel, weighted": judge("panel", "weighted", members=members(*THREE, weights=(2, 1, 0.5))),
    "calibrated": CALIBRATED,
}
ASKING = {
    "llm": judge("llm"),
    "llm, three votes": judge("llm", samples=3, temperature=0.7, model="other"),
    "llm, graded": judge("llm", rubric="graded_relevance"),
    "llm in a panel": judge("panel", members=members(judge("llm"), judge("exact"))),
    "llm in a cascade": judge("cascade", members=members(CALIBRATED, judge("llm"))),
}


def made(kind: Any, **fields: Any) -> Any:
    """Return a message; bytes stand in `fields` as they are."""
    return json_format.ParseDict(json.loads(json.dumps(fields, default=_base64)), kind())


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def judging() -> Iterator[Call]:
    for server, judges in ((PLAIN, FREE), (LLM, ASKING)):
        for name, by in judges.items():
            for groups in (many(4), many(4, odd_group)):
                yield Call.of(name, server, made(pb.BatchJudgeRequest, groups=groups, judge=by))
            detailed: Fields = {"groups": many(3), "judge": by, "include_details": True}
            for cache in (1, 2, 3) if server == LLM else ():
                asked = made(pb.BatchJudgeRequest, **detailed, asking={"cache": cache})
                yield Call.of(f"{name}, cache {cache}", server, asked)
            yield Call.of(name, server, made(pb.EstimateBatchRequest, judge=detailed))
            messages: list[Fields] = [{"start": {"judge": by, "include_details": True}}]
            messages += [{"chunk": {"chunk_id": n, "groups": many(2)}} for n in (5, 2, 9)]
            yield Call.of(name, server, *(made(pb.StreamJudgeRequest, **m) for m in messages))
    for name, by, groups in (
        ("iou", judge("span", measure="iou"), many(4, of_spans)),
        ("containment", judge("span", measure="containment"), many(4, of_spans)),
        ("vectors of the caller", judge("semantic", model="caller"), many(4, of_vectors)),
        ("large", FREE["classic"], many(400)),
    ):
        yield Call.of(name, PLAIN, made(pb.BatchJudgeRequest, groups=groups, judge=by))


def options_of_verdicts() -> Iterator[Fields]:
    yield {"per_query": True}
    for interval in INTERVALS:
        yield {"interval": interval, "slice_by": ["topic"]}
    for mode in ("GREEDY_FIRST", "MAXIMUM", "ANY"):
        yield {"per_query": True, "verdicts": {"matching": f"MATCHING_MODE_{mode}"}}
    for policy in ("SKIP", "ZERO", "ERROR"):
        yield {"per_query": True, "verdicts": {"no_gold": f"NO_GOLD_POLICY_{policy}"}}


def evaluating() -> Iterator[Call]:
    judges = list(FREE.items())
    for number, options in enumerate(
        [*options_of_verdicts(), {"verdicts": {"strict_duplicates": True}}]
    ):
        name, by = judges[number % len(judges)]
        wide = "MATCHING_MODE_ANY" in str(options)
        metrics = [*OF_ANY, *ON_THE_WAY] if wide else METRICS
        given: Fields = {"judge": by, "options": options, "metrics": metrics}
        groups = [*many(7, with_topic), group(expected=[]), group(retrieved=[])]
        asked = made(pb.EvaluateRequest, groups=groups, include_verdicts=number % 2 == 0, **given)
        yield Call.of(f"options, {name}", PLAIN, asked)
        messages: list[Fields] = [{"start": {**given, "include_verdicts": number % 2 == 1}}]
        messages += [{"chunk": {"chunk_id": n, "groups": groups[n::2]}} for n in (1, 0)]
        sent = (made(pb.StreamEvaluateRequest, **each) for each in messages)
        yield Call.of(f"options, {name}", PLAIN, *sent)
    others: list[tuple[str, str, list[Fields], Fields | None]] = [
        ("negatives", PLAIN, many(3, negatives=[draw.choice(ITEMS)["retrieved"]]), FREE["unicode"]),
        ("ids", PLAIN, many(4, by_ids, graded=False), None),
        ("grades", PLAIN, many(4, by_ids, graded=True), None),
        ("spans", PLAIN, many(4, of_spans), judge("span")),
        *((name, LLM, many(3), ASKING[name]) for name in list(ASKING)[:3]),
    ]
    for name, server, groups, one in others:
        given = {"metrics": ["mrr", "ndcg@3", "recall@2"], "include_verdicts": True, "judge": one}
        yield Call.of(name, server, made(pb.EvaluateRequest, groups=groups, **given))


def qrels(n: int = 8) -> list[Fields]:
    return [
        {"query_id": str(topic), "document_ids": [f"d{d}" for d in draw.sample(range(20), 8)]}
        | {"grades": draw.choices([0, 0, 1, 2], k=8)}
        for topic in range(n)
    ]


def run(n: int = 7) -> list[Fields]:
    return [
        {"query_id": str(topic), "document_ids": [f"d{d}" for d in draw.sample(range(20), 7)]}
        | {"scores": [round(draw.random(), 1) for _ in range(7)]}  # some tie
        for topic in range(n)
    ]


def columns(topics: list[Fields], values: str) -> Fields:
    packed = [value for topic in topics for value in topic[values]]
    ids = [each for topic in topics for each in topic["document_ids"]]
    return {
        "query_ids": [topic["query_id"] for topic in topics],
        "n_documents": [len(topic["document_ids"]) for topic in topics],
        "document_ids": "\n".join(ids),
        "values": struct.pack(f"<{len(packed)}d", *packed),
    }


def values(columns: int, n: int = 12) -> Fields:
    table = [{"values": [round(draw.random(), 3) for _ in range(n)]} for _ in range(columns)]
    return {"query_ids": [f"q{i}" for i in range(n)], "columns": table}


def judged(human: int = 0, max_grade: int = 0, least: int = 0) -> Fields:
    rankings = [
        {
            "query_id": f"q{i}",
            "expected": draw.randint(least, 1 if max_grade else 2),
            "retrieved": 3,
        }
        for i in range(9)
    ]

    def relevant(of: list[Any]) -> list[bool]:
        return draw.choices([True, False, False], k=sum(r["expected"] * r["retrieved"] for r in of))

    verdicts: Fields = {"relevant": relevant(rankings)}
    if max_grade:
        verdicts["score"] = [draw.randint(0, max_grade) / max_grade for _ in verdicts["relevant"]]
    found: Fields = {"rankings": rankings, "verdicts": verdicts, "max_grade": max_grade}
    if human:
        said = {
            "query_ids": [f"q{i}" for i in range(human)],
            "relevant": relevant(rankings[:human]),
        }
        found["human_labels"] = said
    return found


def gains() -> Fields:
    lists = ((draw.sample([0, 0, 0.5, 1, 3], 4), [3, 1, 1, 0.5]) for _ in range(8))
    return {
        "rankings": [
            {"query_id": f"q{i}", "gains": got, "relevant_gains": all_of}
            for i, (got, all_of) in enumerate(lists)
        ]
    }


def measured(about: str, metrics: list[str], options: Fields, **relevance: Any) -> Call:
    topics = [{"query_id": f"q{i}", "metadata": {"topic": "ab"[i % 2]}} for i in range(6)]
    given = {"metadata": topics} if "slice_by" in options else {}
    fields = {"metrics": metrics, "options": options, **given, **relevance}
    return Call.of(about, PLAIN, made(pb.ComputeMetricsRequest, **fields))


def measuring() -> Iterator[Call]:
    for options in options_of_verdicts():
        metrics = OF_ANY if "MATCHING_MODE_ANY" in str(options) else METRICS
        least = 1 if "ERROR" in str(options) else 0
        yield measured("judged", metrics, options, judged=judged(least=least))
        human = {**options, "per_query": False}
        yield measured("judged, labelled", metrics, human, judged=judged(5, least=least))
    yield measured("judged, graded", METRICS, {}, judged=judged(max_grade=3))
    policies = [f"UNJUDGED_POLICY_{name}" for name in ("NON_RELEVANT", "CONDENSED", "BOUNDS")]
    of_qrels: list[tuple[list[str], Fields]] = [
        *((METRICS, {"qrels": {"unjudged": policy}}) for policy in policies),
        *((METRICS, {"qrels": {"unjudged": policy, "complete": True}}) for policy in policies),
        (POOLED, {"per_query": True}),
        (POOLED, {"qrels": {"relevance_level": 2, "max_documents": 3}}),
        *((POOLED, {"interval": interval}) for interval in INTERVALS),
    ]
    for metrics, options in of_qrels:
        table, ranked = qrels(), run()
        yield measured("trec", metrics, options, trec={"qrels": table, "run": ranked})
        packed = {
            "qrels_columns": columns(table, "grades"),
            "run_columns": columns(run(), "scores"),
        }
        yield measured("trec columns", metrics, options, trec=packed)
    for interval in INTERVALS:
        options, two = {"interval": interval}, ["ap", "recall"]
        yield measured("gains", METRICS, options, gains=gains())
        yield measured("values", two, options, values=values(2))
        yield measured("human values", two, options, values=values(2), human_values=values(2, 5))
        vectors = {"rankings": many(4, of_vectors), "min_score": 0.3}
        yield measured("embedded", [*OF_ANY, *ON_THE_WAY[4:]], options, embedded=vectors)


def comparing() -> Iterator[Call]:
    for number in range(4):
        comparison: Fields = {"permutations": 500, "seed": number, "max_moved": number}
        comparison |= {"difference": 0.1} if number else {}
        names = "abc"[: 2 + number % 2]
        of_documents = [{"name": name, "documents": {"topics": run()}} for name in names]
        of_values = [{"name": name, "values": values(2)} for name in names]
        of_verdicts = [{"name": name, "judged": judged()} for name in names]
        for about, metrics, runs, more in (
            ("documents", ["ap", "ndcg@3"], of_documents, {"qrels": qrels()}),
            ("values", ["ap", "recall"], of_values, {}),
            ("judged", ["mrr", "recall@2"], of_verdicts, {}),
            ("gains", ["ndcg@3"], [{"name": name, "gains": gains()} for name in names], {}),
        ):
            given = {"metrics": metrics, "runs": runs, "comparison": comparison, **more}
            yield Call.of(about, PLAIN, made(stats_pb.CompareRunsRequest, **given))


def statistics() -> Iterator[Call]:
    for number, interval in enumerate([{}, *INTERVALS]):
        items = [
            {"hypothesis": item["retrieved"], "references": item["expected"]}
            for item in draw.sample(ITEMS, 20)
        ]
        items.append({"hypothesis": odd_text(), "references": [odd_text(), "a"]})
        texts = {"metrics": TEXT, "items": items, "per_item": number % 2 == 0}
        yield Call.of(
            "texts", PLAIN, made(stats_pb.ComputeTextMetricsRequest, **texts, interval=interval)
        )
        for level in range(1, 4):
            raters = [
                {"name": name, "ratings": draw.choices([0, 1, 2, -1], [4, 3, 2, 1], k=60)}
                for name in ("ann", "bob", "cem")[: 2 + number % 2]
            ]
            table = {"categories": ["a", "b", "c"], "raters": raters, "level": level}
            rated = made(stats_pb.MeasureAgreementRequest, ratings=table, interval=interval)
            yield Call.of(f"level {level}", PLAIN, rated)
        systems = {
            "systems": list("abcdef"),
            "first": draw.sample(range(9), 6),
            "second": [*range(6)],
        }
        yield Call.of("systems", PLAIN, made(stats_pb.MeasureAgreementRequest, systems=systems))
        preferred = made(
            stats_pb.RankSystemsRequest,
            systems=["a", "b", "c"],
            query_ids=[f"q{i // 2}" for i in range(60)],
            first=[i % 3 for i in range(60)],
            second=[(i + 1 + i // 3 % 2) % 3 for i in range(60)],
            preference=draw.choices([0.0, 0.5, 1.0], k=60),
            interval={"resamples": 100 + 50 * number, "seed": 3},
        )
        yield Call.of("preferences", PLAIN, preferred)


def scores_and_labels(n: int) -> tuple[list[float], list[bool]]:
    scores = [round(draw.random(), 2) for _ in range(n)]
    return scores, [draw.random() < score for score in scores]


def calibrating() -> Iterator[Call]:
    first, second = ({"kind": kind, "scoring_key": kind[0] * 64} for kind in ("exact", "ditto"))
    pairs = [i // 2 for i in range(200)]
    of_judge: list[Fields] = [
        {},
        {"min_score": 0.6, "clusters": pairs[:120], "max_error": 0.2, "interval": INTERVALS[0]},
        {"precision_floor": 0.7, "folds": 3, "criterion": 2, "judge": first},
        {"max_share": 0.3, "judge": first, "inclusion_probabilities": [0.5, 1.0] * 40},
    ]
    for more in of_judge:
        scores, labels = scores_and_labels(120)
        known = {"scores": scores, "labelled": [*range(80)], "labels": labels[:80]}
        yield Call.of("labels", PLAIN, made(stats_pb.CalibrateRequest, **known, **more))
    of_cascade: list[Fields] = [
        {"max_error": 0.2},
        {"max_share": 0.2},
        {"max_error": 0.1, "may_abstain": True},
        {"max_cost": 0.05, "clusters": pairs, "seed": 4},
    ]
    for more in of_cascade:
        scores, labels = scores_and_labels(200)
        right = {"judge": second, "cost": 0.1, "scores": [*map(float, labels)], "missing": [3, 8]}
        stages = [{"judge": first, "scores": scores}, {**right, "flagged": [1]}]
        asked = made(stats_pb.CalibrateCascadeRequest, stages=stages, labels=labels, **more)
        yield Call.of("labels", PLAIN, asked)


def answer(item_id: str, *words: str) -> Fields:
    item = draw.choice(ITEMS)
    more: Fields = {"contexts": [item["expected"][0], "another"], "sources_used": ["another"]}
    more |= {"item_id": item_id, "query": item["query"], "references": item["expected"]}
    answer = ". ".join([item["retrieved"], *words])
    return {**more, "answer": answer, "other_answer": "or so", "confidence": 0.8}


def scoring() -> Iterator[Call]:
    words = ((), ("bad",), ("failing",), ("refuse",), ("broken",), ("split", "none"))
    rubrics = [
        "answer_match",
        "answer_preference",
        "answer_quality",
        "answer_relevance",
        "context_recall",
        "context_relevance",
        "faithfulness",
        "harmlessness",
        "helpfulness",
    ]
    for name, specs in {
        **{name: [spec(name)] for name in rubrics},
        "two rubrics": [spec("answer_relevance", 0.5), spec("faithfulness")],
        "three votes": [spec("helpfulness", samples=3, temperature=0.5)],
        "another model": [spec("answer_match", model="other")],
        "weights": [spec("answer_quality", weights={"relevance": 3.0, "coherence": 0.0})],
        "few tokens": [spec("faithfulness", max_context_tokens=2)],
    }.items():
        items = [answer(f"{name} {n}", *more) for n, more in enumerate(words)]
        asked = made(pb.ScoreAnswersRequest, items=items, include_replies=len(specs) > 1)
        asked.rubrics.extend(specs)
        yield Call.of(name, LLM, pb.EstimateBatchRequest(score=asked))
        yield Call.of(name, LLM, asked)
    asked.asking.cache = 3
    yield Call.of("from the cache", LLM, asked)
    asked.asking.cache, asked.asking.max_cost = 2, 1e-9
    yield Call.of("beyond the limit", LLM, asked)


def good_calls() -> Iterator[Call]:
    for server in (PLAIN, LLM):
        yield Call.of(server, server, pb.GetServerInfoRequest())
    for part in (judging, evaluating, measuring, comparing, statistics, calibrating, scoring):
        yield from part()
    for server, days in ((PLAIN, 0), (LLM, 0), (LLM, 7)):
        yield Call.of(f"{server} {days}", server, pb.GetUsageRequest(days=days))


def by_http(called: list[Call]) -> Iterator[Http]:
    """Yield every tenth of the calls as a request by HTTP."""
    for call in [call for call in called if not METHODS[call.method].client_streaming][::10]:
        if METHODS[call.method].server_streaming and call.server == LLM:
            continue  # events come as they end, and in pieces of any length
        request = read_message(METHODS[call.method].input_type, call.requests()[0])
        body = json_format.MessageToJson(request, preserving_proto_field_name=True, indent=None)
        head = f"POST /v1/{call.method} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
        sent = f"{head}\r\nContent-Type: application/json\r\n\r\n{body}"
        yield Http(f"HTTP {call.name}", call.server, pack(sent.encode()))
