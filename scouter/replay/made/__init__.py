"""Scenarios that a model makes up: tools, attacks, questions, files."""
