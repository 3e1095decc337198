"""Tasks compiled into a plan, and the plan run on records."""
