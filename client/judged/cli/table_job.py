"""The job of `judged batch`: judges the rows of a table that a folder of verdicts does not have.

Rows are compared by 64-bit hashes of their ids and texts. Needs the extra `ray`.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyarrow import compute, dataset, fs, parquet

from judged._convert import CostLimit
from judged.arrow import Judging, check_ids, texts_of
from judged.cli.output import Problem, Progress
from judged.errors import FailedPrecondition, JudgedError
from judged.values import Asking, JudgeIdentity, Usage

TEXTS = "texts_hash"
"""The column that has the hash of a row's texts."""
_ABOUT = "_judged.json"
_PROGRESS_S = 0.5
Hashes = Any
"""A numpy array of int64."""


def hashed(values: Iterable[object]) -> Hashes:
    """Return the hash of each value."""
    # As JSON: the repr of a text depends on the version of Python.
    written = (json.dumps(value).encode() for value in values)
    digests = (blake2b(each, digest_size=8).digest() for each in written)
    return pa.array((int.from_bytes(each, signed=True) for each in digests), pa.int64()).to_numpy()


def absolute(name: str) -> str:
    """Return an absolute path or URL: workers on a cluster have their own working directories."""
    return name if "://" in name else os.path.abspath(name)  # noqa: PTH100 - a text


def hashed_ids(name: str, id_column: str, texts: Iterable[str]) -> Hashes:
    """Return the hashes of a table's ids, sorted. Raises Problem for invalid columns or ids."""
    try:
        table = dataset.dataset(name)
        if missing := sorted({id_column, *texts}.difference(table.schema.names)):
            there = ", ".join(table.schema.names)
            raise Problem(f"{name}: has no column {', '.join(missing)}, but {there}")
        if others := [each for each in table.files if not each.lower().endswith(".parquet")]:
            raise Problem(f"{others[0]}: Ray reads only names that end in .parquet; rename it")
        parts, n = list[Hashes](), 0
        for batch in table.to_batches(columns=[id_column]):
            check_ids(id_column, batch.column(0), range(n, n := n + len(batch)))
            parts.append(hashed(batch.column(0).to_pylist()))
        found = pa.chunked_array(parts, pa.int64()).to_numpy()
        ordered = found[found.argsort()]
        if len(twice := ordered[1:][ordered[1:] == ordered[:-1]]):
            here = compute.is_in(pa.array(found), pa.array(twice))
            ids = table.to_table(columns=[id_column]).column(0).filter(here)
            check_ids(id_column, ids, compute.indices_nonzero(here).to_pylist())
            # OUT is compared by hashes, so two ids with one hash would be taken for one row.
            alike = ", ".join(map(repr, ids.slice(0, 2).to_pylist()))
            raise Problem(f"{name}: {id_column}: {alike} have one hash; change one of them")
    except (OSError, ValueError, pa.ArrowException) as error:
        raise Problem(f"{name}: can't be read as Parquet: {error}") from None
    except JudgedError as error:
        raise Problem(f"{name}: {error}") from None
    return ordered


def unjudged(batch: pa.Table, judging: Judging, ids: Hashes, texts: Hashes) -> pa.Table:
    """Return the rows of a batch that have no verdict, with the hashes of their texts.

    `ids` and `texts` are the hashes of the rows that have one, as in Folder. Raises
    FailedPrecondition if their texts were edited.
    """
    columns = [texts_of(name, batch[name]) for name in judging.columns.values()]
    given = hashed(zip(*columns, strict=True))
    wanted = hashed(batch[judging.id].to_pylist())
    places = ids.searchsorted(wanted)
    judged = ids.searchsorted(wanted, "right") > places
    edited = texts[places[judged]] != given[judged]
    if edited.any():
        first = batch[judging.id].filter(pa.array(judged)).filter(pa.array(edited))[0]
        rule = (
            f"{judging.id} {first.as_py()!r} has other texts than those that its verdict is of; "
            "name another folder with --output"
        )
        raise FailedPrecondition(rule, code="FAILED_PRECONDITION")
    return batch.append_column(TEXTS, [given]).filter(pa.array(~judged))


class Folder:
    """A folder of verdicts: all by one judge, of the same columns.

    `read` sets `ids` and `texts`, the hashes of the rows in it, in the order of `ids`; `statuses`,
    the number of rows of the table by status; and `missing`, the number that it does not have.
    """

    ids: Hashes
    texts: Hashes
    statuses: Counter[str]
    missing: int

    def __init__(self, name: str, id_column: str) -> None:
        """Raise Problem for a name of another kind."""
        self.name, self._id = name, id_column
        try:
            self._files, self._path = fs.FileSystem.from_uri(absolute(name))
        except ValueError as error:
            raise Problem(f"--output {name}: {error}") from None

    def begin(self, judge: JudgeIdentity, texts: Sequence[str | None]) -> None:
        """Create the folder. Raises Problem if it has another judge or columns, or other files."""
        about = {"judge": judge.signature, "fingerprint": judge.fingerprint}
        mine = json.dumps({**about, "id": self._id, "texts": texts})
        self._files.create_dir(self._path)
        path = f"{self._path}/{_ABOUT}"
        if self._files.get_file_info(path).is_file:
            with self._files.open_input_stream(path) as file:
                before = file.read().decode(errors="replace")
            if before != mine:
                rule = f"has verdicts of {before}, and not of {mine}"
                raise Problem(f"--output {self.name}: {rule}; name another folder, or go back")
        elif self._paths():
            raise Problem(f"--output {self.name}: has other files; name another folder")
        else:
            with self._files.open_output_stream(path) as file:
                file.write(mine.encode())

    def read(self, ids: Hashes) -> None:
        """Read the folder, for a table by its sorted hashes of ids. Raises Problem for other files.

        Deletes truncated files, and files that repeat rows of another file: workers of a killed job
        may write for a while after the next job has begun.
        """
        columns = [self._id, TEXTS, "status"]
        parts: dict[str, tuple[Hashes, Hashes]] = {}
        self.statuses = Counter()
        for path in self._paths(".parquet"):
            try:
                with parquet.ParquetFile(path, filesystem=self._files) as file:
                    part = file.read(columns)
            except pa.ArrowInvalid:
                self._files.delete_file(path)
                continue
            if part.num_columns < len(columns):
                raise Problem(f"{path}: is not of `judged batch`; move it out of --output")
            mine = hashed(part[self._id].to_pylist())
            parts[path] = mine, part[TEXTS].to_numpy()
            there = ids.searchsorted(mine, "right") > ids.searchsorted(mine)
            self.statuses.update(part["status"].filter(pa.array(there)).to_pylist())
        found, texts = (
            pa.chunked_array([part[i] for part in parts.values()], pa.int64()).to_numpy()
            for i in range(2)
        )
        order = found.argsort(kind="stable")
        self.ids, self.texts = found[order], texts[order]
        same = self.ids[1:] == self.ids[:-1]
        if same.any():
            paths, ends = list(parts), list(accumulate(len(part) for part, _ in parts.values()))
            rows = zip(order[:-1][same].tolist(), order[1:][same].tolist(), strict=True)
            files = {(bisect_right(ends, one), bisect_right(ends, other)) for one, other in rows}
            for one, other in files:
                if one == other:
                    raise Problem(f"{paths[one]}: has an id twice; move it out of --output")
            for repeated in {other for _, other in files}:
                self._files.delete_file(paths[repeated])
            self.read(ids)
            return
        self.missing = len(ids) - self.statuses.total()

    def _paths(self, ending: str = "") -> list[str]:
        """Return the paths of the files with an ending, except those whose names begin with _."""
        there = self._files.get_file_info(fs.FileSelector(self._path))
        names = ((each.path, each.base_name) for each in there if each.is_file)
        return sorted(path for path, name in names if name.endswith(ending) and name[0] != "_")


class _Job:
    """The totals of a job, in a process of its own."""

    def __init__(self, asking: Asking | None) -> None:
        self.limit = CostLimit(asking)
        self.rows = 0
        self.usage: Usage | None = None
        self.why = Counter[str]()

    def note(self, rows: int, usage: Usage | None, why: Mapping[str, int]) -> None:
        """Add the rows of a judged batch, its usage, and the reasons of missing rows."""
        self.rows += rows
        self.why.update(why)
        self.limit.took(usage)
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def totals(self) -> _Job:
        """Return a copy, from that process."""
        return self


def complete(
    table: str,
    ids: Hashes,
    folder: Folder,
    judging: Judging,
    block_rows: int,
    progress: Progress | None,
) -> _Job:
    """Judge the rows of a table that are not in the folder; return the totals. Raises Problem."""
    folder.read(ids)
    before, job, done = 0, None, len(ids) - folder.missing
    with _started(judging.asking, lambda n: progress and progress(done + n, len(ids))) as ledger:
        # Ask again for missing rows while each pass at least halves them.
        while job is None or 0 < folder.missing <= before // 2:
            before = folder.missing
            job = _judge(table, folder, judging, block_rows, ledger)
            folder.read(ids)
    return job


def _judge(table: str, folder: Folder, judging: Judging, block_rows: int, ledger: Any) -> _Job:  # noqa: ANN401 - of Ray
    """Judge the rows that are not in the folder; return the totals of the job."""
    import ray  # noqa: PLC0415 - the rest of this module works without it

    # Start the ledger first: if a worker waits for it, Ray starts another worker.
    before: _Job = ray.get(ledger.totals.remote())
    known = ray.put((folder.ids, folder.texts))

    def drop_judged(batch: pa.Table) -> pa.Table:
        return unjudged(batch, judging, *ray.get(known))

    def judge(batch: pa.Table) -> pa.Table:
        # With the part of --max-cost that is not spent.
        asking = ray.get(ledger.totals.remote()).limit.rest()
        found = replace(judging, asking=asking).ask(batch)
        ray.get(ledger.note.remote(found.table.num_rows, found.usage, found.missing))
        if not batch.num_rows:
            return found.table
        places = compute.index_in(found.table[judging.id], batch[judging.id])
        return found.table.append_column(TEXTS, batch[TEXTS].take(places))

    names = [judging.id, *judging.columns.values()]
    # As `hashed_ids` reads it, without columns from names of folders.
    rows = ray.data.read_parquet(absolute(table), columns=names, partitioning=None)
    new = rows.map_batches(drop_judged, batch_size=None, batch_format="pyarrow")
    # Ray's own blocks are so large that all would be in flight at once, and lost in a kill.
    new.repartition(target_num_rows_per_block=block_rows).map_batches(
        judge,
        batch_size=block_rows,
        batch_format="pyarrow",
        concurrency=1 if before.limit.limited else None,
    ).write_parquet(absolute(folder.name))
    job: _Job = ray.get(ledger.totals.remote())
    job.why -= before.why  # those rows were asked again
    return job


@contextmanager
def _started(asking: Asking | None, progress: Callable[[int], object]) -> Iterator[Any]:
    """Start Ray or join its cluster; yield a _Job in it, whose rows `progress` is called with."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray  # noqa: PLC0415 - as above

    address = os.environ.get("RAY_ADDRESS") or "local"
    # On a busy machine Ray may not start within its own limit of 30 s.
    for may_retry in [True, True, False]:
        try:
            ray.init(address, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
            break
        except Exception as error:  # noqa: BLE001 - Ray has no class for this error
            ray.shutdown()
            if address != "local" or not may_retry:
                raise Problem(f"Ray did not start: {error}") from None
    context = ray.data.DataContext.get_current()
    # Its errors are raised, too. Only now: importing ray.data sets the level.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context.enable_progress_bars, context.raise_original_map_exception = False, True
    ledger, over = ray.remote(_Job).options(num_cpus=0).remote(asking), threading.Event()

    def report() -> None:
        while not over.wait(_PROGRESS_S):
            with suppress(ray.exceptions.RayError):  # it ends the job too
                progress(ray.get(ledger.totals.remote()).rows)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield ledger
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", error)
        if isinstance(cause, JudgedError):
            raise cause from None
        why = str(cause).partition("\n")[0]
        raise Problem(
            f"the job of Ray ended: {type(cause).__name__}: {why}; run it again"
        ) from None
    finally:
        over.set()
        thread.join()
        ray.shutdown()
