"""What all packages use: errors, validation of arguments, exact numbers, progress.

* ``errors``: The errors a user can meet, one family; and failures that hold no private row.
* ``loops``: Loops over rows or repetitions: how they are compiled, whether they may stop early or warn, how far they
  are.
* ``precision``: Numbers of more than 53 binary digits, for as many threads as there are.
* ``remembered``: Values of functions that are kept for later calls, until `forget`.
* ``typing``: Array types by what they hold; the mark of a field that a record leaves out.
* ``validation``: One validator for every argument that is a number, a name or a choice.
* ``work``: How much a computation does at most, counted beforehand from public facts, and what that takes.
"""
