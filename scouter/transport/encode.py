"""Records as JSON: one that cannot be written does not cost the others."""

import json
from collections.abc import Sequence
from typing import Final

from scouter.errors import DataError
from scouter.model.json_value import plain_text
from scouter.transport.item import RecordItem

NOTHING_WRITTEN: Final = "nothing of the batch can be written"
"""Said of a batch that no request is sent for; so none tells of drops."""
_HEAD: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_UNENCODABLE: Final = (ValueError, TypeError)
"""Errors of `json`: for an id that is not text, or an integer with too many digits to write."""


def encode_record(item: RecordItem) -> bytes | None:
    """Write a record as one JSON object; None if that cannot be done."""
    try:
        return _written(item)
    except _UNENCODABLE:
        return None


def encode_records(items: Sequence[RecordItem]) -> tuple[bytes, int]:
    """Write records as the body of `POST /v1/records`.

    Args:
        items: The records.

    Returns:
        The body, and how many records could not be written and are not in it.

    Raises:
        DataError: None can be written.
    """
    try:
        texts = [_written(item) for item in items]
    except _UNENCODABLE:
        texts = [text for item in items if (text := encode_record(item)) is not None]
        if not texts:
            raise DataError(NOTHING_WRITTEN) from None
    return b'{"records":[' + b",".join(texts) + b"]}", len(items) - len(texts)


def _written(item: RecordItem) -> bytes:
    # A lone surrogate has no UTF-8 form; U+FFFD in its place loses nothing else.
    text = plain_text(_HEAD.encode(item.head())).encode()
    return text[:-1] + b',"context":' + item.context_json + b"}"
