"""Every route of the API as a function: its parameters, and the call that they make.

Both clients have a method for each of these functions, with the same parameters. Where all of them
go into the query under their own names, `locals()` is the query.
"""

from scouter.client.routes import (
    alerts,
    canary,
    comparison,
    drift,
    evaluations,
    export,
    judges,
    labels,
    operation,
    profiles,
    records,
    tasks,
    trace_parts,
    traces,
)

__all__ = (
    "alerts", "canary", "comparison", "drift", "evaluations", "export", "judges", "labels",
    "operation", "profiles", "records", "tasks", "trace_parts", "traces",
)  # fmt: skip
