"""`judged batch`: judges tables of any size by a resumable job of Ray Data."""

from __future__ import annotations

import os
from importlib.util import find_spec

from judged import Asking, CacheMode, QueryGroup
from judged._views import of_all, plural
from judged.cli.frame import Document, arg, opt
from judged.cli.judging import CascadeOptions, MaxCost
from judged.cli.output import Output, Problem
from judged.cli.tables import usage_document, usage_lines


class BatchCommand(CascadeOptions, MaxCost):
    """Judge each row of a Parquet table, by Ray on this machine or on the cluster of RAY_ADDRESS.

    What is in OUT stays: the same command, run again, judges what is not there yet, such as rows
    that were added. It ends with 1 while rows are missing.

    Examples:
    judged batch contexts.parquet -o judged --id id --expected answer --judge semantic
    judged batch s3://b/contexts -o s3://b/judged --id id --target dns:///judged:8470
    """

    table: str = arg("TABLE", "A file or folder of Parquet, a context in each row.", reads=False)
    output: str = opt("OUT", "Folder of Parquet that verdicts are added to.", required=True)
    id: str = opt("COLUMN", "Tells rows apart: texts or whole numbers.", required=True)
    query: str = opt("COLUMN", "Queries.", "query")
    expected: str | None = opt("COLUMN", "Expected texts, unless the judge needs none.")
    retrieved: str = opt("COLUMN", "Retrieved texts.", "retrieved")
    min_score: float | None = opt("X", "Score from which a verdict is relevant.")
    block_rows: int = opt("N", "Rows that are judged and kept together.", 2000, low=1)

    def run(self, out: Output) -> Document:
        """Judge the rows without a verdict, and report the state of OUT."""
        if None in map(find_spec, ("pyarrow", "ray")):
            raise Problem("judged batch needs Ray; run: pip install 'judged[ray]'")
        from judged.arrow import Judging  # noqa: PLC0415 - an extra
        from judged.cli.table_job import Folder, absolute, complete, hashed_ids  # noqa: PLC0415 - as above

        if f"{absolute(self.output)}/".startswith(f"{absolute(self.table)}/"):
            raise Problem(f"--output {self.output}: is in TABLE; name a folder elsewhere")
        texts = [self.query, self.expected, self.retrieved]
        ids = hashed_ids(self.table, self.id, filter(None, texts))
        folder = Folder(self.output, self.id)
        with self.asking("judging", len(ids)) as (client, info, how):
            spec = self.spec(info, self.min_score)
            # Asks for the judge's identity only: no model is called.
            probe, only = [QueryGroup("", ["text"], ["text"])], Asking(CacheMode.ONLY)
            judge = client.judge(probe, spec, asking=only).judge
            folder.begin(judge, texts)
            # Workers on this machine share a server; on a cluster each process starts its own.
            mine = "local" if os.environ.get("RAY_ADDRESS") else client.target
            judging = Judging(
                self.target or mine,
                spec,
                id=self.id,
                query=self.query,
                expected=self.expected,
                retrieved=self.retrieved,
                expect=judge.fingerprint,
                credentials=self.credentials(),
                asking=Asking(max_cost=self.max_cost),
                timeout=self.timeout,
            )
            job = complete(self.table, ids, folder, judging, self.block_rows, how["progress"])
        shown = ", ".join(f"{n} {status}" for status, n in sorted(folder.statuses.items()))
        out.show(f"{plural(len(ids), 'row')}: {shown or 'none judged'}", judge.signature)
        out.show(*usage_lines(job.usage))
        for why, n in job.why.items():
            out.warn(f"{plural(n, 'row')} without a verdict: {why}")
        if others := len(folder.ids) - folder.statuses.total():
            out.warn(f"{plural(others, 'row')} of {self.output} not in {self.table}")
        if folder.missing:
            absent = of_all(folder.missing, len(ids), "row")
            out.warn(f"{absent} not in {self.output}; run it again")
            out.worse = True
        return {
            "rows": len(ids),
            "missing": folder.missing,
            "statuses": folder.statuses,
            "reasons": job.why,
            "signature": judge.signature,
            **usage_document(job.usage),
        }
