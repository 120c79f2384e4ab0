"""Relations, budgets, sensitivities, events and guarantees. No data and no data frame.

Four words are kept apart: a *budget* is offered, an *event* ran, a *guarantee* holds, a *ledger*
records.
"""
