"""Statistics of pass rates: plain functions over counts, without dependencies.

`proportion` holds one rate against another, `paired` and `clustered` two runs over the same cases,
`power` says what a run could have seen, `multiplicity` corrects for many tasks and `flakiness`
tells a scenario that turned from one that always wavered.

About judges: `confusion` and `agreement` hold a judge against people, `corrected_rate` and
`prediction_powered` take its errors out of a pass rate, `bias` looks for what else moves its
verdicts, and `gold_items` tells a judge that drifts from an agent that does.
"""
