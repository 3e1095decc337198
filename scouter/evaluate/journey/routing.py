"""Handoffs between agents, and how right they were."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

PREFIX: Final = "chat_with_collaborator_"
"""Prefix of an agent's name in the name of the tool that hands over to it."""
_TRANSFER: Final = "transfer_to_"
"""Prefix of the same use in other frameworks; a bank's tool may have it, too, and is no agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """The agents that there are, and which tools each owns."""

    owners: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Names of the agents that have each tool, by the tool's name."""
    names: frozenset[str] = frozenset()

    @classmethod
    def read(cls, agents: Mapping[str, Any] | None) -> "Agents":
        """Read a resource map, or tools by agent.

        Args:
            agents: `{"agents": [{"name", "tools": [ids]}], "tools": [{"id", "name"}]}`, or
                `{agent: [names of its tools]}`.
        """
        if not agents:
            return cls()
        if "agents" not in agents:
            return _of_tools({name: (*tools,) for name, tools in agents.items()})
        tools = {each["id"]: each["name"] for each in agents.get("tools") or ()}
        listed = cast("Iterable[Mapping[str, Any]]", agents["agents"])
        return _of_tools(
            {each["name"]: [tools.get(i, i) for i in each.get("tools") or ()] for each in listed}
        )

    def agent_called(self, tool: str) -> str | None:
        """The agent that a call hands over to; None for a call of a tool."""
        if tool.startswith(PREFIX):
            return tool.removeprefix(PREFIX)
        name = tool.removeprefix(_TRANSFER)
        return name if name in self.names else None

    def owners_of(self, tools: Iterable[str]) -> frozenset[str]:
        """The agents that own any of the tools."""
        return frozenset[str]().union(*(self.owners.get(tool, frozenset()) for tool in tools))


def _of_tools(tools_by_agent: Mapping[str, Sequence[str]]) -> Agents:
    owners: dict[str, set[str]] = {}
    for agent, tools in tools_by_agent.items():
        for tool in tools:
            owners.setdefault(tool, set()).add(agent)
    return Agents(
        owners={tool: frozenset(found) for tool, found in owners.items()},
        names=frozenset(tools_by_agent),
    )


def routing_f1(called: Iterable[str], goal_tools: Sequence[str], agents: Agents) -> float | None:
    """Measure handoffs.

    Args:
        called: Names of the tools that were called.
        goal_tools: Names of the tools of goals; those that are agents have to be called.
        agents: The agents that there are.

    Returns:
        2 TP / (2 TP + FP + FN) in [0, 1]: agents called that goals name or that own a goal's tool,
        other agents called, and agents that goals name and nobody called. None where no goal names
        an agent and none was called.
    """
    asked = {found for tool in called if (found := agents.agent_called(tool))}
    wanted = {found for tool in goal_tools if (found := agents.agent_called(tool))}
    allowed = wanted | agents.owners_of(goal_tools)
    right, wrong, missed = len(asked & allowed), len(asked - allowed), len(wanted - asked)
    total = 2 * right + wrong + missed
    return 2 * right / total if total else None
