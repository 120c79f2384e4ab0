"""The Jupyter kernel "R (hdpstats)": R is its language, and the functions of the package are attached.

``python -m r_bridge.kernel -f CONNECTION_FILE`` is what Jupyter runs. The protocol is `ipykernel`'s, the R is that of
`r_bridge.session`, on the main thread; R's side is the code in ``R/``, in an environment off the search path.

It protects nothing: the analyst's code runs in the process that holds the tables it is given. Records that the analyst
must not see belong to a remote site.
"""
