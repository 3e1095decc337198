"""Embedders that need no service; the port is `scouter.evaluate.config.Embedder`."""
