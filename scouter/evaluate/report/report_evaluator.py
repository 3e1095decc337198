"""Reports: found, read, and scored field by field."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.files.read import read_document
from scouter.evaluate.judge.ask import JudgeCaller
from scouter.evaluate.judge.loops import run_apart
from scouter.evaluate.judge.port import AnyJudge
from scouter.evaluate.report.evaluator import (
    MOST_AT_ONCE,
    EvalItem,
    ItemEvaluator,
    ItemVerdict,
    errored,
    skipped,
)
from scouter.evaluate.report.field_judge import DISCOVERY_FORM, SINGLE_FORM, FieldJudge
from scouter.evaluate.report.field_metrics import JUDGE, Compat, MetricsConfig, mean_score
from scouter.evaluate.report.tree import SectionScore, TreeScorer, read_report

_CAMERA: Final = re.compile(r"camera_\d+")


class FolderStore:
    """Reads reports by key from one folder, and from nowhere else.

    Args:
        folder: Its path.

    Raises:
        ConfigError: There is no such folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise ConfigError(f"report store {str(folder)!r}: there is no such folder")

    def __repr__(self) -> str:
        return f"FolderStore({str(self.folder)!r})"

    def read(self, key: str) -> str | None:
        """Read a report.

        Args:
            key: Its path inside the folder.

        Returns:
            The text; None where there is no such file.

        Raises:
            DataError: The key, or a symbolic link, leads out of the folder; or the file is no
                UTF-8 text.
        """
        try:
            path = (self.folder / key).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"report {key!r}: {error}") from error
        if not path.is_relative_to(self.folder):
            raise DataError(f"report {key!r} lies outside of the folder {str(self.folder)!r}")
        if not path.is_file():
            return None
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"report {key!r} is no UTF-8 text: {error}") from error


class ReportEvaluator(ItemEvaluator):
    """Scores reports in Markdown against references in JSON, from their fields up.

    Args:
        metrics: The tree of sections and fields: plain data, or a YAML or JSON file.
        store: Holds the reports: a folder, or its path. Without one only `score` can be used.
        report_url_pattern: Finds a report's address in an answer; its first group, or else the
            last part of the address, is the key in the store.
        reference_base_dir: Folder that the paths of references begin in.
        judge: A judge, a function from `JudgeRequest` to the answer, or `entry/model`; needed
            where the tree asks one.
        evaluation_method_id: Items that do not name it in `evaluation_method` are skipped; empty
            skips none.
        include_vlm_output: Whether there is a score of the visual sections.
        vlm_related_fields: The top-level sections that a vision model fills.
        single_field_comparison_prompt: In place of our question about one field; the blanks are
            `{reference}`, `{actual}` and `{field_context}`.
        multi_field_discovery_prompt: In place of our question about discovered fields; the blanks
            are `{reference_section}` and `{actual_fields}`.
        compat: `sound`, or `vss`: what has no score counts 0.
        max_concurrency: Items at a time.

    Raises:
        ConfigError: The tree, the pattern or the folder is wrong, or the tree needs a judge.
    """

    def __init__(
        self,
        metrics: MetricsConfig | Mapping[str, object] | str | Path,
        *,
        store: FolderStore | str | Path | None = None,
        report_url_pattern: str = r"https?://\S+\.md",
        reference_base_dir: str | Path = ".",
        judge: JudgeCaller | AnyJudge | str | None = None,
        evaluation_method_id: str = "report",
        include_vlm_output: bool = True,
        vlm_related_fields: Sequence[str] | None = None,
        single_field_comparison_prompt: str | None = None,
        multi_field_discovery_prompt: str | None = None,
        compat: Compat = "sound",
        max_concurrency: int = MOST_AT_ONCE,
    ) -> None:
        super().__init__(evaluation_method_id, compat, max_concurrency, with_vlm=include_vlm_output)
        config = _config(metrics, compat)
        if judge is None and JUDGE in config.methods(compat):
            raise ConfigError(f"{config.root_key}: the metrics ask a judge, and there is none")
        self._scorer = TreeScorer(
            config=config,
            compat=compat,
            judge=None
            if judge is None
            else FieldJudge(
                caller=JudgeCaller.of(judge),
                single_form=single_field_comparison_prompt or SINGLE_FORM,
                discovery_form=multi_field_discovery_prompt or DISCOVERY_FORM,
                compat=compat,
            ),
        )
        is_path = isinstance(store, str | Path)
        self._store = FolderStore(store) if is_path else store
        self._base = Path(reference_base_dir)
        try:
            self._pattern = re.compile(report_url_pattern)
        except re.error as error:
            raise ConfigError(f"report_url_pattern {report_url_pattern!r}: {error}") from error
        self._visual = vlm_related_fields

    def score(
        self, reference: Mapping[str, JsonValue], report: str | Mapping[str, JsonValue]
    ) -> SectionScore:
        """Score one report that is at hand; works inside a running event loop, too.

        Args:
            reference: Content of a right report.
            report: Markdown, or its sections and fields.
        """
        return run_apart(lambda: self.score_async(reference, report))

    async def score_async(
        self, reference: Mapping[str, JsonValue], report: str | Mapping[str, JsonValue]
    ) -> SectionScore:
        """Score one report that is at hand, in the running event loop."""
        read = read_report(report, self._compat) if isinstance(report, str) else dict(report)
        return await self._scorer.score(dict(reference), read)

    async def judge_item(self, item: EvalItem) -> ItemVerdict:
        """Find and score the report of one item.

        An answer without a report scores 0. Any other fault is an error without a score.

        Raises:
            DataError: The item does not say which evaluators are to look at it.
        """
        if not self.is_for(item):
            return skipped(item, self.evaluation_method_id)
        try:
            if item.failure and self._compat == "sound":
                raise DataError(f"the agent failed: {item.failure}")
            path = self._base / str(item.ground_truth)
            reference = read_document(path).value if self._compat != "vss" else _read_json(path)
            url = self._url(item.answer)
            report = self._find(url, path) if url else None
            if url is None or not report:
                pattern = self._pattern.pattern
                return self._without_report(
                    item,
                    f"No report URL found in response matching pattern: {pattern}"
                    if url is None
                    else f"Report not found in object store: {self._key(url)}",
                )
            read = read_report(report, self._compat)
            found = await self._scorer.score(reference, read)
        except Exception as error:  # noqa: BLE001 - one item's failure is its verdict
            return errored(item, str(error))
        return ItemVerdict(
            id=item.id,
            score=found.section_score,
            error=found.error or "",
            reason=found.reason,
            vlm_field_score=self._visual_score(found),
            reasoning={
                "sections": {name: each.to_json() for name, each in found.field_scores.items()},
                "metadata": {"reference_file": str(path), "actual_file": url},
            },
        )

    def _url(self, answer: JsonValue) -> str | None:
        """The address in an answer; one that is no text raises Python's own `TypeError`."""
        if answer is None and self._compat == "sound":
            return None
        found = self._pattern.search(cast("str", answer))
        return found[0] if found else None

    def _key(self, url: str) -> str:
        found = self._pattern.search(url)
        named = found[1] if found and found.groups() else None
        return named or url.rstrip("/").rpartition("/")[2]

    def _find(self, url: str, reference: Path) -> str | None:
        if self._store is None:
            raise ConfigError("there is no store to find reports in; give store= a folder")
        key = self._key(url)
        camera = _CAMERA.search(str(reference))
        if camera is None:
            return self._store.read(key)
        return self._store.read(f"{camera[0]}/{key}") or (
            self._store.read(key) if self._compat == "sound" else None
        )

    def _without_report(self, item: EvalItem, message: str) -> ItemVerdict:
        visual = 0.0 if self._with_vlm else None
        return ItemVerdict(
            id=item.id,
            score=0.0,
            vlm_field_score=visual,
            reasoning={"error": message},
            error=message,
        )

    def _visual_score(self, found: SectionScore) -> float | None:
        """Mean of the visual sections that the result has; None where there is none."""
        if not (self._with_vlm and self._visual):
            return None
        sections = [found.field_scores[name] for name in self._visual if name in found.field_scores]
        scores = [section.section_score for section in sections]
        if self._compat == "vss":
            return sum(score or 0.0 for score in scores) / len(scores) if scores else None
        return mean_score(scores, "sound")


def _config(
    metrics: MetricsConfig | Mapping[str, object] | str | Path, compat: Compat
) -> MetricsConfig:
    if isinstance(metrics, MetricsConfig):
        return metrics
    if isinstance(metrics, str | Path):
        return MetricsConfig.from_file(metrics, compat)
    return MetricsConfig.of(metrics, compat)


def _read_json(path: Path) -> JsonValue:
    """Read a reference; what is wrong is said in Python's own words."""
    with path.open(encoding="utf-8") as file:
        return json.load(file)
