"""Evaluation of retrievers: datasets and results from files, metrics over any number of queries.

    from judged import Client
    from judged.evaluation import Dataset, Evaluator, Results

    dataset, results = Dataset.from_json("dataset.json"), Results.from_jsonl("results.jsonl")
    with Client() as client:
        found = Evaluator(client).evaluate(dataset.to_groups(results), ["ndcg@10"], "token_overlap")

Needs no more than the base install.
"""

from judged.evaluation import systems
from judged.evaluation.answers import AnsweredQuestion, AnswerEvaluation, evaluate_answers
from judged.evaluation.datasets.dataset import Dataset, Document, MissingText, Query
from judged.evaluation.datasets.files import FileError
from judged.evaluation.datasets.results import Results, Retrieved
from judged.evaluation.datasets.trec import TrecQrels, TrecRun
from judged.evaluation.evaluator import Evaluator
from judged.evaluation.retriever import Retriever
from judged.evaluation.systems.system import Answer, Question, System

__all__ = [
    "Answer",
    "AnswerEvaluation",
    "AnsweredQuestion",
    "Dataset",
    "Document",
    "Evaluator",
    "FileError",
    "MissingText",
    "Query",
    "Question",
    "Results",
    "Retrieved",
    "Retriever",
    "System",
    "TrecQrels",
    "TrecRun",
    "evaluate_answers",
    "systems",
]
