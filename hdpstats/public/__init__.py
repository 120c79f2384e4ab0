"""What is learned from public rows whatever the model: moments, allowances for weights, what tables of them say.

Fits are those of families (`hdpstats.families`). ``moments`` is what they tell of the private score, ``squares`` sums
of squares of rows, ``row_weights`` what weights of people may do, ``sandwich`` what they tell of released Hessians and
squared scores. ``enough`` says how many rows a model needs and where they are few. ``invented`` are people for values
that no public row has. ``risk_sets`` has Kaplan-Meier's curves, ``weighted_curves`` those under overlap weights,
``follow_up`` how a model does on public rows.
"""
