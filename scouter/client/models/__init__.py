"""Models of the collector's answers.

The collector answers with those without times itself; it writes times to the nanosecond, and a
client reads them to the microsecond, in UTC. Unknown fields are ignored, so a client may be older
than the collector.
"""
