"""Calibration: a judge is compared with people's labels, and its rates are corrected.

`labels` reads people's labels, `identity` names the question, `asking` asks the judge,
`calibration` is the result that is stored, and `correction` applies it to a file of results.
"""
