"""Answers that are written without being checked once more."""

import orjson
from fastapi import Response
from pydantic import JsonValue

from collector.storage.duckdb.json_text import dump_json


def json_response(content: JsonValue) -> Response:
    """Answer with JSON; half surrogates and numbers beyond 64 bits are written, too."""
    try:
        text = orjson.dumps(content)
    except orjson.JSONEncodeError:
        text = dump_json(content).encode()
    return Response(text, media_type="application/json")
