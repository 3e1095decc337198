"""OpenAI's own client, which takes a question as it is; import it only where a judge asks.

The client looks through each question for fields that the API names otherwise, by the types of
all that may be there. Chat completions have no such field, and the look takes a third of a
millisecond: as much as all that pydantic-ai and the judge add to a call.
"""

from typing import TYPE_CHECKING, Any, Final

from openai import AsyncOpenAI, NotGiven, Omit
from openai.resources.chat import AsyncChat, AsyncCompletions
from openai.types.chat import ChatCompletion

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("PlainOpenAI",)

_LEFT_OUT: Final = (Omit, NotGiven)
"""Types of the values that stand for a field that is not given."""


class _Completions(AsyncCompletions):
    """Chat completions that are not streamed."""

    async def create(  # pyright: ignore[reportIncompatibleMethodOverride] — all else is the body
        self,
        *,
        timeout: object = None,  # noqa: ASYNC109 — as the client has it
        extra_headers: "Mapping[str, str] | None" = None,
        extra_body: "Mapping[str, object] | None" = None,
        **fields: object,
    ) -> ChatCompletion:
        """Ask for a completion; fields that are not given are left out."""
        options: Any = {"security": {"bearer_auth": True}}
        if extra_headers is not None:
            options["headers"] = extra_headers
        if extra_body is not None:
            options["extra_json"] = extra_body
        if timeout is not None and not isinstance(timeout, NotGiven):
            options["timeout"] = timeout
        body = {name: each for name, each in fields.items() if not isinstance(each, _LEFT_OUT)}
        return await self._client.post(
            "/chat/completions", cast_to=ChatCompletion, body=body, options=options
        )


class _Chat(AsyncChat):
    @property
    def completions(self) -> AsyncCompletions:
        return _Completions(self._client)


class PlainOpenAI(AsyncOpenAI):
    """`AsyncOpenAI` whose chat completions are sent as they are, and not in pieces."""

    @property
    def chat(self) -> AsyncChat:
        """Questions in the form of a chat."""
        return _Chat(self)
