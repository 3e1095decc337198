"""Scouter: tracing and online quality-drift monitoring for LLM agents."""
