"""Question and answer of an agent: which of those who speak in a trace is the agent itself.

The rule. Models are called for many things in a trace. A model's call below a tool, a guardrail, a
retrieval, an embedding or a helper (an evaluator, a reranker) is not the agent's. Every other call
belongs to the nearest agent around it, and an agent inside of an agent speaks there as a call
does. So each agent has speakers. What its own span has of input and output counts first; else
its question is the first speaker's, and its answer the last one's.

Beside the agent's conversation may be calls with other prompts: a title, a query that is rewritten,
a check without a span of its own. A call goes on with a conversation if its input has the user's
message and no fewer messages than the call before. Of two conversations

* one whose prompt quotes the question of the other is beside it, such as a title or a rewritten
  query; not if documents were fetched between an answer and the prompt that quotes its question;
* one that has the same question and no history, after an agent that used tools, is beside it;
* nobody can tell which answer is the agent's where the later prompt has only the answer, or has
  the same question, with or without the answer, and other instructions or nothing to answer
  behind it: then the answer is not known.

Else the last conversation counts. An answer is not known either where the agent's last call failed
or does not tell what it wrote.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from scouter.model.genai.acts import Act
from scouter.model.genai.calls import Calls
from scouter.model.genai.facts import Kind, SpanFacts
from scouter.model.genai.messages import ANSWERING_ROLES, MessageLog, field, text
from scouter.model.genai.reader import is_step, step_input, step_output
from scouter.model.genai.reported import asks_for_tool, is_failed
from scouter.model.genai.wrappers import is_hidden_text
from scouter.model.span import Span, StatusCode

_AGENTS: Final = frozenset({Kind.AGENT, Kind.WORKFLOW})
_SPEAKING: Final = _AGENTS | {Kind.MODEL}
_BESIDE: Final = frozenset({Kind.TOOL, Kind.GUARDRAIL, Kind.RETRIEVAL, Kind.EMBEDDING, Kind.HELPER})
"""Kinds of spans whose calls of models are not the agent's."""
_FETCHES: Final = frozenset({Kind.RETRIEVAL, Kind.EMBEDDING, Kind.TOOL})
_TOP, _NOBODY, _OPEN = -1, -2, -3
"""In the place of an agent's number: no agent is around; not the agent's; not known yet."""
_NOT_GIVEN: Final = ANSWERING_ROLES | {"tool", "function"}
_SYSTEM: Final = frozenset({"system", "developer"})
_INPUT: Final = "gen_ai.input.messages"
_INSTRUCTIONS: Final = "gen_ai.system_instructions"
_LOOKS: Final = 32
"""Speakers whose conversations are looked at one by one: the first and the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """Question and answer of an agent."""

    question: str | None = None
    answer: str | None = None
    unknown: str = ""
    """Reason why the answer is not known; empty where it is, or where there is none."""
    asks: bool = False
    """The answer requests a tool."""
    by: Act | None = None
    """The model's call that gave the answer, or the agent where no call is known."""
    models: tuple[SpanFacts, ...] = ()
    """The agent's own calls of models, in time order."""
    has_agent: bool = False
    """Says whether a model or an agent was called, or a question or an answer is reported."""


@dataclass(eq=False, kw_only=True)
class _Speaker:
    """A model's call, or an agent with all that speaks inside of it."""

    act: Act
    heard: Act
    """The act whose input has its question."""
    said: str | None
    unknown: str = ""
    by: Act
    asks: bool = False
    """It ended by requesting a tool."""
    is_failed: bool = False
    is_mute: bool = False
    """An agent that says nothing of what was said."""

    @property
    def end_ns(self) -> int:
        return self.act.spans[0].end_ns

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """The user's messages to it."""
        return _questions_of(self.heard.facts)

    @cached_property
    def system(self) -> tuple[str, ...]:
        """Its instructions, where it has them."""
        given = [_of_user(each) for each in self._messages if _is_system(each)]
        apart = (span.attributes.get(_INSTRUCTIONS) for span in self.heard.spans)
        return (*MessageLog(given).questions, *(each for each in apart if isinstance(each, str)))

    @cached_property
    def length(self) -> int:
        """Number of messages that it was given, beside instructions."""
        return sum(not _is_system(each) for each in self._messages)

    @property
    def _messages(self) -> list[JsonValue]:
        return self.heard.facts.input_messages or []

    def goes_on(self, before: "_Speaker") -> bool:
        """Tell whether it goes on with a conversation; one without a known input goes on."""
        if not self.questions or not before.questions:
            return True
        question = before.questions[-1]
        if any(_adds_to(each, question, before.said) for each in self.questions):
            return True
        if question not in self.questions or self.length < before.length:
            return False
        if self.length == before.length:
            return self.system == before.system
        if before.asks or before.said is None:
            return True
        is_other = bool(self.system and before.system) and self.system != before.system
        return not is_other and not self._ends_with(before.said)

    def _ends_with(self, said: str) -> bool:
        """Tell whether its prompt ends with what was said before, so that nobody asks anything."""
        last = self._messages[-1:]
        return not MessageLog(last).questions and _said(last) == said

    def quotes(self, said: str | None) -> bool:
        """Tell whether its prompt has a text inside of a longer one."""
        return said is not None and any(
            _is_inside(said, each) for each in (*self.questions, *self.system)
        )

    def repeats(self, said: str | None) -> bool:
        """Tell whether its prompt has a text, be it as a whole message."""
        return self.quotes(said) or said in self.questions


class _Relation(Enum):
    """What one conversation is to another."""

    ANOTHER = "another"
    BESIDE = "beside"
    UNKNOWN = "unknown"


def find_dialogue(acts: Sequence[Act], calls: Calls, spans: Sequence[Span]) -> Dialogue:
    """Find the question to the agent of a trace and its answer.

    Args:
        acts: In time order.
        calls: Read from these.
        spans: All spans of the trace, in time order.

    Cost: linear in the spans and the size of outputs; inputs are read of the first and the last
        speaker of an agent, and of up to 32 where the last does not go on with the first.
    """
    homes, agents = _homes(acts, is_served=False)
    speaking = [home for home, act in zip(homes, acts, strict=True) if act.facts.kind in _SPEAKING]
    if _TOP not in speaking and any(act.facts.kind is Kind.AGENT for act in acts):
        # An agent that is served as a tool, to a caller whose spans are not here.
        homes, agents = _homes(acts, is_served=True)
    inside: dict[int, list[_Speaker]] = {}
    own: list[SpanFacts] = []
    for at, speaker in _models(acts, calls):
        if homes[at] != _NOBODY:
            own.append(acts[at].facts)
            inside.setdefault(homes[at], []).append(speaker)
    for at in reversed(agents):
        found = _of_agent(acts[at], inside.pop(at, []), acts)
        if found is not None:
            inside.setdefault(homes[at], []).append(found)
    top, unknown = _own(inside.pop(_TOP, []), acts)
    last = top[-1] if top else None
    question = next((each.questions[-1] for each in top if each.questions), None)
    if question is not None:
        question = _question_to_root(spans, question) or question
    answer = None if last is None or unknown else last.said
    why = unknown or (last.unknown if last else "")
    if (last is None or why) and not (last and last.is_failed):
        stated = _said_by_root(spans) if unknown else _said_by_steps(spans)
        answer, why = stated or answer, "" if stated else why
    is_called = bool(own) or any(acts[at].facts.kind is Kind.AGENT for at in agents)
    return Dialogue(
        question=None if question is not None and is_hidden_text(question) else question,
        answer=answer,
        unknown=why,
        asks=last is not None and not unknown and last.asks,
        by=None if last is None or unknown else last.by,
        models=tuple(own),
        has_agent=is_called or question is not None or answer is not None,
    )


def given_texts(acts: Sequence[Act]) -> list[str]:
    """Messages of people and instructions to the models and agents of a trace; each text once."""
    found: dict[str, None] = {}
    later = ""
    for act in reversed(acts):
        if act.facts.kind in (Kind.MODEL, Kind.AGENT, Kind.WORKFLOW):
            apart = (span.attributes.get(_INSTRUCTIONS) for span in act.spans)
            found |= dict.fromkeys(each for each in apart if isinstance(each, str))
            heard = act.spans[0].attributes.get(_INPUT)
            if isinstance(heard, str) and len(act.spans) == 1:
                if later.startswith(heard[:-1]):  # a later call was given all of that, and more
                    continue
                later = heard
            given = [
                _of_user(each) if _is_system(each) else each
                for each in act.facts.input_messages or ()
                if text(field(each, "role")) not in _NOT_GIVEN  # they are not read for nothing
            ]
            found |= dict.fromkeys(MessageLog(given).questions)
    return list(found)


def _homes(acts: Sequence[Act], *, is_served: bool) -> tuple[list[int], list[int]]:
    """Find whose each act is: the number of the nearest agent around it, or one of the signs.

    Args:
        acts: In time order.
        is_served: Whether an outermost tool stands for the request to an agent.

    Returns:
        A home for each act, and the agents' numbers, each behind those around it.
    """
    homes, inside = [_OPEN] * len(acts), [_OPEN] * len(acts)
    agents: list[int] = []
    for at in range(len(acts)):
        path: list[int] = []
        while at >= 0 and inside[at] == _OPEN and homes[at] == _OPEN:
            homes[at] = _TOP  # so that a circle ends here
            path.append(at)
            at = acts[at].above
        home = _TOP if at < 0 or inside[at] == _OPEN else inside[at]
        for each in reversed(path):
            homes[each] = home
            kind = acts[each].facts.kind
            if kind in _AGENTS and home != _NOBODY:
                agents.append(each)
                home = each
            elif kind in _BESIDE and not (is_served and kind is Kind.TOOL and home == _TOP):
                home = _NOBODY
            inside[each] = home
    return homes, agents


def _models(acts: Sequence[Act], calls: Calls) -> Iterable[tuple[int, _Speaker]]:
    """The calls of models that speak; not one that says nothing and has others inside of it."""
    holders = {act.above for act in acts if act.facts.kind is Kind.MODEL}
    place = -1
    for at, act in enumerate(acts):
        if act.facts.kind is not Kind.MODEL:
            continue
        place += 1
        facts, said = act.facts, calls.messages.said[place]
        asks = place in calls.askers or asks_for_tool(facts)
        asks = asks and place not in calls.answerers
        failed = is_failed(facts)
        unknown = ""
        if failed:
            said, unknown = None, f"the model's call {facts.span_id} failed"
        elif said is None and place in calls.messages.hidden:
            unknown = f"what the model's call {facts.span_id} answered was masked"
        elif place in calls.messages.without_text:
            unknown = f"what the model's call {facts.span_id} answered is no text"
        elif said is None and not asks and not _tells_end(facts.output_messages):
            unknown = f"the model's call {facts.span_id} does not tell what it answered"
        if unknown and at in holders:
            continue
        yield (
            at,
            _Speaker(
                act=act, heard=act, said=said, unknown=unknown, by=act, asks=asks, is_failed=failed
            ),
        )


def _tells_end(messages: Sequence[JsonValue] | None) -> bool:
    """Tell whether messages have a content, if only an empty one."""
    return any(
        field(each, name) is not None
        for each in messages or ()
        for name in ("content", "parts", "blocks", "refusal")
    )


def _of_agent(act: Act, inside: list[_Speaker], acts: Sequence[Act]) -> _Speaker | None:
    """Put together what an agent says, from its own span or those that speak inside of it."""
    stated, has_questions = _said(act.facts.output_messages or ()), bool(_questions_of(act.facts))
    own, unknown = (inside, "") if stated and has_questions else _own(inside, acts)
    own = sorted(own, key=_start)
    if not own:
        is_mute = not stated
        if is_mute and not has_questions and act.facts.kind is Kind.WORKFLOW:
            return None
        why = f"the agent {act.facts.span_id} does not tell what it answered" if is_mute else ""
        return _Speaker(
            act=act, heard=act, said=stated, unknown=why, by=act, is_mute=is_mute,
            is_failed=is_mute and bool(act.facts.error),
        )  # fmt: skip
    last = own[-1]
    said, why, failed = last.said, unknown or last.unknown, last.is_failed
    if stated:
        said, last = _as_spoken(stated, own)
        why, failed = "", False
    elif act.facts.error and last.asks and not why:
        said, why, failed = None, f"the agent {act.facts.span_id} failed", True
    return _Speaker(
        act=act,
        heard=act if has_questions else own[0].heard,
        said=None if why else said,
        unknown=why,
        by=last.by,
        asks=last.asks and not stated,
        is_failed=failed,
    )


def _as_spoken(stated: str, own: Sequence[_Speaker]) -> tuple[str, _Speaker]:
    """Give an agent's output as the speaker said it, if it is that or an object around it."""
    is_object = stated[:1] in ("{", "[", "<") or stated.partition("(")[0].isidentifier()
    for each in reversed(own):
        said = (each.said or "").strip()
        if said and (said == stated.strip() or (is_object and said in stated)):
            return each.said or "", each
    return stated, own[-1]


def _own(speakers: Sequence[_Speaker], acts: Sequence[Act]) -> tuple[Sequence[_Speaker], str]:
    """Leave out what is beside the conversation.

    Returns:
        The speakers in order, and the reason why the last one's answer may not be the agent's.
    """
    heard = [each for each in speakers if not (each.is_mute or _is_lost(each, speakers))]
    heard = sorted(heard or speakers, key=_start)
    if len(heard) < 2 or _is_one_loop(heard) or heard[-1].goes_on(heard[0]):
        return heard, ""
    if len(heard) > _LOOKS:
        heard = [*heard[: _LOOKS // 2], *heard[-_LOOKS // 2 :]]
    threads: list[list[_Speaker]] = []
    for each in heard:
        same = next((thread for thread in reversed(threads) if each.goes_on(thread[-1])), None)
        if same is None:
            threads.append([each])
        else:
            same.append(each)
    left = [
        thread
        for thread in threads
        if not any(
            _relation(thread, other, acts) is _Relation.BESIDE
            for other in threads
            if other is not thread
        )
    ] or threads
    left.sort(key=lambda thread: _start(thread[-1]))
    last = left[-1]
    for other in left[:-1]:
        if _relation(last, other, acts) is _Relation.UNKNOWN:
            return [each for thread in left for each in thread], (
                f"{other[-1].act.facts.span_id} and {last[-1].act.facts.span_id} answer different "
                "prompts, and nothing tells which of them speaks for the agent"
            )
    return [each for thread in left for each in thread], ""


def _relation(
    thread: Sequence[_Speaker], other: Sequence[_Speaker], acts: Sequence[Act]
) -> _Relation:
    """Tell what one conversation is to another, by the rule above."""
    first, start, end = thread[0], other[0], other[-1]
    is_loop, is_loop_beside = _is_loop(thread), _is_loop(other)
    if (
        not first.questions
        or not start.questions
        or first.act.trace_id != start.act.trace_id
        or (is_loop and not is_loop_beside)
    ):
        return _Relation.ANOTHER
    question = start.questions[-1]
    quotes = first.quotes(question)
    if first.act.start_ns < start.act.start_ns:
        return _Relation.BESIDE if quotes else _Relation.ANOTHER
    are_agents = first.act.facts.kind in _AGENTS and start.act.facts.kind in _AGENTS
    quotes_answer = first.repeats(end.said)
    if quotes:
        if not quotes_answer and _fetched(acts, end.end_ns, first.act.start_ns):
            return _Relation.ANOTHER
        return _Relation.UNKNOWN if are_agents else _Relation.BESIDE
    if quotes_answer:  # agents that work one after the other hand on what they wrote
        return _Relation.ANOTHER if are_agents else _Relation.UNKNOWN
    if question in first.questions and end.said is not None and not end.asks and not is_loop:
        return _Relation.BESIDE if is_loop_beside else _Relation.UNKNOWN
    return _Relation.ANOTHER


def _is_one_loop(speakers: Sequence[_Speaker]) -> bool:
    """Give calls that request tools, each with more to read, without reading what they read."""
    *before, last = (each.act.facts.usage.input for each in speakers)
    return all(each.asks for each in speakers[:-1]) and (last or 0) > (before[-1] or last or 0)


def _is_loop(thread: Sequence[_Speaker]) -> bool:
    return len(thread) > 1 or any(each.asks for each in thread)


def _fetched(acts: Sequence[Act], after_ns: int, before_ns: int) -> bool:
    return any(act.facts.kind in _FETCHES and after_ns <= act.start_ns < before_ns for act in acts)


def _adds_to(prompt: str, question: str, answer: str | None) -> bool:
    """Tell whether a prompt repeats one and what was answered, as those of ReAct do."""
    is_longer = len(prompt) > len(question) and prompt.startswith(question)
    return is_longer and answer is not None and answer in prompt


def _is_inside(part: str, whole: str) -> bool:
    """Tell whether a text has another one, as words of its own."""
    at = whole.find(part) if part.strip() and len(part) < len(whole) else -1
    while at >= 0:
        end = at + len(part)
        if not (whole[at - 1 : at].isalnum() and part[0].isalnum()) and not (
            part[-1].isalnum() and whole[end : end + 1].isalnum()
        ):
            return True
        at = whole.find(part, at + 1)
    return False


def _is_lost(speaker: _Speaker, others: Iterable[_Speaker]) -> bool:
    """Tell of an attempt that failed, or was stopped, while another one at the time did not."""
    start_ns, is_over = speaker.act.start_ns, speaker.act.spans[0].status is StatusCode.ERROR
    return (speaker.is_failed or (is_over and speaker.said is None)) and any(
        each.said is not None and each.act.start_ns <= start_ns < each.end_ns for each in others
    )


def _start(speaker: _Speaker) -> int:
    return speaker.act.start_ns


def _question_to_root(spans: Sequence[Span], prompt: str) -> str | None:
    """The question to the outermost step, where a prompt was made of it: the user's own words."""
    roots = (span for span in spans if span.parent_span_id is None and is_step(span))
    questions = (each for root in roots for each in MessageLog(step_input(root)).questions[-1:])
    return next((each for each in questions if _is_inside(each, prompt)), None)


def _said_by_root(spans: Sequence[Span]) -> str | None:
    """What the outermost step gave back."""
    roots = (span for span in spans if span.parent_span_id is None and is_step(span))
    return _first(_said(step_output(root, role="assistant")) for root in roots)


def _said_by_steps(spans: Sequence[Span]) -> str | None:
    """The last answer among what the steps of an agent gave back."""
    return _first(_said(step_output(span)) for span in reversed(spans) if is_step(span))


def _first(texts: Iterable[str | None]) -> str | None:
    return next((each for each in texts if each), None)


def _questions_of(facts: SpanFacts) -> tuple[str, ...]:
    return tuple(MessageLog(facts.input_messages or ()).questions)


def _said(messages: Iterable[JsonValue]) -> str | None:
    return MessageLog(messages).content


def _is_system(message: JsonValue) -> bool:
    return text(field(message, "role")) in _SYSTEM or text(field(message, "type")) in _SYSTEM


def _of_user(message: JsonValue) -> JsonValue:
    return {**message, "role": "user"} if isinstance(message, dict) else message
