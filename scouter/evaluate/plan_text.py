"""A plan for people to read."""

from scouter.evaluate.engine.plan import Plan
from scouter.model.visible import visible


def plan_text(plan: Plan) -> str:
    """Write the stages of a plan, one task a line, with gates and dependencies."""
    tasks = {task.id: task for task in plan.tasks}
    lines: list[str] = []
    for at, stage in enumerate(plan.stages):
        lines.append(f"stage {at}")
        for task_id in stage:
            task = tasks[task_id]
            gate = ", gate" if task.condition else ""
            after = f", after {', '.join(task.depends_on)}" if task.depends_on else ""
            lines.append(f"  {task_id} ({task.task_type} {task.operator}{gate}{after})")
    return "\n".join(map(visible, lines))
