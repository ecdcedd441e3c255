"""`judged batch`: tables of any size, judged by a job of Ray Data that may be run again."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from judged import Asking, CacheMode, Judge, JudgedError, QueryGroup
from judged._views import of_all, plural
from judged.cli.frame import Document, arg, opt
from judged.cli.judging import CascadeOptions, MaxCost
from judged.cli.output import Output, Problem, Progress
from judged.cli.tables import taken, usage_document
from judged.values import JudgeIdentity, Usage

_ABOUT = "_judged.json"
_KEPT = "_kept"
_LEAST_COST = 1e-9
_PROGRESS_S = 0.5


class BatchCommand(CascadeOptions, MaxCost):
    """Judge each row of a Parquet table, by Ray on this machine or on the cluster of RAY_ADDRESS.

    What is in OUT stays: the same command, run again, judges what is not there yet. It ends with 1
    while rows are missing.

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
        """Judge what has no verdict yet, and say what there is then."""
        for name, extra in {"pyarrow": "arrow", "ray": "ray"}.items():
            if find_spec(name) is None:
                raise Problem(f"judged batch needs {name}; run: pip install 'judged[{extra}]'")
        ids = self._ids()
        place = _Folder(self.output, self.id, (self.query, self.expected, self.retrieved))
        with self.asking("judging", len(ids)) as (server, how):
            spec = self.spec(server.info, self.min_score)
            # Who it is, and no more: no model is asked.
            probe, only = [QueryGroup("", ["text"], ["text"])], Asking(CacheMode.ONLY)
            judge = server.client.judge(probe, spec, asking=only).judge
            n_kept = place.begin(judge, ids)
            usage, why = None, Counter[str]()
            if n_kept < len(ids):
                # On this machine all share one server; elsewhere each process has one of its own.
                mine = "local" if os.environ.get("RAY_ADDRESS") else server.client.target
                asked = self._asked(self.target or mine, spec, judge)
                with _watched(how["progress"], n_kept, len(ids)) as watched:
                    usage, why = self._judge(asked, place, watched)
        return self._report(out, place, judge, ids, usage, why)

    def _ids(self) -> Any:  # noqa: ANN401 - a column of pyarrow
        """Return the ids of the table. Raises Problem for a column that is not as it must be."""
        from pyarrow import dataset  # noqa: PLC0415 - an extra

        from judged.arrow import check_ids  # noqa: PLC0415 - as above

        try:
            table = dataset.dataset(self.table)
        except (OSError, ValueError) as error:
            raise Problem(f"{self.table}: can't be read as Parquet: {error}") from None
        columns = {name for name in (self.id, self.query, self.expected, self.retrieved) if name}
        if missing := sorted(columns.difference(table.schema.names)):
            there = ", ".join(table.schema.names)
            raise Problem(f"{self.table}: has no column {', '.join(missing)}, but {there}")
        ids = table.to_table(columns=[self.id]).column(0)
        try:
            check_ids(self.id, ids)
        except JudgedError as error:
            raise Problem(f"{self.table}: {error}") from None
        return ids

    def _asked(self, target: str, judge: Judge, expect: JudgeIdentity) -> Any:  # noqa: ANN401 - as above
        """Return what is asked of each row, of this judge alone."""
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

    def _judge(
        self,
        asked: Any,  # noqa: ANN401 - as above
        place: _Folder,
        watched: _Watched,
    ) -> tuple[Usage | None, Counter[str]]:
        """Judge the rows that are not kept; return what it took, and why rows are missing."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray  # noqa: PLC0415 - an extra
        from ray.data.checkpoint import CheckpointConfig  # noqa: PLC0415 - as above

        here = {} if os.environ.get("RAY_ADDRESS") else {"address": "local"}
        ray.init(**here, logging_level="ERROR", log_to_driver=False)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        try:
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = False
            context.checkpoint_config = CheckpointConfig(
                self.id, place.kept_path, delete_checkpoint_on_success=False
            )
            ledger = ray.remote(_Ledger).options(num_cpus=0).remote(self.max_cost)
            watched.ledger = ledger
            rows = ray.data.read_parquet(self.table, columns=[self.id, *asked.columns.values()])
            # Blocks as large as Ray makes them would all be under way at once, and none be kept.
            blocks = rows.repartition(target_num_rows_per_block=self.block_rows)
            blocks.map_batches(
                _Work(asked, ledger, limited=self.max_cost is not None),
                batch_size=self.block_rows,
                batch_format="pyarrow",
                concurrency=None if self.max_cost is None else 1,
            ).write_parquet(self.output)
            told: _Ledger = ray.get(ledger.told.remote())
        except ray.exceptions.RayError as error:
            raise _own(error) from None
        finally:
            watched.ledger = None
            ray.shutdown()
        return told.usage, told.why

    def _report(
        self,
        out: Output,
        place: _Folder,
        judge: JudgeIdentity,
        ids: Any,  # noqa: ANN401 - as above
        usage: Usage | None,
        why: Mapping[str, int],
    ) -> Document:
        """Say what OUT has of the table; the command ends with 1 where rows are missing."""
        statuses = place.statuses()
        missing = len(ids) - place.n_kept(ids)
        shown = ", ".join(f"{n} {status}" for status, n in sorted(statuses.items()))
        out.show(f"{plural(len(ids), 'row')}: {shown or 'none judged'}", judge.signature)
        out.show(*taken(usage))
        out.warn(*(f"{plural(n, 'row')} without a verdict: {each}" for each, n in why.items()))
        if missing:
            out.warn(f"{of_all(missing, len(ids), 'row')} not in {self.output}; run it again")
            out.worse = True
        return {
            "rows": len(ids),
            "missing": missing,
            "statuses": statuses,
            "reasons": dict(why),
            "signature": judge.signature,
            **usage_document(usage),
        }


class _Folder:
    """The folder that verdicts are kept in: of one judge and the same columns."""

    def __init__(self, name: str, id_column: str, texts: Sequence[str | None]) -> None:
        """Take the columns that are judged too: those of queries, expected and retrieved texts."""
        from pyarrow import fs  # noqa: PLC0415 - an extra

        self._name, self._id, self._texts = name, id_column, list(texts)
        self._files, self._path = fs.FileSystem.from_uri(
            name if "://" in name else os.path.abspath(name)  # noqa: PTH100 - a text
        )
        self.kept_path = f"{self._name if '://' in name else self._path}/{_KEPT}"

    def begin(self, judge: JudgeIdentity, ids: Any) -> int:  # noqa: ANN401 - a column of pyarrow
        """Return how many of the ids are kept, having told Ray which.

        Files that were not written to their end are removed. Raises Problem for a folder of another
        judge's, or of something else.
        """
        from pyarrow import ArrowInvalid, parquet, table  # noqa: PLC0415 - an extra

        about = {
            "judge": judge.signature,
            "fingerprint": judge.fingerprint,
            "id": self._id,
            "columns": self._texts,
        }
        self._files.create_dir(self._path)
        path = f"{self._path}/{_ABOUT}"
        if self._files.get_file_info(path).is_file:
            with self._files.open_input_stream(path) as file:
                before = _read_about(file.read())
            if before is None:
                raise Problem(f"--output {self._name}: {_ABOUT} can't be read; name another folder")
            if before != about:
                raise Problem(
                    f"--output {self._name}: has verdicts of {_described(before)}, and not of "
                    f"{_described(about)}; name another folder, or go back to that"
                )
        elif self._there():
            raise Problem(f"--output {self._name}: has other files; name another folder")
        else:
            with self._files.open_output_stream(path) as file:
                file.write(json.dumps(about).encode())
        for part in self._parts():
            try:
                parquet.read_metadata(part, filesystem=self._files)
            except ArrowInvalid:
                self._files.delete_file(part)
        # What is kept is what is there, whatever Ray had written of it when it ended.
        self._files.create_dir(f"{self._path}/{_KEPT}")
        self._files.delete_dir_contents(f"{self._path}/{_KEPT}")
        if self._parts():
            kept = table({self._id: self._column(self._id)})
            parquet.write_table(kept, f"{self._path}/{_KEPT}/0.parquet", filesystem=self._files)
        return self.n_kept(ids)

    def n_kept(self, ids: Any) -> int:  # noqa: ANN401 - as above
        """Return how many of the ids have a verdict."""
        from pyarrow import compute  # noqa: PLC0415 - as above

        if not self._parts():
            return 0
        found: int = compute.sum(compute.is_in(ids, self._column(self._id))).as_py()
        return found

    def statuses(self) -> dict[str, int]:
        """Return how many rows have which status."""
        statuses = self._column("status").value_counts() if self._parts() else []
        return {each["values"].as_py(): each["counts"].as_py() for each in statuses}

    def _there(self) -> list[str]:
        """Return the files that are there, but for our own notes."""
        from pyarrow import fs  # noqa: PLC0415 - as above

        there = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return [each.path for each in there if each.is_file and not each.base_name.startswith("_")]

    def _parts(self) -> list[str]:
        return [path for path in self._there() if path.endswith(".parquet")]

    def _column(self, name: str) -> Any:  # noqa: ANN401 - as above
        from pyarrow import parquet  # noqa: PLC0415 - as above

        return parquet.read_table(self._parts(), columns=[name], filesystem=self._files).column(0)


def _read_about(raw: bytes) -> dict[str, Any] | None:
    """Return what a folder says of its verdicts; None where that can't be read."""
    try:
        about = json.loads(raw)
    except ValueError:
        return None
    keys = {"judge", "fingerprint", "id", "columns"}
    return about if isinstance(about, dict) and about.keys() == keys else None


def _described(about: Mapping[str, Any]) -> str:
    texts = ", ".join(map(str, about["columns"]))
    return f"{about['judge']} (fingerprint {about['fingerprint'][:8]}) by {about['id']} of {texts}"


class _Ledger:
    """What the workers of a job tell, in a process of its own."""

    def __init__(self, max_cost: float | None) -> None:
        self.max_cost = max_cost
        self.rows = 0
        self.usage: Usage | None = None
        self.why = Counter[str]()

    def left(self) -> float:
        """Return what may still be spent."""
        spent = 0.0 if self.usage is None else self.usage.cost or 0.0
        return max((self.max_cost or 0.0) - spent, _LEAST_COST)

    def note(self, rows: int, usage: Usage | None, why: Mapping[str, int]) -> None:
        """Count the rows of a batch."""
        self.rows += rows
        self.why.update(why)
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def told(self) -> _Ledger:
        """Return all that was told."""
        return self


class _Work:
    """Judges a batch, and tells the ledger."""

    def __init__(self, asked: Any, ledger: Any, *, limited: bool) -> None:  # noqa: ANN401 - of Ray
        self._asked = asked
        self._ledger = ledger
        self._limited = limited

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401 - of pyarrow
        """Return the verdicts of a batch."""
        import ray  # noqa: PLC0415 - an extra

        asking = None
        if self._limited:
            asking = Asking(max_cost=ray.get(self._ledger.left.remote()))
        found = self._asked.ask(batch, asking)
        told = self._ledger.note.remote(batch.num_rows, found.usage, dict(found.missing))
        ray.get(told)
        return found.table


class _Watched:
    """Whose ledger the progress is read from, while there is one."""

    ledger: Any = None


@contextmanager
def _watched(progress: Progress | None, done: int, total: int) -> Iterator[_Watched]:
    """Tell `progress` how many rows are done, while the job runs."""
    watched, over = _Watched(), threading.Event()

    def tell() -> None:
        import ray  # noqa: PLC0415 - an extra

        while not over.wait(_PROGRESS_S):
            if progress is not None and (ledger := watched.ledger) is not None:
                progress(done + ray.get(ledger.told.remote()).rows, total)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        over.set()
        thread.join()


def _own(error: BaseException) -> Exception:
    """Return the error of ours that ended a job, or a problem with what Ray says."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, JudgedError):
            return inner
        inner = getattr(inner, "cause", None) or inner.__cause__
    last = str(error).strip().splitlines()[-1:]
    return Problem(f"the job of Ray ended: {' '.join(last) or type(error).__name__}")
