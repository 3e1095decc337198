"""Accuracy, performance and reliability of an agent: three evaluators and their results."""
