"""The custodian's service: private rows in a process of their own, behind HTTPS.

It adds identity, permissions, caps and transport to a `hdpstats.sites.LocalSite`, which stays the wall. Needs the extra
``sites``; the command line imports it when it is used.
"""

from hdpstats.custodian.account import note
from hdpstats.custodian.app import application
from hdpstats.custodian.opening import described, open_site
from hdpstats.custodian.overruns import Overruns
from hdpstats.custodian.serving import serve
from hdpstats.custodian.settings import Settings
from hdpstats.custodian.tokens import issue, write_keys

__all__ = ["Overruns", "Settings", "application", "described", "issue", "note", "open_site", "serve", "write_keys"]
