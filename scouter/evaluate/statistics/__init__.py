"""Statistics of pass rates: plain functions over counts, without dependencies.

`proportion` holds one rate against another, `paired` and `clustered` two runs over the same cases,
`power` says what a run could have seen, `multiplicity` corrects for many tasks and `flakiness`
tells a scenario that turned from one that always wavered.
"""
