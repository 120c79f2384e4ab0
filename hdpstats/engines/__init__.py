"""Requests that reach sites by somebody else's machinery: what carries them, and what leaves a site by it.

A carrier takes a request to sites and brings back release files; it runs no code but this package's, and sees no row.

* ``asked_sites``: Whom a request is for, as a file beside it.
* ``collecting``: The exchanges of one request, and what comes of them; knows no carrier.
* ``participant``: A site's side: one exchange answered, or refused in fixed words; knows no carrier.
* ``flare``: NVIDIA FLARE as a carrier (extra ``flare``).
"""
