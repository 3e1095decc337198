"""A user's folder with the files of VSS: config, datasets, references, reports, and an agent."""

import json
from pathlib import Path
from typing import Any, Final

CONFIG: Final = """\
general:
  use_uvloop: true

llms:
  eval_llm_judge:
    _type: nim
    model_name: judge-model
    base_url: http://127.0.0.1:9/v1
    max_tokens: 2048
    temperature: 0.0

functions:
  vst_video_list: {_type: vst_video_list}

workflow:
  _type: top_agent

object_stores:
  report_object_store: {_type: folder, path: reports}

eval:
  general:
    output_dir: results
    max_concurrency: 10
    dataset:
      _type: json
      file_path: dataset.json
      structure:
        question_key: "query"
        answer_key: "ground_truth"

  evaluators:
    report_evaluator:
      _type: report_evaluator
      eval_metrics_config_path: metrics.yml
      evaluation_method_id: report
      object_store: report_object_store
      report_url_pattern: 'http://vss/(\\S+\\.md)'
      include_vlm_output: true
      vlm_related_fields:
        - "Vehicles Involved"
      metric_configs:
        llm_judge:
          llm_name: eval_llm_judge
          max_retries: 2
          llm_judge_reasoning: true

    trajectory_evaluator:
      _type: customized_trajectory_evaluator
      llm_name: eval_llm_judge
      evaluation_method_id: trajectory
      track_agent_selected_tools_only: true
      llm_judge_reasoning: true
      custom_prompt_template_with_reference: |
        WITH {question} / {reference} / {agent_trajectory} / {answer}
      custom_prompt_template_without_reference: |
        WITHOUT {conversation_history} / {question} / {tool_schemas} / {agent_trajectory} / {answer}

    qa_evaluator:
      _type: customized_qa_evaluator
      llm_name: eval_llm_judge
      evaluation_method_id: qa
"""
SINGLES: Final[list[dict[str, Any]]] = [
    {
        "id": "001",
        "query": "Generate a report for the video example-video",
        "ground_truth": "truth.json",
        "evaluation_method": ["report"],
    },
    {
        "id": "2",
        "query": "What do you see in the video example-video?",
        "ground_truth": "a street",
        "evaluation_method": ["qa", "trajectory"],
        "trajectory_ground_truth": [
            {"name": "look", "params": {"sensor_id": "example-video"}, "step": 1}
        ],
    },
    {"id": "3", "query": "What videos are available?", "evaluation_method": ["trajectory"]},
]
TALK: Final[dict[str, Any]] = {
    "id": "mt_001",
    "query": "[multi-turn]",
    "conversation": [
        {
            "turn_id": "turn_1",
            "query": "Show the video example-video",
            "evaluation_method": ["trajectory"],
            "trajectory_ground_truth": [
                {"name": "look", "params": {"sensor_id": "example-video"}, "step": 1}
            ],
        },
        {
            "turn_id": "turn_2",
            "query": "And what do you see in it?",
            "ground_truth": "a street",
            "evaluation_method": ["qa", "trajectory"],
        },
    ],
    "evaluation_method": ["multi_turn"],
}
METRICS: Final = """\
Overall Report:
  method: average
  fields:
    title:
      method: exact_match
    Basic Information:
      method: average
      fields:
        Report Identifier:
          method: non_empty
        Date of Incident:
          method: llm_judge
    Vehicles Involved:
      method: average
      allow_dynamic_field_discovery: true
"""
TRUTH: Final[dict[str, Any]] = {
    "title": "Collision",
    "Basic Information": {"Report Identifier": "R1", "Date of Incident": "5 May 2024"},
    "Vehicles Involved": {"Vehicle 1234": "White Truck", "Vehicle 4321": "Dark Blue Truck"},
}
REPORT: Final = """\
# Collision
## Basic Information
| Field | Value |
| :-- | :-- |
| **Report Identifier** | R-77 |
| **Date of Incident** | 2024-05-05 |
## Vehicles Involved
| Field | Value |
| :-- | :-- |
| Vehicle (1234) | Blue Truck |
| Vehicle (5678) | Dark Blue Car |
"""
AGENT: Final = '''\
"""An agent that looks at videos, and a judge."""

import json
from pathlib import Path

from scouter.tracing import get_tracer


def _tool(name, **arguments):
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": "a street",
    }
    with get_tracer("vss").start_as_current_span(f"execute_tool {name}", attributes=attributes):
        pass


def answer(message, history):
    with Path("messages.txt").open("a") as file:
        file.write(f"{len(history)} {message}\\n")
    if "report" in message:
        return "Here it is: http://vss/r1.md"
    if "available" in message:
        _tool("list_videos")
        return "<agent-think>hm</agent-think>example-video"
    _tool("look", sensor_id="example-video")
    return "I see a street."


def judge(request):
    with Path("questions.txt").open("a") as file:
        file.write(json.dumps(request.messages[-1]["content"]) + "\\n")
    if request.task_id == "report_fields":
        return {
            "Vehicle (1234)": {"score": 0.5, "reference": "Vehicle 1234"},
            "Vehicle (5678)": {"score": 0.0, "reference": None},
        }
    said = {"qa": "Step 1: fine. Final: 0.2", "trajectory": "Good.\\n0.9"}
    return said.get(request.task_id, "0.5")
'''


def make_project(folder: Path, rows: list[dict[str, Any]] | None = None) -> None:
    """Write all files."""
    (folder / "reports").mkdir()
    (folder / "reports/r1.md").write_text(REPORT, "utf-8")
    (folder / "config.yml").write_text(CONFIG, "utf-8")
    (folder / "metrics.yml").write_text(METRICS, "utf-8")
    (folder / "truth.json").write_text(json.dumps(TRUTH), "utf-8")
    (folder / "dataset.json").write_text(json.dumps([*SINGLES, TALK] if rows is None else rows))
    (folder / "vss_agent.py").write_text(AGENT, "utf-8")
