"""Budgets of judges: reserved before a question, settled after it.

Import from the modules: `ledger` (the port), `budget`, `memory` and `sqlite`.
"""
