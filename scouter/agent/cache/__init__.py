"""Answers of judges that need not be asked for again.

Import from the modules: `keys`, `port`, `cached_judge`, `memory` and `sqlite`.
"""
