"""The journal of an interrupted run: answers of the agent, and scores."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from pydantic import JsonValue, TypeAdapter

from scouter.errors import ConfigError
from scouter.evaluate.report.verdicts import ItemVerdict

_FOLDER: Final = ".scouter"
_VERDICT: Final = TypeAdapter(ItemVerdict)


def digest_of(parts: JsonValue) -> str:
    """A short name for everything that a run depends on."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(slots=True, kw_only=True)
class RunJournal:
    """Files of a run that is under way, in a folder of their own beside its results."""

    folder: Path
    digest: str
    verdicts: dict[tuple[str, str], ItemVerdict] = field(
        default_factory=dict[tuple[str, str], ItemVerdict]
    )
    """Verdicts of an earlier run that was interrupted, by evaluator and item."""

    @staticmethod
    def open(output_dir: Path, digest: str) -> "RunJournal":
        """Make the folder, and read what is there of the same run.

        Raises:
            ConfigError: The folder cannot be made, or a file cannot be read.
        """
        journal = RunJournal(folder=output_dir / _FOLDER, digest=digest)
        try:
            journal.folder.mkdir(exist_ok=True)
            data = journal._file.read_bytes() if journal._file.exists() else b""
            whole = data[: data.rfind(b"\n") + 1]
            if len(whole) < len(data):  # a line was being written when the run was killed
                journal._file.write_bytes(whole)
        except OSError as error:
            raise ConfigError(f"{journal.folder}: {error}") from error
        try:
            for line in whole.splitlines():
                told: Mapping[str, JsonValue] = json.loads(line)
                verdict = _VERDICT.validate_python(told["verdict"])
                journal.verdicts[str(told["evaluator"]), str(verdict.id)] = verdict
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{journal._file} is damaged; remove it: {error}") from error
        return journal

    @property
    def answers(self) -> Path:
        """The replay's own journal of what the agent answered."""
        return self.folder / f"{self.digest}.answers.jsonl"

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.digest}.verdicts.jsonl"

    def add(self, evaluator: str, verdict: ItemVerdict) -> None:
        """Keep a verdict; one without a score that should have one is asked for again."""
        if verdict.score is None and not verdict.is_skipped:
            return
        line = json.dumps({"evaluator": evaluator, "verdict": asdict(verdict)}, ensure_ascii=False)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def finish(self) -> None:
        """Remove the files, as the run is over: the next one asks anew."""
        for path in (self.answers, self._file):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # another run may have its files there
            self.folder.rmdir()
