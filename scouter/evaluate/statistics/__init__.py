"""Statistics of pass rates: plain functions over counts, without dependencies.

`permutation` tests whether the attempts of two runs could be those of one agent and `multiplicity`
corrects for many rates. `fall_limit` says which fall is ruled out, `paired` and `clustered` give
the interval of a difference over the same cases and `proportion` over others. `power` says what a
run could have seen, and `flakiness` tells a scenario that turned from one that always wavered.

About judges: `confusion`, `agreement` and `scores` hold a judge against people, `corrected_rate`
takes its errors out of a pass rate, `bias` looks for what else moves its outcomes, and `gold_items`
tells a judge that drifts from an agent that does.
"""
