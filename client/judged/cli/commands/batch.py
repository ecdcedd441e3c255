"""`judged batch`: judges tables of any size by a resumable job of Ray Data."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any

from judged import Asking, CacheMode, Judge, JudgedError, QueryGroup
from judged._views import of_all, plural
from judged.cli.frame import Document, arg, opt
from judged.cli.judging import CascadeOptions, MaxCost
from judged.cli.output import Output, Problem, Progress
from judged.cli.tables import taken, usage_document
from judged.errors import FailedPrecondition
from judged.values import JudgeIdentity, Status, Usage

_ABOUT = "_judged.json"
_DIGEST = "digest"
_LEAST_COST = 1e-9
_PROGRESS_S = 0.5


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
        for name, extra in {"pyarrow": "arrow", "ray": "ray"}.items():
            if find_spec(name) is None:
                raise Problem(f"judged batch needs {name}; run: pip install 'judged[{extra}]'")
        ids, folder = self._ids(), _Folder(self.output, self.id)
        with self.asking("judging", len(ids)) as (server, how):
            spec = self.spec(server.info, self.min_score)
            # Asks for the judge's identity only: no model is called.
            probe, only = [QueryGroup("", ["text"], ["text"])], Asking(CacheMode.ONLY)
            judge = server.client.judge(probe, spec, asking=only).judge
            folder.begin(judge, (self.query, self.expected, self.retrieved))
            # Workers on this machine share a server; on a cluster each process starts its own.
            mine = "local" if os.environ.get("RAY_ADDRESS") else server.client.target
            judging = self._judging(self.target or mine, spec, judge)
            totals, before, missing = None, 0, folder.n_missing(ids)
            with _job(self.max_cost, how["progress"], len(ids) - missing, len(ids)) as ledger:
                # Ask again for missing rows while each pass at least halves them.
                while totals is None or 0 < missing <= before // 2:
                    totals = self._judge(judging, ledger, folder)
                    before, missing = missing, folder.n_missing(ids)
        return self._report(out, folder.statuses(), judge, len(ids), missing, totals)

    def _ids(self) -> Any:  # noqa: ANN401 - a column of pyarrow
        """Return a hash of each id. Raises Problem for invalid columns or ids."""
        from pyarrow import chunked_array, compute, dataset, int64  # noqa: PLC0415 - an extra

        from judged.arrow import check_ids  # noqa: PLC0415 - as above

        try:
            table = dataset.dataset(self.table)
        except (OSError, ValueError) as error:
            raise Problem(f"{self.table}: can't be read as Parquet: {error}") from None
        columns = {name for name in (self.id, self.query, self.expected, self.retrieved) if name}
        if missing := sorted(columns.difference(table.schema.names)):
            there = ", ".join(table.schema.names)
            raise Problem(f"{self.table}: has no column {', '.join(missing)}, but {there}")
        hashes, n = [], 0
        try:
            for batch in table.to_batches(columns=[self.id]):
                check_ids(self.id, batch.column(0), range(n, n := n + len(batch)))
                hashes.append(_hashed(batch.column(0).to_pylist()))
            found = chunked_array(hashes, int64())
            if len(twice := _repeated(found)):
                here = compute.is_in(found, twice)
                ids = table.to_table(columns=[self.id]).column(0).filter(here)
                check_ids(self.id, ids, compute.indices_nonzero(here).to_pylist())
                # OUT is compared by hashes, so two ids of one hash would be taken for one row.
                alike = ", ".join(map(repr, ids.slice(0, 2).to_pylist()))
                raise Problem(f"{self.table}: {self.id}: {alike} have one hash; change one of them")
        except JudgedError as error:
            raise Problem(f"{self.table}: {error}") from None
        return found

    def _judging(self, target: str, judge: Judge, expect: JudgeIdentity) -> Any:  # noqa: ANN401 - of pyarrow
        """Return the question about each row; no other judge may answer."""
        from judged.arrow import Judging  # noqa: PLC0415 - as above

        return Judging(
            target,
            judge,
            id=self.id,
            query=self.query,
            expected=self.expected,
            retrieved=self.retrieved,
            expect=expect.fingerprint,
            credentials=self.credentials() if self.target else None,
            timeout=self.timeout,
        )

    def _judge(self, judging: Any, ledger: Any, folder: _Folder) -> _Ledger:  # noqa: ANN401 - of Ray
        """Judge the rows that are not in OUT; return the totals of the job."""
        import ray  # noqa: PLC0415 - an extra

        # Start the ledger first: if a worker waits for it, Ray starts another worker.
        ray.get(ledger.begin.remote())
        rows = ray.data.read_parquet(self.table, columns=[self.id, *judging.columns.values()])
        unjudged = _Unjudged(judging, ray.put(folder.kept))
        new = rows.map_batches(unjudged, batch_size=None, batch_format="pyarrow")
        # Ray's own blocks are so large that all would be in flight at once, and lost in a kill.
        new.repartition(target_num_rows_per_block=self.block_rows).map_batches(
            _Work(judging, ledger, limited=self.max_cost is not None),
            batch_size=self.block_rows,
            batch_format="pyarrow",
            concurrency=None if self.max_cost is None else 1,
        ).write_parquet(self.output)
        totals: _Ledger = ray.get(ledger.totals.remote())
        return totals

    def _report(
        self,
        out: Output,
        statuses: Mapping[str, int],
        judge: JudgeIdentity,
        total: int,
        missing: int,
        totals: _Ledger,
    ) -> Document:
        """Print what OUT has of the table; set exit status 1 if rows are missing."""
        shown = ", ".join(f"{n} {status}" for status, n in sorted(statuses.items()))
        out.show(f"{plural(total, 'row')}: {shown or 'none judged'}", judge.signature)
        out.show(*taken(totals.usage))
        for why, n in totals.why.items():
            out.warn(f"{plural(n, 'row')} without a verdict: {why}")
        if missing:
            out.warn(f"{of_all(missing, total, 'row')} not in {self.output}; run it again")
            out.worse = True
        return {
            "rows": total,
            "missing": missing,
            "statuses": statuses,
            "reasons": dict(totals.why),
            "signature": judge.signature,
            **usage_document(totals.usage),
        }


class _Folder:
    """The folder of verdicts: all by one judge, of the same columns."""

    kept: Any
    """A table of the hashes of judged ids, sorted, and the digests of their texts."""

    def __init__(self, name: str, id_column: str) -> None:
        from pyarrow import fs  # noqa: PLC0415 - an extra

        self._name, self._id = name, id_column
        self._files, self._path = fs.FileSystem.from_uri(
            name if "://" in name else os.path.abspath(name)  # noqa: PTH100 - a text
        )

    def begin(self, judge: JudgeIdentity, texts: Sequence[str | None]) -> None:
        """Create the folder; raise Problem if it has another judge or columns, or other files."""
        about = {
            "judge": judge.signature,
            "fingerprint": judge.fingerprint,
            "columns": [self._id, *texts],
        }
        self._files.create_dir(self._path)
        path = f"{self._path}/{_ABOUT}"
        if not self._files.get_file_info(path).is_file:
            if self._paths():
                raise Problem(f"--output {self._name}: has other files; name another folder")
            with self._files.open_output_stream(path) as file:
                file.write(json.dumps(about).encode())
            return
        with self._files.open_input_stream(path) as file:
            raw = file.read()
        try:
            before, mine = _described(json.loads(raw)), _described(about)
        except (ValueError, LookupError, TypeError):
            why = f"{_ABOUT} can't be read; name another folder"
            raise Problem(f"--output {self._name}: {why}") from None
        if before != mine:
            raise Problem(
                f"--output {self._name}: has verdicts of {before}, and not of {mine}; name another "
                "folder, or go back to that"
            )

    def n_missing(self, ids: Any) -> int:  # noqa: ANN401 - a column of pyarrow
        """Return how many of the ids, given as hashes, have no verdict; set `kept` to the rest.

        Deletes truncated files, and files that repeat rows of another file: workers of a killed job
        may write for a while after the next job has begun.
        """
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import compute, parquet  # noqa: PLC0415 - as above

        parts: dict[str, Any] = {}
        for path in self._parts():
            try:
                names = parquet.read_schema(path, filesystem=self._files).names
            except pa.ArrowInvalid:
                self._files.delete_file(path)
                continue
            if not {self._id, _DIGEST} <= set(names):
                raise Problem(f"{path}: is not of `judged batch`; move it out of --output")
            part = parquet.read_table(path, columns=[self._id, _DIGEST], filesystem=self._files)
            hashes = _hashed(part[self._id].to_pylist())
            if len(_repeated(pa.chunked_array([hashes]))):
                raise Problem(f"{path}: has an id twice; move it out of --output")
            parts[path] = pa.table({"id": hashes, _DIGEST: part[_DIGEST]})
        none = pa.schema({"id": pa.int64(), _DIGEST: pa.int64()}).empty_table()
        kept = pa.concat_tables([none, *parts.values()])
        if twice := set(_repeated(kept["id"]).to_pylist()):
            seen: set[int] = set()
            for path, part in parts.items():
                mine = twice.intersection(part["id"].to_pylist())
                if mine & seen:
                    self._files.delete_file(path)
                seen |= mine
            return self.n_missing(ids)
        self.kept = kept.sort_by("id").combine_chunks()
        n_kept: int = compute.sum(compute.is_in(ids, kept["id"]), min_count=0).as_py()
        return len(ids) - n_kept

    def statuses(self) -> dict[str, int]:
        """Return the number of rows by status."""
        from pyarrow import dataset  # noqa: PLC0415 - an extra

        rows = dataset.dataset(self._parts(), filesystem=self._files)
        names = [status.name for status in Status]
        counts = {name: rows.count_rows(filter=dataset.field("status") == name) for name in names}
        return {name: n for name, n in counts.items() if n}

    def _paths(self) -> list[str]:
        """Return the paths of all files, except those whose names begin with _."""
        from pyarrow import fs  # noqa: PLC0415 - an extra

        there = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return [each.path for each in there if each.is_file and not each.base_name.startswith("_")]

    def _parts(self) -> list[str]:
        return [path for path in self._paths() if path.endswith(".parquet")]


def _described(about: Mapping[str, Any]) -> str:
    id_column, *texts = about["columns"]
    by = f"{about['judge']} (fingerprint {about['fingerprint'][:8]}) by {id_column}"
    return f"{by} of {', '.join(map(str, texts))}"


def _hashed(values: Iterable[object]) -> Any:  # noqa: ANN401 - as above
    """Return a hash of 64 bits for each value."""
    from pyarrow import array, int64  # noqa: PLC0415 - an extra

    # As JSON: the repr of a text depends on the version of Python.
    written = (json.dumps(value).encode() for value in values)
    digests = (blake2b(each, digest_size=8).digest() for each in written)
    return array((int.from_bytes(each, signed=True) for each in digests), int64())


def _repeated(hashes: Any) -> Any:  # noqa: ANN401 - as above
    """Return the hashes that occur more than once."""
    from pyarrow import compute  # noqa: PLC0415 - an extra

    # Sorting takes a third of the memory of a table of counts.
    ordered = hashes.take(compute.sort_indices(hashes)).combine_chunks()
    return ordered[1:].filter(compute.equal(ordered[1:], ordered[:-1])).unique()


class _Ledger:
    """The totals of the workers of a job, in a process of its own."""

    def __init__(self, max_cost: float | None) -> None:
        self.max_cost = max_cost
        self.rows = 0
        self.usage: Usage | None = None
        self.why = Counter[str]()

    def begin(self) -> None:
        """Clear the reasons of missing rows, which are asked again."""
        self.why.clear()

    def left(self) -> float:
        """Return the part of the limit on costs that is not spent."""
        spent = 0.0 if self.usage is None else self.usage.cost or 0.0
        return max((self.max_cost or 0.0) - spent, _LEAST_COST)

    def note(self, rows: int, usage: Usage | None, why: Mapping[str, int]) -> None:
        """Add the rows of a judged batch, its usage, and the reasons of missing rows."""
        self.rows += rows
        self.why.update(why)
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def totals(self) -> _Ledger:
        """Return a copy, from the process of the ledger."""
        return self


class _Unjudged:
    """Drops judged rows, and adds the digest of its texts to each other row."""

    def __init__(self, judging: Any, kept: Any) -> None:  # noqa: ANN401 - of Ray
        self._judging = judging
        self._kept = kept

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401 - of pyarrow
        """Return the rows without a verdict. Raises FailedPrecondition if texts were edited."""
        import ray  # noqa: PLC0415 - an extra
        from pyarrow import array, bool_  # noqa: PLC0415 - as above

        from judged.arrow import texts_of  # noqa: PLC0415 - as above

        name = self._judging.id
        texts = [texts_of(each, batch[each]) for each in self._judging.columns.values()]
        digests, ids = _hashed(zip(*texts, strict=True)), batch[name].to_pylist()
        known, of_known = (
            memoryview(column.combine_chunks().buffers()[1] or b"").cast("q")
            for column in ray.get(self._kept).columns
        )
        new: list[bool] = []
        for place, each in enumerate(_hashed(ids).to_pylist()):
            at = bisect_left(known, each)
            new.append(at == len(known) or known[at] != each)
            if not new[-1] and of_known[at] != digests[place].as_py():
                rule = (
                    f"{name} {ids[place]!r} has other texts than those that its verdict is of; "
                    "name another folder with --output"
                )
                raise FailedPrecondition(rule, code="FAILED_PRECONDITION")
        return batch.append_column(_DIGEST, digests).filter(array(new, bool_()))


class _Work:
    """Judges a batch, and reports it to the ledger."""

    def __init__(self, judging: Any, ledger: Any, *, limited: bool) -> None:  # noqa: ANN401 - of Ray
        self._judging = judging
        self._ledger = ledger
        self._limited = limited

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401 - of pyarrow
        """Return the verdicts of a batch."""
        import ray  # noqa: PLC0415 - an extra
        from pyarrow import compute  # noqa: PLC0415 - as above

        asking = None
        if self._limited:
            asking = Asking(max_cost=ray.get(self._ledger.left.remote()))
        found = self._judging.ask(batch, asking)
        ray.get(self._ledger.note.remote(found.table.num_rows, found.usage, dict(found.missing)))
        if not batch.num_rows:
            return found.table
        places = compute.index_in(found.table[self._judging.id], batch[self._judging.id])
        return found.table.append_column(_DIGEST, batch[_DIGEST].take(places))


@contextmanager
def _job(max_cost: float | None, progress: Progress | None, done: int, total: int) -> Iterator[Any]:
    """Start Ray or join its cluster; yield the ledger of a job, and report it to `progress`."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray  # noqa: PLC0415 - an extra

    alone = not os.environ.get("RAY_ADDRESS")
    here = {"address": "local", "include_dashboard": False} if alone else {}
    # On a busy machine Ray may not start within its own limit of 30 s.
    for may_retry in [True, True, False] if alone else [False]:
        try:
            ray.init(**here, logging_level="ERROR", log_to_driver=False)
            break
        except Exception as error:  # noqa: BLE001 - Ray has no class for this error
            ray.shutdown()
            if not may_retry:
                raise Problem(f"Ray did not start: {error}") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    ledger, over = ray.remote(_Ledger).options(num_cpus=0).remote(max_cost), threading.Event()

    def report() -> None:
        while progress is not None and not over.wait(_PROGRESS_S):
            with suppress(ray.exceptions.RayError):  # it ends the job too
                progress(done + ray.get(ledger.totals.remote()).rows, total)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield ledger
    except ray.exceptions.RayError as error:
        raise _explained(error) from None
    finally:
        over.set()
        thread.join()
        ray.shutdown()


def _explained(error: BaseException) -> Problem:
    """Return a Problem with the cause of a failed job, from the text of the error of Ray."""
    first = re.search(r"^([\w.]+): (.+)$", str(error), re.MULTILINE)
    if first is not None and first[1].startswith("judged.errors."):
        return Problem(first[2])
    what = type(error).__name__ if first is None else first[2]
    return Problem(f"the job of Ray ended: {what}; run it again")
