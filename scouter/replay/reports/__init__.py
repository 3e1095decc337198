"""Reports of a replay for people and machines, each written by a module of its own.

`report` holds what all of them say and `decision` what it comes to; `view` is the one reading of
the results; `junit`, `markdown`, `html` and `json_report` write a file each: `write(path, report)`.
"""
