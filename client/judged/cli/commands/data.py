"""`judged convert` and `judged validate`: data sets in files.

They call no server. `judged.evaluation.datasets.dataset` defines the formats. The document of
`--json` says what was read and written.
"""

from __future__ import annotations

from pathlib import Path

from judged._views import plural
from judged.cli.frame import Document, Strict, arg, opt
from judged.cli.output import Output, Problem, say
from judged.evaluation import Dataset
from judged.evaluation.datasets.dataset import FORMATS, format_of, validate


class _FromFormat(Strict):
    """A command that reads a data set."""

    from_: str | None = opt("FORMAT", f"By the name's end, or one of {', '.join(FORMATS)}.")


class ConvertCommand(_FromFormat):
    """Write a data set in another format.

    Examples:
    judged convert dataset.csv dataset.json
    judged convert dataset.json dataset.csv --json converted.json
    """

    source: str = arg("DATASET", "A file, or a folder of BEIR's.")
    target: str = arg("OUT", "Where to write it.")
    to: str | None = opt("FORMAT", "The same of OUT.")

    def run(self, out: Output) -> Document:
        """Read, and write."""
        source, target = Path(self.source), Path(self.target)
        if source.resolve() == target.resolve():
            raise Problem(f"{target}: is the file that is read too; name another one")
        dataset = Dataset.load(source, self.from_)
        lost = dataset.save(target, self.to)
        counts = {"queries": len(dataset.queries), "documents": len(dataset.documents)}
        formats = [format_of(source, self.from_), format_of(target, self.to)]
        out.warn(*(f"{target}: {text}" for text in lost))
        say(f"{target}: {plural(counts['queries'], 'query', 'queries')}")
        read, written = (
            {"path": path, "format": form, **counts}
            for path, form in zip((self.source, self.target), formats, strict=True)
        )
        return {"read": [read], "written": [written | {"cannot_hold": lost}]}


class ValidateCommand(_FromFormat):
    """Check a data set for errors and likely mistakes.

    Ends with 2 if it can't be read.

    Examples:
    judged validate dataset.json --strict
    """

    source: str = arg("DATASET", "A file, or a folder of BEIR's.")

    def run(self, out: Output) -> Document:
        """Read, and report."""
        content, findings = validate(Path(self.source), self.from_)
        errors = [finding.text for finding in findings if finding.is_error]
        for text in errors:
            say(text)
        out.warn(*(finding.text for finding in findings if not finding.is_error))
        n, documents = len(content.queries), len(content.documents)
        counts = (
            plural(n, "query", "queries"),
            plural(documents, "document"),
            plural(len(errors), "error"),
            plural(len(out.warnings), "warning"),
        )
        out.show(", ".join(counts))
        out.failed = bool(errors)
        return {"queries": n, "documents": documents, "findings": findings}
