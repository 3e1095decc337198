"""The place at which a search found its text."""

from pydantic import Field

from scouter.client.models.answer import Answer


class TextMatch(Answer):
    """A text in a value, with up to 60 characters on either side."""

    where: str = Field(
        description="Path in the context, key of the attribute, or name, status or event of a span."
    )
    before: str
    text: str = Field(description="As the value has it.")
    after: str
