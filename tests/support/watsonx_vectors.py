"""Cases that the original's own program has computed, with a judge that can be foreseen."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from scouter.evaluate.journey.evaluate import evaluate_journey
from scouter.evaluate.journey.result import JourneyResult
from scouter.evaluate.judge.port import JudgeRequest
from tests.support.components import ROOT, require

FILE: Final = Path(
    os.environ.get("SCOUTER_WATSONX_VECTORS", ROOT.parent / "shared/vectors/watsonx.json")
)
METRICS: Final = {
    "JourneySuccessMetric": ("is_success", "keyword_match", "semantic_match", "text_match",
                             "assert_llm"),
    "KnowledgeBaseAnswerRelevancy": ("kb_answer_relevancy",),
    "KnowledgeBaseFaithfulness": ("kb_faithfulness",),
    "DocumentRetrievalQuality": ("avg_doc_retrieval_confidence",),
    "RetrievalConfidence": ("retrieval_confidence",),
}  # fmt: skip
"""Measures of the operators that a vector names, where it does not run the usual ones."""


def vectors() -> dict[str, Any]:
    """Read the file, or skip the test that needs it."""
    require("watsonx-vectors", present=FILE.exists(), detail=str(FILE))
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _raise(what: str) -> None:
    raise RuntimeError(f"the {what} is down")


def stub_judge(spec: dict[str, Any]) -> Callable[[JudgeRequest], Any]:
    """The judge of the vectors: keywords are substrings, the meaning is a substring, too."""
    assertions = list(spec.get("assert", []))

    def answer(request: JudgeRequest) -> Any:
        asked = json.loads(request.messages[-1]["content"])
        kind = request.task_id.removeprefix("journey_")
        if kind == "keyword":
            if spec.get("keyword") == "raise":
                _raise("keyword judge")
            actual = asked["actual"].lower()
            return {"verdict": all(k.strip().lower() in actual for k in asked["keywords"])}
        if kind == "semantic":
            mode = spec.get("semantic", "contains")
            if mode == "raise":
                _raise("semantic judge")
            if isinstance(mode, bool):
                return {"verdict": mode}
            return {"verdict": asked["expected"].lower() in asked["actual"].lower()}
        if kind == "assert":
            said = assertions.pop(0) if assertions else "not json"
            return {"verdict": said} if isinstance(said, bool) else said
        return spec[kind]

    return answer


def bag_of_words(texts: list[str]) -> list[list[float]]:
    """Counts of words over the words of all texts."""
    words = sorted({word for text in texts for word in text.split()})
    return [[float(Counter(text.split())[word]) for word in words] for text in texts]


def stub_embedder(spec: dict[str, Any]) -> Callable[[list[str]], list[list[float]]]:
    def embed(texts: list[str]) -> list[list[float]]:
        if spec.get("embedding") == "raise":
            _raise("embedder")
        return bag_of_words(texts)

    return embed


def run(vector: dict[str, Any], compat: Any = "wxo-1.6.9") -> JourneyResult:
    """Evaluate a vector with its judge."""
    spec: Any = vector.get("judge") or {}
    if spec == "none":
        judge: Any = "none"
        spec = {}
    else:
        judge = stub_judge(spec)
    return evaluate_journey(
        vector["dataset"],
        vector["messages"],
        compat=compat,
        judge=judge,
        embedder=stub_embedder(spec),
        agents=vector.get("resource_map"),
        searches=vector.get("conversational_search_data") or (),
    )


def expected_metrics(vector: dict[str, Any]) -> dict[str, Any]:
    """Measures that the original computed; NaN as None."""
    metrics = vector["expected"]["1.6.9"]["metrics"]
    return {name: None if value == "NaN" else value for name, value in metrics.items()}
