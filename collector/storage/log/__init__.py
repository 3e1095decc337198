"""The span log: the bytes of all spans, and where each trace lies in them."""
