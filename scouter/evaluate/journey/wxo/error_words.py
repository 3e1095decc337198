"""Words that mark a tool's response as an error in version 1.6.9 of the original."""

from typing import Final

ERROR_WORDS: Final = (
    "abort", "bad request", "broken pipe", "can't", "cannot", "connection refused", "core dumped",
    "crash", "denied", "erroneous", "error", "exceeded", "exceeds limit", "exception", "fail",
    "fatal", "forbidden", "http_code=400", "http_code=401", "http_code=403", "http_code=404",
    "http_code=405", "http_code=408", "http_code=409", "http_code=429", "http_code=500",
    "http_code=503", "http_code=504", "illegal", "incorrect", "infinite recursion", "invalid",
    "missing", "no such file or directory", "not found", "notfound", "oom", "out of memory",
    "overflow", "overrun", "overwrite", "panic", "segfault", "segmentation fault",
    "server is down", "stack trace", "timed out", "timeout", "traceback", "unable", "unauthorized",
    "unavailable", "underflow", "unexpected", "unknown", "unreachable", "unresolved",
    "unsuccessful",
)  # fmt: skip
"""Error words in lower case; each also stands for all words that hold it, as `syntax error`."""
