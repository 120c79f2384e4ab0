"""NVIDIA FLARE as a carrier of requests (extra ``flare``): mutual TLS, signed jobs, sites that only dial out.

* ``job``: Writes a job: one request, and the names of this package's two classes; imports nothing of FLARE.
* ``executor``: Runs at each site, in FLARE's process for the job.
* ``controller``: Runs at FLARE's server: collects release files, and writes the result.

A job ships no code. It names the sites that it is for in a file (`hdpstats.engines.asked_sites`), which is signed as
all of its files are, and which each site reads for itself. Each site lists `EXECUTOR` in ``class_allow_list`` of its
``local/resources.json`` and nothing else of this package, and forbids shipped code (``byoc``) in
``local/authorization.json``; the server lists `CONTROLLER`.
Which settings a site answers by is in its ``local/hdpstats.json`` (`hdpstats.engines.participant.Participation`), where
no job reaches.
"""

import re
from typing import Final

EXECUTOR: Final = "hdpstats.engines.flare.executor.RequestExecutor"
CONTROLLER: Final = "hdpstats.engines.flare.controller.RequestController"
PARTICIPATION: Final = "hdpstats.json"
REQUEST: Final = "request.json"
SITES: Final = "sites.json"
KNOWN: Final = "known.json"
CONTENT: Final = "hdpstats"
"""Where content stands in what FLARE carries."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
"""Names of sites, which are names of files too."""
