"""Commits as the worker makes them, and what must be in the store after them by brute force."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from collector.metrics import TotalKey, TotalName
from collector.store.bodies import span_ranks
from collector.store.commit import Commit, RecordId, SpanId
from collector.store.file_store import FileStore
from collector.store.letters import DeadLetter
from collector.store.rows import EvaluationRow, RecordRow
from collector.store.span_rows import BodyRow, SpanKey, SpanRow, span_row
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.support.store_engines import PostgresqlStore

Engine = FileStore | PostgresqlStore


def rank(span: Span) -> SpanKey:
    """The rank of a span that came in a request of its own."""
    ((size, checksum),) = span_ranks(encode_request([span]).SerializeToString())
    return SpanKey(span.end_ns, size, checksum)


def row_of(space: str, span: Span, received_ns: int) -> SpanRow:
    """The row of a span."""
    key = rank(span)
    return span_row(
        span, space=space, received_ns=received_ns, size_bytes=key.size_bytes, checksum=key.checksum
    )


def body_of(space: str, spans: Sequence[Span]) -> BodyRow:
    """The body of spans of one trace."""
    message = encode_request(spans).SerializeToString()
    return BodyRow(space, spans[0].trace_id, len(spans), message)


def best_of(spans: Iterable[Span]) -> dict[tuple[str, str], Span]:
    """Of spans with one key the best one, by going through all of them."""
    best: dict[tuple[str, str], Span] = {}
    for span in spans:
        key = span.trace_id, span.span_id
        if key not in best or rank(span) > rank(best[key]):
            best[key] = span
    return best


@dataclass(kw_only=True)
class Sent:
    """Everything that was sent to a space, in commits."""

    space: str
    spans: list[tuple[int, Span]] = field(default_factory=list[tuple[int, Span]])
    """With the commit that each came in."""
    stored: dict[tuple[str, str], tuple[int, Span]] = field(
        default_factory=dict[tuple[str, str], tuple[int, Span]]
    )
    """The best span of each key, and its commit."""

    def append(
        self,
        engine: Engine,
        spans: Sequence[Span] = (),
        records: Sequence[RecordRow] = (),
        evaluations: Sequence[EvaluationRow] = (),
        letters: Sequence[DeadLetter] = (),
        started: Sequence[RecordId] = (),
        received_ns: int = 1,
    ) -> int:
        """Commit what is new or better, as the worker does, and note it by brute force."""
        best = best_of(spans)
        known = engine.stored_spans(self.space, {span.trace_id for span in spans})
        fresh = {
            key: span
            for key, span in best.items()
            if key[1] not in known.get(key[0], {}) or rank(span) > known[key[0]][key[1]]
        }
        replaced = [SpanId(self.space, *key) for key in fresh if key[1] in known.get(key[0], {})]
        by_trace: dict[str, list[Span]] = {}
        for (trace_id, _), span in fresh.items():
            by_trace.setdefault(trace_id, []).append(span)
        seq = engine.commit(
            Commit(
                offset=engine.last_seq() + 1,
                low_seq=0,
                spans=[row_of(self.space, span, received_ns) for span in fresh.values()],
                bodies=[body_of(self.space, each) for each in by_trace.values()],
                replaced=replaced,
                records=list(records),
                evaluations=list(evaluations),
                letters=list(letters),
                started=list(started),
                totals={
                    TotalKey(TotalName.DUPLICATES, self.space, label="span"): (
                        len(spans) - len(fresh) + len(replaced)
                    )
                },
            )
        )
        for span in spans:
            self.spans.append((seq, span))
            key = span.trace_id, span.span_id
            before = self.stored.get(key)
            if before is None or rank(span) > rank(before[1]):
                self.stored[key] = seq, span
        return seq

    def trace(self, trace_id: str) -> list[Span]:
        """The spans of a trace that must be stored."""
        return [span for (trace, _), (_, span) in self.stored.items() if trace == trace_id]
