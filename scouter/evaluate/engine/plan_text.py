"""A plan for people to read."""

from scouter.evaluate.engine.plan import Plan
from scouter.model.visible import visible


def plan_text(plan: Plan) -> str:
    """Write the stages of a plan, one task a line, with gates, dependencies and what is required.

    Those of sessions stand behind those of records.
    """
    lines = _stages(plan, "")
    if plan.session is not None:
        lines += _stages(plan.session, "session, ")
    return "\n".join(map(visible, lines))


def _stages(plan: Plan, scope: str) -> list[str]:
    tasks = {task.id: task for task in plan.tasks}
    lines: list[str] = []
    for at, stage in enumerate(plan.stages):
        lines.append(f"{scope}stage {at}")
        for task_id in stage:
            task = tasks[task_id]
            gate = ", gate" * task.condition + ", required" * task.required
            after = f", after {', '.join(task.depends_on)}" if task.depends_on else ""
            lines.append(f"  {task_id} ({task.task_type} {task.operator}{gate}{after})")
    return lines
