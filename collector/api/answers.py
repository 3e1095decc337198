"""Parts of answers that several routes share."""

import orjson
from fastapi import Response
from pydantic import JsonValue

from collector.store import span_queries
from collector.store.json_text import dump_json
from scouter.client.models.text_match import TextMatch


def json_response(content: JsonValue) -> Response:
    """Answer with JSON; half surrogates and numbers beyond 64 bits are written, too."""
    try:
        text = orjson.dumps(content)
    except orjson.JSONEncodeError:
        text = dump_json(content).encode()
    return Response(text, media_type="application/json")


def match_answer(match: span_queries.TextMatch | None) -> TextMatch | None:
    """The place at which a search found its text."""
    if match is None:
        return None
    return TextMatch(where=match.where, before=match.before, text=match.text, after=match.after)
