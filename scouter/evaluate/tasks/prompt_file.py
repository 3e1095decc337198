"""Prompts that are files of their own, beside the file of tasks that names them."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from scouter.errors import ConfigError

if TYPE_CHECKING:
    from scouter.evaluate.judge.prompt import Prompt

_FOLDER: Final[ContextVar[Path | None]] = ContextVar("scouter_prompt_folder", default=None)


@contextmanager
def prompts_beside(path: str | Path) -> Generator[None]:
    """While a file of tasks is read, let its prompts be files too, named relative to it.

    Outside of it a prompt that is only a path is refused, so that a profile that came over the
    network makes nobody read files.

    Args:
        path: The file that is being read.
    """
    token = _FOLDER.set(Path(path).parent)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def read_prompt(value: object) -> "Prompt":
    """Read a prompt as a task holds it: a prompt, its wire form, or `{"path": "judge.yaml"}`.

    The path is relative to the file that names it or, where there is no such file, to the working
    folder.

    Raises:
        pydantic.ValidationError: A field of the prompt is wrong.
        ConfigError: A path outside of `prompts_beside`.
        FileFormatError: The prompt's file is missing or wrong; names it, line and field.
    """
    from scouter.evaluate.judge.prompt import Prompt  # only tasks that ask a judge need it

    path = _path_alone(value)
    if path is None:
        return Prompt.model_validate(value)
    folder = _FOLDER.get()
    if not isinstance(path, str):
        raise ConfigError(f"a prompt's path is a text, got {type(path).__name__}")
    if folder is None:
        raise ConfigError(
            f"the prompt is the path {path!r}, which only a file of tasks can name; write the "
            "prompt itself, or use Prompt.from_path"
        )
    beside = folder / path
    return Prompt.from_path(beside if beside.exists() else path)


def _path_alone(value: object) -> object:
    """The path where a value is `{"path": …}` and nothing else, else None."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[object, object]", value)
    return fields["path"] if set(fields) == {"path"} else None
