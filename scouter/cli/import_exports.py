"""The command `scouter import`."""

import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer
from pydantic import SecretStr

from scouter.cli.asking import TokenFile, read_token
from scouter.cli.export import whole_file
from scouter.cli.outputs import check_writable
from scouter.errors import ConfigError, FileFormatError, TransientError
from scouter.model.log_event import foreign_results
from scouter.model.otlp_json import spans_to_otlp_json
from scouter.model.span import Resource, Span
from scouter.model.visible import one_line

_SHOWN: Final = 20
"""Faults that are named one by one."""
_BATCH: Final = 500
"""Spans from which on a request is sent; traces are not cut."""
_TRIES: Final = 6
_LONGEST_S: Final = 60.0


def import_exports(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="Exports of Langfuse, LangSmith, Phoenix or Inspect, ATIF trajectories, folders "
            "of Harbor trials, files of OTLP, folders of these; the content says which.",
        ),
    ],
    to: Annotated[
        str | None, typer.Option(metavar="URL", help="Send the traces to this collector.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write them as OTLP, a trace a line.")
    ] = None,
    service: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the service, whatever is exported.")
    ] = None,
    token_file: TokenFile = None,
) -> None:
    """Read traces that another system exported, and their scores.

    Traces become OTLP, and scores its events `gen_ai.evaluation.result`. Ids follow from those of
    the export, so that what comes twice is stored once. Without --out and --to the command says
    what it found.

    What cannot be read is named and counted, and all else is read. The exit code is 0 if everything
    was read and taken, 1 if a part was not, 2 if nothing was.

    **Examples**

        scouter import observations.jsonl scores.jsonl --out traces.otlp.jsonl
        scouter import runs.parquet --to http://127.0.0.1:4318
        scouter import jobs/2026-11-30 --out trials.otlp.jsonl
        scouter import trials.otlp.jsonl --to http://127.0.0.1:4318
    """
    if out is not None:
        check_writable("--out", out)
    from scouter.formats.exports.read import read_exports  # the formats take most of the start

    faults: list[FileFormatError] = []
    found: Counter[str] = Counter()
    spans = scores = 0
    with ExitStack() as stack:
        file = None if out is None else stack.enter_context(whole_file("--out", out))
        far = None if to is None else stack.enter_context(closing(_Collector(to, token_file)))
        for name, trace in read_exports(files, faults.append):
            found[name] += 1
            spans, scores = spans + len(trace), scores + len(foreign_results(trace))
            trace = _of_service(trace, service) if service else trace
            if file is not None:
                file.write(orjson.dumps(spans_to_otlp_json(trace)) + b"\n")
            if far is not None:
                far.take(trace)
        if not found:
            said = "\n".join(map(one_line, faults[:_SHOWN])) or "the files hold no trace"
            raise ConfigError(said)
        if far is not None:
            far.send()
    for fault in faults[:_SHOWN]:
        typer.echo(f"scouter: not read: {one_line(fault)}", err=True)
    kinds = ", ".join(f"{count} traces of {name}" for name, count in found.items())
    lost = f"; {len(faults)} parts could not be read" if faults else ""
    typer.echo(f"{kinds}: {spans} spans, {scores} scores{lost}")
    if out is not None:
        typer.echo(f"wrote {out}: scouter eval --traces {out} --profile PROFILE judges it")
    if far is not None:
        typer.echo(f"sent to {to}" + (f"; it refused {far.refused} spans" if far.refused else ""))
    if faults or (far is not None and far.refused):
        raise typer.Exit(1)


def _of_service(trace: list[Span], name: str) -> list[Span]:
    resource = {id(span.resource): span.resource for span in trace}
    named = {
        key: Resource(attributes={**each.attributes, "service.name": name})
        for key, each in resource.items()
    }
    return [replace(span, resource=named[id(span.resource)]) for span in trace]


class _Collector:
    """Sends spans to a collector; what it has no room for now is sent again."""

    def __init__(self, url: str, token_file: Path | None) -> None:
        from scouter.transport.config import HttpConfig
        from scouter.transport.halving import HalvingTransport
        from scouter.transport.http import HttpTransport

        config = HttpConfig(server_uri=url, timeout_s=_LONGEST_S)
        if token_file is not None:
            token = SecretStr(read_token(token_file))
            config = HttpConfig(server_uri=url, timeout_s=_LONGEST_S, auth_token=token)
        self._transport = HalvingTransport(HttpTransport(config))
        self._waiting: list[Span] = []
        self.refused = 0

    def take(self, trace: list[Span]) -> None:
        """Take a trace, to be sent with others."""
        self._waiting += trace
        if len(self._waiting) >= _BATCH:
            self.send()

    def send(self) -> None:
        """Send what was taken.

        Raises:
            TransientError: The collector does not take it, however often it is sent.
        """
        from scouter.model.otlp import encode_request

        count, data = len(self._waiting), encode_request(self._waiting).SerializeToString()
        for tried in range(1, _TRIES + 1):
            try:
                self.refused += self._transport.send_otlp(data, count) if count else 0
                break
            except TransientError as error:
                if tried == _TRIES:
                    raise
                time.sleep(min(error.retry_after_s or 2.0**tried, _LONGEST_S))
        self._waiting = []

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()
