"""What is asked? Spelling, slips, follow-ups, route, intent, comparisons, and whether two questions mean the same."""
