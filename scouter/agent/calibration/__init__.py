"""How far a judge can be trusted: it is held against people's labels, and its rates corrected.

`labels` reads what people said, `identity` names what was asked, `asking` asks the judge,
`calibration` is what comes out and is kept, and `correction` applies it to a file of results.
"""
