"""Profiles that came with a request: data from other people."""

import threading
from collections.abc import Callable
from typing import Final

from collector.problem import ProblemError
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire import WireProfileError, read_wire_profile
from scouter.errors import ConfigError

_MOST: Final = 2000
"""Characters of an answer that says what is wrong."""


class ProfileReader:
    """Reads profiles with the care that a stranger's needs; any thread may ask.

    Args:
        check_judges: Refuses a profile whose judges could not be asked.
    """

    def __init__(self, check_judges: Callable[[AgentEvalProfile], None]) -> None:
        self._check_judges = check_judges
        # Reading one may take most of a second: one at a time, so that others are answered.
        self._turn = threading.Lock()

    def read(self, body: bytes) -> AgentEvalProfile:
        """Read a profile.

        Args:
            body: JSON as UTF-8, as `AgentEvalProfile.save_to_json` writes it.

        Raises:
            ProblemError: 422; names the task and the field where there is one.
        """
        try:
            with self._turn:
                profile = read_wire_profile(body)
        except WireProfileError as error:
            raise ProblemError(422, str(error)[:_MOST]) from error
        self.check(profile)
        return profile

    def check(self, profile: AgentEvalProfile) -> None:
        """Refuse a profile whose judges could not be asked.

        Raises:
            ProblemError: 422; names the entry, key or package that is missing.
        """
        try:
            self._check_judges(profile)
        except ConfigError as error:
            raise ProblemError(422, str(error)[:_MOST]) from error
