"""Dispatch: by which of the collector's channels people are told of a profile's own alert."""

from typing import Annotated, Final, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from scouter.model.positional import by_position


class _Dispatch(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ConsoleDispatchConfig(_Dispatch):
    """The collector's log.

    Args:
        enabled: The original writes it; it has no meaning.
    """

    enabled: bool = True


class SlackDispatchConfig(_Dispatch):
    """The collector's Slack webhook.

    Args:
        channel: For readers of the profile: a webhook has its channel already.
    """

    channel: str = Field(min_length=1, max_length=256)

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(**by_position(type(self), ("channel",), args, fields))


class OpsGenieDispatchConfig(_Dispatch):
    """Opsgenie, as profiles of the original name it; the collector tells all of its channels.

    It has none for Opsgenie itself: its Alertmanager or webhook reach it.

    Args:
        team: For readers of the profile: a receiver of Alertmanager has its team already.
        priority: The same.
    """

    team: str = Field(min_length=1, max_length=256)
    priority: str = Field(default="P5", pattern="^P[1-5]$")

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(**by_position(type(self), ("team", "priority"), args, fields))


Dispatch = ConsoleDispatchConfig | SlackDispatchConfig | OpsGenieDispatchConfig

_KINDS: Final[dict[str, type[Dispatch]]] = {
    "Console": ConsoleDispatchConfig,
    "Slack": SlackDispatchConfig,
    "OpsGenie": OpsGenieDispatchConfig,
}
_CHANNELS: Final = {"Console": "log", "Slack": "slack"}


def kind_of(dispatch: Dispatch) -> str:
    """The original's name of a kind."""
    return next(name for name, kind in _KINDS.items() if isinstance(dispatch, kind))


def channel_of(dispatch: Dispatch) -> str:
    """The collector's channel of a kind; an empty text if it has none."""
    return _CHANNELS.get(kind_of(dispatch), "")


def _read(value: object) -> object:
    """Read the original's form, `{"Slack": {"channel": …}}`; one key says the kind."""
    if value is None or isinstance(value, tuple(_KINDS.values())):
        return value
    if isinstance(value, dict):
        given = list(cast("dict[object, object]", value).items())
        name, fields = given[0] if len(given) == 1 else (None, None)
        if isinstance(name, str) and name in _KINDS:
            return _KINDS[name].model_validate(fields)
    kinds = ", ".join(_KINDS)
    raise ValueError(f"expected one of {kinds} with its settings, such as {{'Console': {{}}}}")


def _write(dispatch: Dispatch | None) -> dict[str, dict[str, object]] | None:
    return None if dispatch is None else {kind_of(dispatch): dispatch.model_dump()}


DispatchField = Annotated[Dispatch | None, BeforeValidator(_read), PlainSerializer(_write)]
"""As a profile's file has it."""
