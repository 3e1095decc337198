"""Models of the collector's answers, as a client reads them.

Unknown fields are ignored, so a client may be older than the collector. Times are UTC, to the
microsecond.
"""
