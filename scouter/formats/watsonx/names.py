"""Measures by the names that people see, in the order of result files."""

from typing import Final

DISPLAY_NAMES: Final = {
    "orchestrate_agent_routing_accuracy": "Orchestrate Agent Routing F1",
    "total_steps": "Total Steps",
    "llm_steps": "LLM Steps",
    "average_agent_response_time": "Average Agent Response Time (s)",
    "assert_llm": "Assert LLM",
    "total_tool_calls": "Total Tool Calls",
    "expected_tool_calls": "Expected Tool Calls",
    "correct_tool_calls": "Correct Tool Calls",
    "missed_tool_calls": "Missed Tool Calls",
    "relevant_tool_calls": "Relevant Tool Calls",
    "tool_calls_with_incorrect_parameter": "Tool Calls with Incorrect Parameters",
    "tool_call_recall": "Tool Call Recall",
    "tool_call_precision": "Tool Call Precision",
    "tool_match_success": "Tool Match Success",
    "tool_parameter_f1": "Tool Parameter F1",
    "keyword_match": "Keyword Match",
    "semantic_match": "Semantic Match",
    "text_match": "Text Match",
    "is_success": "Journey Success",
    "journey_completion": "Journey Completion",
}
"""Names of measures for people, by the name in `metrics`."""
