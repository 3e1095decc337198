EvalScenario(
    id="dinner_planning",
    initial_query="Plan a dinner for 4 people.",
    predefined_turns=[
        "Make it vegetarian.",
        "Add a dessert.",
    ],
)
