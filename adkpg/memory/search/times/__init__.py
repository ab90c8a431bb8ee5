"""Times in questions: when it was, in many languages, as spans of the calendar."""
