"""What is read, and how is it written for a model? Budgets, joining, formats, and text made harmless."""
