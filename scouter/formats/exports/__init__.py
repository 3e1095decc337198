"""Exports of other systems, read as traces: one module for each, `read` finds the right one."""
