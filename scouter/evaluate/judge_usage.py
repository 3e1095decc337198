"""What the questions of one judge task took."""

from dataclasses import asdict, dataclass

from pydantic import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """Sums over the questions of one task and record; a sum is None where no reply tells.

    Args:
        calls: Questions that were put, answered or not; asking one of them again, as its provider
            failed, is not counted.
        cached: Questions that were not put, as their answers were there already; they take
            nothing.
        input_tokens: Read by the model.
        output_tokens: Written by it.
        cost_usd: In US dollars.
    """

    calls: int = 0
    cached: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Write all fields as plain JSON."""
        return asdict(self)
