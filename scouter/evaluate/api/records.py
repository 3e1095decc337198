"""Results of records: the rows, with the ways to save, compare and show them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import JsonValue

from scouter.evaluate.api.shown import Shown
from scouter.evaluate.results.rows import ResultRow, ResultRows
from scouter.model.json_value import plain_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from scouter.evaluate.api.comparison import ComparisonResults


class AlignedEvalResult(ResultRow):
    """One record of an evaluation; a notebook shows its tasks.

    Args:
        record: Its results.
        scenario_id: The scenario that the record came from, in a replay.
        attempt: Number of the attempt at the scenario, from 0.
        annotations: Annotations that an `EvaluationConfig` requested.
        window: Begin and end of the evaluation, where known.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Show one row per task in a notebook."""
        from scouter.evaluate.show.results_table import tasks_html  # rich loads on demand

        return tasks_html(self)


class EvalResults(ResultRows, Shown):
    """All records of an evaluation, in the records' order; behind them its sessions, if any.

    A session is a row like a record, with the results of the session-scoped tasks. No task result
    stands in two rows, so that counts and rates are over all rows alike.

    Args:
        records: One result per record, then one per session.
        scenario_ids: The scenario of each record, in a replay; as many as records.
        attempts: Number of the attempt that each record is from, counted from 0; as many.
        annotations: Annotations that an `EvaluationConfig` requested.
        provenance: Origin of the results, or a function that finds it out when called.
        window: Begin and end of the evaluation; from the provenance where that is given.
    """

    row_type: ClassVar[type[ResultRow]] = AlignedEvalResult

    @property
    def aligned_results(self) -> list[AlignedEvalResult]:
        """One object per record, in order."""
        return list(self)

    def __iter__(self) -> Iterator[AlignedEvalResult]:
        return cast("Iterator[AlignedEvalResult]", super().__iter__())

    def __getitem__(self, key: str) -> AlignedEvalResult:
        """Find a record by its `record_id`, or else by its uid.

        Raises:
            KeyError: No record has this id, or several have; says which ids there are.

        Cost: linear the first time, then constant.
        """
        return cast("AlignedEvalResult", super().__getitem__(key))

    def model_dump(self) -> dict[str, JsonValue]:
        """Write everything as plain JSON values; see `scouter.evaluate.results.file`."""
        from scouter.evaluate.results.file import dump  # files are no part of judging

        return dump(self)

    def model_dump_json(self) -> str:
        """Write everything as JSON, with the number of the format."""
        from scouter.evaluate.results.file import dump_json  # files are no part of judging

        return dump_json(self)

    @staticmethod
    def model_validate_json(json_string: str | bytes) -> "EvalResults":
        """Read what `model_dump_json` wrote.

        Raises:
            ConfigError: Not such a text, or a format of a later version; names the field.
        """
        from scouter.evaluate.results.file import load_json  # files are no part of judging

        return load_json(json_string, EvalResults)

    def save(self, path: str | Path) -> None:
        """Write everything as JSON in UTF-8, all of the file or nothing.

        A file that was there stays as it is until the new one is complete. Half characters (lone
        surrogates), which UTF-8 lacks, are written as U+FFFD.

        Raises:
            OSError: The file cannot be written.
        """
        from scouter.evaluate.files.versioned import write_whole  # files are no part of judging

        write_whole(Path(path), f"{plain_text(self.model_dump_json())}\n")

    @staticmethod
    def load(path: str | Path) -> "EvalResults":
        """Read what `save` wrote, whatever the file is called.

        Raises:
            FileFormatError: Names the file, and line and field where they are known.
        """
        from scouter.evaluate.files.read import (  # files are no part of judging
            parse_json,
            read_text,
        )
        from scouter.evaluate.results.file import from_document

        return from_document(parse_json(str(path), read_text(path)), EvalResults)

    def compare_to(
        self,
        baseline: "EvalResults",
        regression_threshold: float = 0.05,
        accept_changed: "Collection[str]" = (),
    ) -> "ComparisonResults":
        """Hold these results against earlier ones, record by record.

        Args:
            baseline: The earlier results.
            regression_threshold: Drop of a record's pass rate, in [0, 1], that is a regression.
            accept_changed: Ids of tasks that changed since, and that a person looked at.

        Raises:
            TypeError: The baseline is something else, such as the results of a replay.
            ValueError: The threshold is not in [0, 1].
            ConfigError: Nothing of an accepted id changed; names the ids of what did.
        """
        from scouter.evaluate.api.comparison import ComparisonResults  # few evaluations need it

        return ComparisonResults.of(baseline, self, regression_threshold, accept_changed)

    def to_arrow(self) -> Any:  # noqa: ANN401 — pyarrow loads on demand
        """Make an Arrow table with one row per task result; see `scouter.evaluate.show.frame`.

        Raises:
            ConfigError: pyarrow is not installed; says how to install it.
        """
        from scouter.evaluate.show.frame import arrow  # pyarrow loads on demand

        return arrow(self)

    def as_table(self, show_tasks: bool = False) -> None:
        """Print a table to the standard output.

        Args:
            show_tasks: One row per task result instead of one per record.
        """
        from scouter.evaluate.show.results_table import print_table  # rich loads on demand

        print_table(self, show_tasks)
