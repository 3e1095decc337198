"""What was polled from Kafka on its way into the store."""

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final

from collector.pipeline.input_clock import Via
from collector.receivers.dropped import sum_dropped
from collector.receivers.ingest import Ingest
from collector.receivers.otlp_body import SpanBatch, decode_protobuf, merged
from collector.receivers.record_items import read_json
from collector.storage.rows import DeadLetter, LetterKind
from scouter.errors import DataError, TransientError
from scouter.transport.port import DROPPED_HEADER

_log: Final = logging.getLogger(__name__)
_RETRY_S: Final = 1.0
_PART_BYTES: Final = 4 * 2**20
"""Bytes of messages that are decoded at a time: what is made of them is larger."""


class KafkaIntake:
    """Stores messages in their order, again and again until they are durable.

    Args:
        ingest: The way in.
        spans_topic: What comes by it are spans; all else are records.
        stopping: Once it is set, what the store refuses is given up, to be delivered again.
    """

    def __init__(self, ingest: Ingest, spans_topic: str, stopping: threading.Event) -> None:
        self._ingest, self._spans_topic, self._stopping = ingest, spans_topic, stopping

    def store(self, messages: Sequence[Any]) -> bool:
        """Store messages, part by part.

        Nothing is left in hand when this returns: a poll may take partitions away, and what was
        polled of them has to be committed by then, or another collector stores it as well.

        Returns:
            False if some were given up; nothing may be committed then.
        """
        return all(self._insist(part) for part in parts_of(messages, _PART_BYTES))

    def _insist(self, messages: Sequence[Any]) -> bool:
        fault: DataError | None = None
        while True:
            try:
                for future in self.take(messages, fault):
                    future.result()
                dropped = sum_dropped(map(_dropped, messages))
                if dropped:  # last: what is not stored is stored again, and would tell it again
                    self._ingest.take_dropped(dropped).result()
            except TransientError as error:
                _log.warning("kafka: the store does not take messages, trying again: %s", error)
                if self._stopping.wait(_RETRY_S):
                    return False
            except DataError as error:
                # The store cannot hold it; polled again, it would hold up all others for ever.
                if len(messages) > 1:
                    return all(self._insist([each]) for each in messages)
                if fault is not None:
                    raise
                fault = error
            else:
                return True

    def take(self, messages: Sequence[Any], fault: DataError | None = None) -> "list[Future[Any]]":
        """Hand messages to the store; one that it cannot hold becomes a dead letter."""
        if fault is not None:
            return [self._ingest.put_aside([self._letter(messages[0], "unstorable", fault)])]
        batches: list[SpanBatch] = []
        items: list[object] = []
        sources: list[str] = []
        letters: list[DeadLetter] = []
        for message in messages:
            source, value = _source(message), message.value or b""
            try:
                if message.topic == self._spans_topic:
                    body = decode_protobuf(value, self._ingest.limits)
                    batches += body.batches
                    letters += [
                        self._ingest.letter(
                            LetterKind.SPAN, "invalid_span", each.message, source, each.payload
                        )
                        for each in body.refused
                    ]
                else:
                    items.append(read_json(value))
                    sources.append(source)
            except DataError as error:
                letters.append(self._letter(message, "invalid_message", error))
        size = sum(len(message.value or b"") for message in messages)
        futures = list(self._ingest.take_records(items, sources, size, Via.BROKER).futures)
        for batch in merged(batches):
            taken = self._ingest.take_spans(batch.spans, size, Via.BROKER, wire=batch.wire)
            futures.append(taken)
        if letters:
            futures.append(self._ingest.put_aside(letters))
        return futures

    def _letter(self, message: Any, reason: str, error: DataError) -> DeadLetter:  # noqa: ANN401 - untyped client
        is_spans = message.topic == self._spans_topic
        kind = LetterKind.SPANS_MESSAGE if is_spans else LetterKind.RECORDS_MESSAGE
        value = message.value or b""
        return self._ingest.letter(kind, reason, str(error), _source(message), value)


def parts_of(messages: Sequence[Any], max_bytes: int) -> Iterator[Sequence[Any]]:
    """Split messages, in order, into parts of at most so many bytes, or of one message."""
    part: list[Any] = []
    size = 0
    for message in messages:
        length = len(message.value or b"")
        if part and size + length > max_bytes:
            yield part
            part, size = [], 0
        part.append(message)
        size += length
    if part:
        yield part


def _source(message: Any) -> str:  # noqa: ANN401 - untyped client
    return f"kafka:{message.topic}:{message.partition}:{message.offset}"


def _dropped(message: Any) -> str:  # noqa: ANN401 - untyped client
    values = (value for name, value in message.headers or () if name == DROPPED_HEADER)
    return ",".join(value.decode("ascii", "replace") for value in values if value)
