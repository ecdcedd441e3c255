"""Commands: those that the docs show over their files, and each command over the tests' files."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from judged.cli.examples import EXAMPLES

from tests.fakes.result_documents import hostile_document, result_document
from tests.goldens.cases import Step
from tests.goldens.servers import COMMANDS, PLAIN
from tests.integration.cli import test_label as labels
from tests.integration.cli_process import fill, run_in
from tests.integration.pages.test_tutorial import COMMANDS as SHOWN
from tests.integration.pages.test_tutorial import CONSOLES, DOCS, FILES

ROOT = DOCS.parent
TUTORIALS = [DOCS / "tutorial.md", DOCS / "tutorial/comparing.md", DOCS / "tutorial/answers.md"]
LIBRARY = {f"library/{path.name}": path.read_text() for path in DOCS.glob("tutorial/library/*")}
_COMMAND = re.compile(r"^(?:\$ )?((?:JUDGED_\w+=\S+ )*judged .+)$", re.MULTILINE)
_ENDLESS = re.compile(r"[<|&;]|pip |curl ")


def lines(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _of_helper(write: object, *more: object) -> dict[str, str]:
    """Return the files that a helper of the tests writes."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), *more)  # type: ignore[operator]
        return {path.name: path.read_text() for path in Path(folder).iterdir()}


def good_files() -> dict[str, str]:
    """Return a good file of every kind, by the names that the docs use."""
    text = "rag combines retrieval with generation"
    contexts = [
        {"id": i, "query": f"question {i}", "expected_text": text, "retrieved_text": found}
        for i, found in enumerate([text, "rag bad", "vectors", "split rag retrieval", "refuse"] * 4)
    ]
    answers = [
        {
            "item_id": f"i{i}", "query_id": f"q{i // 2}", "query": f"question {i // 2}",
            "system": "ab"[i % 2], "answer": f"{word}. rag {i // 3}", "contexts": [text],
            "references": [text, f"rag {i // 3}"],
        }
        for i, word in enumerate(["good", "bad", "split", "failing", "", "none"] * 3)
    ]  # fmt: skip
    labelled = [{**c, "relevant": i % 5 in {0, 3}, "score": 0.7} for i, c in enumerate(contexts)]
    ratings = [
        {"item_id": i, "ratings": {"ann": a, "bob": b}}
        for i, (a, b) in enumerate(zip("good fair poor".split() * 8, "good poor fair good".split() * 6, strict=True))
    ]
    run = "301 Q0 d2 1 0.9 t\n301 Q0 d3 2 0.5 t\n302 Q0 d1 1 0.4 t\n"
    documents = {"main": result_document(40, 1), "branch": result_document(40, 2)}
    return _of_helper(fill) | {
        "contexts.jsonl": lines(contexts),
        "answers.jsonl": lines(answers),
        "labels.jsonl": lines(labelled),
        "ratings.jsonl": lines(ratings),
        "embedding.run": run,
        "bm25.run": run.replace("d3", "d9"),
        "result.json": json.dumps(documents["main"]),
        **{f"{name}.json": json.dumps(document) for name, document in documents.items()},
        "hostile.json": json.dumps(hostile_document()),
        "dataset.csv": "query_id,query,expected_answer,topic\nq1,what is rag,rag,a\nq2,who,me,b\n",
    }  # fmt: skip


class Folder:
    """A folder in which commands run one after the other, with the files that they name."""

    def __init__(self, name: str, files: Mapping[str, str], server: str = COMMANDS) -> None:
        self.name, self.server, self.steps = name, server, 0
        self._files = dict(files)

    def step(self, line: str) -> Step:
        """Return the next step: a command line, with NAME=VALUE before the program."""
        words = shlex.split(line, comments=True)
        n = next(i for i, word in enumerate(words) if "=" not in word)
        self.steps += 1
        written = {name: self._files.pop(name) for name in list(self._files) if name in line}
        return Step(
            f"{self.name} {self.steps:02}: {line}", self.server, self.name, words[n],
            words[n + 1 :], dict(word.split("=", 1) for word in words[:n]), written,
        )  # fmt: skip

    def put(self, name: str, content: str) -> None:
        self._files[name] = content


def of_tutorials() -> Iterator[Step]:
    """Yield the commands of the tutorials over their files, those that programs make included."""
    folder, known = Folder("tutorial", LIBRARY), dict(LIBRARY)
    for page in TUTORIALS:
        text = page.read_text(encoding="utf-8")
        for name, content in FILES.findall(text):
            known[name] = content
            folder.put(name, content)
        for console in CONSOLES.findall(text):
            for line, _ in SHOWN.findall(console):
                if line.startswith("judged "):
                    yield folder.step(line)
                elif made := _by_program(line, known):
                    known |= made
                    folder.put(*made.popitem())


def _by_program(line: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return the file that a program of a page makes, if it makes one."""
    command, _, target = line.partition(" > ")
    if not target:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            (Path(folder) / name).write_text(content)
        given = [sys.executable, *shlex.split(command)[1:]]
        return {target: subprocess.check_output(given, cwd=folder, text=True)}


def of_pages() -> Iterator[Step]:
    """Yield the commands that the other pages show, over good files of the names that they have."""
    for page in sorted(set(DOCS.rglob("*.md")) - set(TUTORIALS)):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        folder = Folder(f"docs/{page.stem}", good_files())
        for line in _COMMAND.findall(text):
            if not _ENDLESS.search(line.partition("#")[0]) and "8470" not in line:
                yield folder.step(line)


def helps() -> Iterator[Step]:
    folder = Folder("help", {}, PLAIN)
    listed = run_in(Path.cwd(), "--help").stdout.partition("Commands:")[2]
    names = re.findall(r"^  (\w+) ", listed, re.MULTILINE)
    for name in ["", *names, "canary record", "canary check"]:
        yield folder.step(f"judged {name} --help")
    for name in ("", "models", "cache", "tenants", "doctor"):
        yield folder.step(f"judged-server {name} --help")
    for line in (
        "judged --version", "judged", "judged nope", "judged judge", "judged-server --nope",
        "judged-server --listen 0.0.0.0:1", "judged-server --max-groups 0",
        "judged-server --config none.toml", "judged-server tenants add a", "judged-server cache show",
        "judged-server models list", "judged-server --models-dir none doctor",
    ):  # fmt: skip
        yield folder.step(line)


def examples() -> Iterator[Step]:
    for name, given in EXAMPLES.items():
        folder = Folder(f"examples/{name.replace(' ', '-')}", good_files())
        for line in given:
            if "8470" not in line:
                yield folder.step(line)


COMMAND_LINES = {
    "judge": """
        judge contexts.jsonl --judge exact --json -
        judge contexts.jsonl --judge llm --details --json out.json
        judge contexts.jsonl --judge llm --judge-samples 3 --output judged.jsonl --strict
        judge contexts.jsonl --judge llm --trace t.jsonl --trace-texts hash
        judge contexts.jsonl --judge none --trace t.jsonl
        judge contexts.jsonl --judge llm --estimate --json -
        judge contexts.jsonl --judge llm --max-cost 0.0000001
        judge contexts.jsonl --judge llm --cache-only
        judge contexts.jsonl --judge panel --member exact --member token_overlap --member llm
        judge contexts.jsonl --judge llm --param rubric=graded_relevance --output pool.qrels
        judge contexts.jsonl --judge semantic --json semantic.json
        judge contexts.jsonl --judge nobody
        judge contexts.jsonl --judge exact --profile nope
        judge contexts.jsonl --judge exact --min-score 2
        judge contexts.jsonl --judge exact --min-score x
        judge contexts.jsonl --judge token_overlap --param min_tokens=0
        judge contexts.jsonl --judge token_overlap --param nope=1
        judge contexts.jsonl --judge token_overlap --param nope
        judge contexts.jsonl --judge-model nobody --judge llm
        judge dataset.json
        judge none.jsonl
        judge contexts.jsonl --output contexts.jsonl
        judge contexts.jsonl --nope
        judge contexts.jsonl --timeout 0
        judge contexts.jsonl --json no/out.json""",
    "evaluate": """
        evaluate dataset.json --results results.jsonl -m mrr -m ndcg@3 --per-query --json result.json
        evaluate dataset.json --results results.jsonl -m mrr --judge llm --trace t.jsonl
        evaluate dataset.json --results results.jsonl -m mrr --judge none --trace t.jsonl --json -
        evaluate dataset.json --results results.jsonl -m mrr --interval bca --resamples 200 --seed 3
        evaluate dataset.json --results results.jsonl -m mrr --min-score mrr=0.9
        evaluate dataset.json --results results.jsonl -m mrr --max-drop mrr=0.1 --baseline result.json
        evaluate dataset.json --results results.jsonl -m recall@2 --matching any --slice-by topic
        evaluate dataset.json --results results.jsonl -m mrr --judge llm --estimate
        evaluate dataset.json --results results.jsonl -m mrr --judge llm --min-coverage 1
        evaluate dataset.json --results results.jsonl -m mrr --judge semantic --min-score 0.5
        evaluate dataset.json --results results.jsonl
        evaluate dataset.json -m mrr
        evaluate dataset.json --results results.jsonl -m ndgc@10
        evaluate dataset.json --results dataset.json -m mrr
        evaluate dataset.json --results results.jsonl -m mrr --min-score recall=0.9
        evaluate dataset.json --results results.jsonl -m mrr --confidence 2
        evaluate dataset.json --results results.jsonl -m mrr --matching nope
        evaluate dataset.json --results results.jsonl -m mrr --baseline none.json
        evaluate dataset.json --results results.jsonl -m mrr --labels labels.jsonl
        report result.json -o report.html -o report.md -o junit.xml""",
    "score": """
        score answers.jsonl --rubric faithfulness --rubric answer_relevance --per-item --json out.json
        score answers.jsonl --rubric answer_quality --weights relevance=2 --details --output scores.jsonl
        score answers.jsonl --rubric helpfulness --min-score helpfulness=0.99
        score answers.jsonl --rubric helpfulness --member small --member other --combine median
        score answers.jsonl --rubric answer_match --trace t.jsonl
        score answers.jsonl --rubric answer_match --judge none --trace t.jsonl --json -
        score answers.jsonl --rubric helpfulness --estimate
        score answers.jsonl --rubric helpfulness --judge-samples 3 --judge-temperature 0.5
        score answers.jsonl --rubric helpfulness --min-coverage 1
        score answers.jsonl --rubric taste
        score answers.jsonl
        score answers.jsonl --rubric helpfulness --weights wit=1
        score answers.jsonl --rubric helpfulness --judge-samples 99
        score contexts.jsonl --rubric helpfulness
        compare out.json out.json""",
    "metrics": """
        metrics --qrels qrels.txt --run run.txt -m ndcg@10 -m ap --per-query --json main.json
        metrics --qrels qrels.txt --run run.txt -m bpref -m judged@5 --complete --interval t
        metrics --qrels qrels.txt --run run.txt -m ap --unjudged bounds --relevance-level 2 --max-documents 2
        metrics --qrels qrels.txt --run embedding.run -m ap --max-drop ap=0.01 --baseline main.json
        metrics --qrels qrels.txt --run run.txt -m ap --min-score ap=0.9
        metrics --qrels run.txt --run qrels.txt -m ap
        metrics --run run.txt -m ap
        metrics --qrels qrels.txt --run run.txt -m nope""",
    "texts": """
        texts answers.jsonl -m bleu -m rougeL -m token_f1 --per-query --json texts.json
        texts answers.jsonl -m exact_match --interval percentile --resamples 200 --seed 1
        texts answers.jsonl -m token_f1 --max-drop token_f1=0.1 --baseline texts.json
        texts answers.jsonl -m token_f1 --min-score token_f1=0.9
        texts contexts.jsonl -m bleu
        texts answers.jsonl -m rogue""",
    "compare and report": """
        compare main.json branch.json --moved 3 --difference 0.05 --json compared.json
        compare main.json branch.json --permutations 200 --confidence 0.9 --seed 2 -m mrr
        compare run.txt embedding.run bm25.run --qrels qrels.txt -m ndcg@10 -m ap --complete
        compare branch.json --baseline main.json --max-drop mrr=0.01
        compare main.json
        compare main.json dataset.json
        compare run.txt embedding.run -m ap
        report main.json branch.json -o report.html -o comment.md -o junit.xml --title T --json said.json
        report hostile.json -o hostile.html -o -
        report dataset.json -o report.html
        report main.json -o report.pdf
        ci branch.json --baseline main.json --comment comment.md --report ci.html --code-quality q.json
        ci branch.json --baseline main.json --github --json -
        ci main.json
        ci main.json --baseline main.json --alpha 2""",
    "labels": """
        agree ratings.jsonl --level ordinal --categories poor,fair,good --json agreed.json
        agree ratings.jsonl --interval bca --resamples 200 --strict
        agree ratings.jsonl --categories poor
        agree contexts.jsonl
        calibrate labels.jsonl --judge token_overlap -o my.calibration.json --json quality.json
        judge contexts.jsonl --judge token_overlap --calibration my.calibration.json
        judge contexts.jsonl --judge exact --calibration my.calibration.json
        calibrate labels.jsonl --judge llm --max-error 0.2 --folds 3 --diagram reliability.svg
        calibrate labels.jsonl --judge answer_equivalence --max-share 0.3 -o small.calibration.json
        calibrate labels.jsonl --judge exact --label-field nope
        frontier labels.jsonl --stage token_overlap --stage llm --max-share 0.3 -o my.cascade.json --json -
        judge contexts.jsonl --cascade my.cascade.json
        frontier labels.jsonl --stage exact
        frontier labels.jsonl --stage answer_equivalence --stage llm --max-error 0.3 --diagram f.svg""",
    "rank and canary": """
        rank answers.jsonl --json ranking.json --resamples 200
        rank answers.jsonl --estimate
        rank contexts.jsonl
        canary record contexts.jsonl -o c.json --judge llm --asks 4 --json recorded.json
        canary check c.json --json checked.json
        canary check c.json --rounds 1 --strict
        canary check main.json
        canary record contexts.jsonl -o t.json --judge token_overlap""",
    "servers": """
        judges
        judges --json -
        usage --json -
        usage --days 400
        doctor --target 127.0.0.1:9
        judges --target nowhere
        judges --token-file none
        demo -o demo.html --json demo.json""",
    "data": """
        convert dataset.csv made.json --json -
        convert dataset.json made.csv
        convert results.jsonl results.run --results
        convert run.txt results2.jsonl --results --from trec
        convert dataset.csv made.nope
        validate dataset.json --json -
        validate dataset.csv --strict
        validate contexts.jsonl
        split dataset.csv dev.json test.json --share 0.5
        slice dataset.csv a.json --where topic=a
        merge all.json dataset.json dataset.csv
        merge all.json dataset.csv dataset.csv""",
}


def of_commands() -> Iterator[Step]:
    for name, given in COMMAND_LINES.items():
        folder = Folder(f"commands/{name}", good_files())
        for line in given.strip().splitlines():
            yield folder.step(f"judged {line.strip()}")
    folder = Folder("commands/without a model", good_files(), PLAIN)
    for line in ("judge contexts.jsonl --judge llm", "score answers.jsonl --rubric helpfulness"):
        yield folder.step(f"judged {line}")


def labelling() -> Iterator[Step]:
    """Yield what makes a file of labels, from tables that people filled in."""
    folder = Folder("labelling", _of_helper(labels.fill))
    table = "id,label\n" + "".join(
        f"i{n},{'y' if labels.people_say(n) else 'n'}\n" for n in range(labels.ITEMS)
    )
    line = "judged " + " ".join(labels.LABEL)
    yield folder.step(f"{line} --to-csv table.csv")
    folder.put("filled.csv", table)
    for more in ("--from-csv filled.csv --annotator ann", "--summary --json summary.json", ""):
        yield folder.step(f"{line} {more}")
    yield folder.step("judged calibrate labels.jsonl --judge token_overlap")


def steps() -> Iterator[Step]:
    for part in (helps, of_tutorials, of_pages, examples, of_commands, labelling):
        yield from part()
