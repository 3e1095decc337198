"""Annotations of results: embeddings, similarities and histograms."""
