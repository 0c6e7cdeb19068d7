"""Token counting and token budgets."""
