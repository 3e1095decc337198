"""Replay: run scenarios against an agent in this process, and judge what it did.

`orchestrator` leads the conversations and collects records and spans while nothing is sent,
`runner` judges them on three levels, and `progress` shows a person how far it is.
"""
