"""The port: files of any known export, read as traces."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from scouter.errors import FileFormatError
from scouter.evaluate.spans.files import read_spans
from scouter.formats.exports import atif, inspect_log, langfuse, langsmith, phoenix
from scouter.formats.exports.rows import read_rows
from scouter.formats.exports.spans import Row, Tell
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import kind_of
from scouter.model.span import Span

_OTLP: Final = ("resourceSpans", "resourceLogs")
_SHOWN: Final = 12


_IsRow: TypeAlias = Callable[[Mapping[str, object]], bool]
_Traces: TypeAlias = Callable[[Iterable[Row], Tell], Iterator[list[Span]]]
_FORMATS: Final[Mapping[str, tuple[str, _IsRow, _Traces]]] = {
    "LangSmith": (langsmith.LOOKS_FOR, langsmith.is_row, langsmith.traces),
    "Phoenix": (phoenix.LOOKS_FOR, phoenix.is_row, phoenix.traces),
    "Langfuse": (langfuse.LOOKS_FOR, langfuse.is_row, langfuse.traces),
    "ATIF": (atif.LOOKS_FOR, atif.is_row, atif.traces),
}
"""By name, what objects are looked for, in words and as a test, and what makes traces of them."""
_OPERATIONS: Final = {
    Kind.MODEL: "chat",
    Kind.TOOL: "execute_tool",
    Kind.AGENT: "invoke_agent",
    Kind.EMBEDDING: "embeddings",
    Kind.RETRIEVAL: "retrieval",
}
_OPERATION: Final = "gen_ai.operation.name"


def read_exports(paths: Sequence[Path], tell: Tell) -> Iterator[tuple[str, list[Span]]]:
    """Read exports of other systems, and files of OTLP, each recognised by its content.

    Args:
        paths: Files; or folders, of Harbor's trials and jobs, or of files. Rows of one trace may be
            in different files.
        tell: Takes each part that cannot be read; all else is.

    Yields:
        The name of the format, and the spans of one trace, with scores as events.

    Raises:
        ConfigError: A package that a file needs is not installed.

    Cost: linear; but for Inspect's and Harbor's, all files are in memory.
    """
    found: dict[str, list[Row]] = {}
    otlp: list[Path] = []
    for path in (file for each in paths for file in _files(each, tell)):
        if path.is_dir():
            yield from (("Harbor", spans) for spans in atif.trial_traces(path, tell))
        elif inspect_log.is_log(path):
            samples = inspect_log.samples_of(path, tell)
            yield from (("Inspect", spans) for spans in inspect_log.sample_traces(samples, tell))
        elif not _sort(path, found, tell):
            otlp.append(path)
    traces: defaultdict[str, list[Span]] = defaultdict(list)
    for span in read_spans(*otlp, on_error=tell, with_results=True):
        traces[span.trace_id].append(span)
    yield from (("OTLP", spans) for spans in traces.values())
    for name, rows in found.items():
        for spans in filter(None, _FORMATS[name][2](rows, tell)):
            yield name, _named(spans)


def _files(path: Path, tell: Tell) -> list[Path]:
    """The files of a folder, hidden ones aside, and the folders of Harbor in it.

    A folder without any stands for itself.
    """
    if not path.is_dir():
        return [path]

    def unread(error: OSError) -> None:
        tell(FileFormatError(str(error.filename), f"cannot read the folder: {error.strerror}"))

    found: list[Path] = []
    for name, folders, files in os.walk(path, onerror=unread):
        folder = Path(name)
        if atif.RESULT in files and atif.has_trials(folder):
            found.append(folder)
            folders.clear()
            continue
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        own = (folder / each for each in sorted(files) if not each.startswith("."))
        found += [each for each in own if each.is_file()]
    return found or [path]


def _named(spans: Sequence[Span]) -> list[Span]:
    """Give spans the names that OpenTelemetry's conventions have for what they are.

    A root that tells of no kind is the agent, if it is alone, or has calls of models or tools below
    and there is no agent: in these systems a trace is one run of one.
    """
    kinds = [kind_of(span) for span in spans]
    is_made = len(spans) == 1 or {Kind.MODEL, Kind.TOOL} & set(kinds)
    made = is_made and not {Kind.AGENT, Kind.WORKFLOW} & set(kinds)
    named: list[Span] = []
    for span, kind in zip(spans, kinds, strict=True):
        is_agent = made and kind is Kind.OTHER and span.parent_span_id is None
        operation = _OPERATIONS.get(Kind.AGENT if is_agent else kind)
        attributes = {**span.attributes}
        if operation is not None:
            attributes.setdefault(_OPERATION, operation)
        named.append(replace(span, attributes=attributes))
    return named


def _sort(path: Path, found: dict[str, list[Row]], tell: Tell) -> bool:
    """Read a file, and give its rows to their formats; False for one of OTLP, which has its own."""
    unknown: list[Row] = []
    known = 0
    for row in read_rows(path, lambda value: _format(value) is not None, tell):
        name = _format(row.value)
        if name is None:
            unknown.append(row)
        else:
            found.setdefault(name, []).append(row)
            known += 1
    if known or not unknown:
        for row in unknown:
            tell(row.fault(f"the object is of no known kind; its keys: {_keys(row)}"))
        return True
    first = unknown[0]
    if any(key in first.value for key in _OTLP):
        return False
    wanted = "; ".join((*(words for words, _, _ in _FORMATS.values()), inspect_log.LOOKS_FOR))
    tell(FileFormatError(str(path), f"no known export; its keys: {_keys(first)}", expected=wanted))
    return True


def _format(value: Mapping[str, object]) -> str | None:
    return next((name for name, (_, is_row, _) in _FORMATS.items() if is_row(value)), None)


def _keys(row: Row) -> str:
    names = list(row.value)
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
