"""Traces of a collector as spans: all of each trace that began, or went on, since some time."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from scouter.client.errors import ApiError
from scouter.errors import DataError, FileFormatError
from scouter.model.otlp_json import spans_from_otlp_json
from scouter.model.span import Span

if TYPE_CHECKING:
    from scouter.client.client import ScouterClient

_PAGE: Final = 1000
_GONE: Final = 404


def read_traces(
    client: "ScouterClient", trace_ids: Sequence[str], on_error: Callable[[FileFormatError], None]
) -> Iterator[Sequence[Span]]:
    """Read traces, one after the other.

    Args:
        client: Asks the collector; needs the scope read.
        trace_ids: The traces.
        on_error: Called with each trace or span that cannot be read, or is not stored any more.

    Yields:
        The spans of each trace; none of one that cannot be read.

    Raises:
        ScouterError: The collector refused, or cannot be reached.
    """
    for trace_id in trace_ids:
        where = f"{client.url}, trace {trace_id}"
        try:
            found = spans_from_otlp_json(json.loads(b"".join(client.trace_export(trace_id))))
        except ApiError as error:
            if error.status != _GONE:
                raise
            on_error(FileFormatError(where, "it was deleted meanwhile"))
            yield ()
        except (DataError, ValueError) as error:
            on_error(FileFormatError(where, str(error)))
            yield ()
        else:
            for index, problem in found.rejected:
                on_error(FileFormatError(where, f"span {index}: {problem}"))
            yield found.spans


def trace_ids_since(client: "ScouterClient", since_ns: int | None) -> list[str]:
    """List the traces with a span that began at a time, in ns since 1970, or later; None for all.

    Raises:
        ScouterError: The collector refused, or cannot be reached.
    """
    since = None if since_ns is None else str(since_ns)
    return [each.trace_id for each in client.traces(since=since, limit=_PAGE)]
