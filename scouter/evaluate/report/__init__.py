"""Report, question-answering and judged-trajectory evaluators, on plain data."""
