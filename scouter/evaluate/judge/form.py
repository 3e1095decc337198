"""Forms: questions to a judge with blanks like `{answer}`, filled in."""

import re
from collections.abc import Mapping
from typing import Final

from scouter.evaluate.judge.fences import fence_code, fence_sentence, fenced
from scouter.evaluate.judge.port import Message

_MARKS: Final = re.compile(r"\{\{|\}\}|\{(\w+)\}")


def fill_form(form: str, values: Mapping[str, str], *, fence: bool = True) -> tuple[Message, ...]:
    """Fill the blanks of a question.

    Args:
        form: The question; `{name}` is a blank, `{{` and `}}` are braces. A brace of any other
            kind, and a blank without a value, stay as they are.
        values: By the name of a blank.
        fence: Whether values stand between markers that declare them to be data.

    Returns:
        The sentence about the markers, where there are any, and the user's message.
    """
    given = dict(values)
    said: list[Message] = []
    if fence and given:
        code = fence_code([form], list(given.values()))
        given = {name: fenced(value, code) for name, value in given.items()}
        said.append(Message(role="system", content=fence_sentence(code)))

    def put(mark: re.Match[str]) -> str:
        if mark[1] is None:
            return mark[0][0]
        return given.get(mark[1], mark[0])

    return *said, Message(role="user", content=_MARKS.sub(put, form))
