"""Evaluation of retrievers: datasets and results from files, metrics over any number of queries.

    from judged import Client
    from judged.evaluation import Dataset, Evaluator

    with Client() as client:
        found = Evaluator(client).evaluate(my_retriever, Dataset.from_json("data.json"), ["mrr@10"])
    print(found.summary())

Needs no more than the base install.
"""

from judged._files import FileError
from judged.evaluation.answers import (
    Answer,
    AnsweredQuestion,
    AnswerEvaluation,
    AnswerSimilarity,
    CandidateAnswer,
    ComparedAnswers,
    Question,
    System,
    answer_similarity,
    compare_answers,
    evaluate_answers,
)
from judged.evaluation.asking import (
    BatchRetriever,
    CircularJudging,
    Progress,
    Retriever,
    check_circular,
)
from judged.evaluation.datasets.dataset import Dataset, MissingText
from judged.evaluation.datasets.query import Document, Query, Results, Retrieved
from judged.evaluation.datasets.trec import TrecQrels, TrecRun
from judged.evaluation.evaluator import Evaluator
from judged.evaluation.recorded import LocalJudge, RecordedJudge
from judged.evaluation.result import EvaluationResult
from judged.report.content import QueryResult, RetrievedResult

__all__ = [
    "Answer",
    "AnswerEvaluation",
    "AnswerSimilarity",
    "AnsweredQuestion",
    "BatchRetriever",
    "CandidateAnswer",
    "CircularJudging",
    "ComparedAnswers",
    "Dataset",
    "Document",
    "EvaluationResult",
    "Evaluator",
    "FileError",
    "LocalJudge",
    "MissingText",
    "Progress",
    "Query",
    "QueryResult",
    "Question",
    "RecordedJudge",
    "Results",
    "Retrieved",
    "RetrievedResult",
    "Retriever",
    "System",
    "TrecQrels",
    "TrecRun",
    "answer_similarity",
    "check_circular",
    "compare_answers",
    "evaluate_answers",
]
