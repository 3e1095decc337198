"""The profile that work is done under, carried in baggage."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import baggage, context

from scouter.drift.profile import AgentEvalProfile
from scouter.model.attributes import ACTIVE_ENTITY


@contextmanager
def active_profile(profile: AgentEvalProfile | str) -> Generator[None]:
    """Mark every span started inside, also in processes called from here, with a profile.

    Args:
        profile: The profile, or its uid.
    """
    uid = profile if isinstance(profile, str) else profile.uid
    token = context.attach(baggage.set_baggage(ACTIVE_ENTITY, uid))
    try:
        yield
    finally:
        context.detach(token)
