"""One conversation compared with one journey, by a profile of rules."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from scouter.errors import ConfigError
from scouter.evaluate.annotate.embed import as_embed
from scouter.evaluate.journey.asking import Answers, FuzzyChain, with_judge
from scouter.evaluate.journey.case import SOUND, WXO, Case, Compat, read_case
from scouter.evaluate.journey.message import Agents, JourneyMessage, read_messages
from scouter.evaluate.journey.result import JourneyResult
from scouter.evaluate.journey.sound import evaluate_soundly
from scouter.evaluate.judge.port import AnyJudge
from scouter.model.span import Span
from scouter.model.visible import did_you_mean

PROFILES: Final = (SOUND, WXO)

NO_CLIENT: Final = "none"
"""Word in the place of a judge for the original without a client."""


def evaluate_journey(
    dataset: Mapping[str, Any] | Case,
    messages: Iterable[Mapping[str, Any] | JourneyMessage | Span],
    *,
    compat: Compat = SOUND,
    judge: AnyJudge | Literal["none"] | None = None,
    embedder: object = None,
    agents: Mapping[str, Any] | None = None,
    similarity_threshold: float = 0.8,
    enable_fuzzy_matching: bool = True,
    searches: Iterable[Mapping[str, Any]] = (),
) -> JourneyResult:
    """Hold a conversation against the goals of a journey and their order.

    A goal is met by a call, a text or an interaction. Each call and each interaction meets one goal
    at most, and as many goals as can be are met (a maximum assignment, in which the order holds if
    there is one). The journey succeeds if every goal is met after those before it and every
    statement is true. More calls than the goals ask for make no difference to success, and lower
    the precision. Calls of one message come in the order in which the agent wrote them.

    Args:
        dataset: The content of a ground-truth file.
        messages: In the documented form, or chat messages of any dialect; or the spans of the
            conversation, as `read_spans` gives them. See `read_messages`.
        compat: `sound` for the rules as documented; `wxo-1.6.9` for the numbers of that version of
            the original, with its defects.
        judge: Answers for fuzzy arguments, texts and statements; see `request_of`. Without one,
            fuzzy values are compared by the next links, keywords are looked up, and a statement is
            undecided. `"none"` is the same, but in `wxo-1.6.9` stands for no client at all.
        embedder: An `Embedder` or a function, the second link of the fuzzy chain; by default it
            is left out.
        agents: The agents, for routing: a resource map, or tools by agent.
        similarity_threshold: Least similarity of a fuzzy value, in [0, 1]; fixed to 0.8 in
            `wxo-1.6.9`.
        enable_fuzzy_matching: False: fuzzy arguments are compared as strict ones, and texts by
            the judge or by what they hold. `wxo-1.6.9` takes no notice.
        searches: Data of conversational searches, for measures of `wxo-1.6.9`.

    Returns:
        All measures, the fate of each goal, a reason for each wrong call, and what could not be
        decided.

    Raises:
        ConfigError: The dataset is wrong, or an argument.
        DataError: A message is none.

    Cost: goals times calls, and what judge and embedder take.
    """
    if compat not in PROFILES:
        hint = did_you_mean(str(compat), PROFILES)
        raise ConfigError(
            f"compat {compat!r} is not known; expected {' or '.join(PROFILES)}. {hint}"
        )
    if not 0.0 <= similarity_threshold <= 1.0:
        raise ConfigError(f"similarity_threshold {similarity_threshold} is not in [0, 1]")
    if embedder is not None:
        as_embed(embedder)  # what is none is refused before any call
    case, read = read_case(dataset, is_lenient=compat == WXO), read_messages(messages)
    routes, reported = Agents.read(agents), tuple(searches)

    def judged(answers: Answers | None) -> JourneyResult:
        return judge_journey(
            case, read, routes, compat=compat, embedder=embedder, answers=answers,
            similarity_threshold=similarity_threshold, enable_fuzzy_matching=enable_fuzzy_matching,
            searches=reported, has_client=judge != NO_CLIENT,
        )  # fmt: skip

    return judged(None) if judge is None or judge == NO_CLIENT else with_judge(judge, judged)


def judge_journey(
    case: Case,
    messages: Sequence[JourneyMessage],
    agents: Agents,
    *,
    compat: Compat,
    answers: Answers | None,
    similarity_threshold: float,
    enable_fuzzy_matching: bool,
    embedder: object = None,
    searches: Sequence[Mapping[str, Any]] = (),
    has_client: bool = True,
) -> JourneyResult:
    """Do what `evaluate_journey` does, for what was read.

    `answers` answers the questions, and is None where there is no judge; `has_client` is False for
    the original without a client.
    """
    if compat == WXO:
        from scouter.evaluate.journey.wxo.arguments import Client  # loads for who asks for it
        from scouter.evaluate.journey.wxo.profile import evaluate_as_original

        client = Client(answers, embedder, is_missing=not has_client)
        return evaluate_as_original(case, messages, client, agents, searches)
    chain = FuzzyChain(answers, embedder, similarity_threshold, enable_fuzzy_matching)
    return evaluate_soundly(case, messages, answers, chain, agents)
