"""What is promised: relations, budgets, sensitivities, events, guarantees. No data and no data frame.

Four words are kept apart: a *budget* is offered, an *event* ran, a *guarantee* is promised, a *ledger*
records.
"""
