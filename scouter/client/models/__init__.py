"""Models of the collector's answers, which the collector makes and the client reads."""
