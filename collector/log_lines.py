"""Log lines for machines: one JSON object each."""

import json
import logging
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """Writes `time` (RFC 3339, UTC), `level`, `logger`, `message`, and `exception` if there is one.

    Text in a message cannot break a line or begin another one: JSON escapes line ends.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        fields = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)
