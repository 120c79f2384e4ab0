"""The custodian's service: private rows in a process of their own, behind HTTPS.

It adds identity, permissions, caps and transport to a `hdpstats.sites.LocalSite`, which alone reads rows. Needs the
extra ``sites``; the command line imports it when it is used.
"""

from hdpstats.custodian.app import application
from hdpstats.custodian.credentials import issue, write_keys
from hdpstats.custodian.kept_head import note
from hdpstats.custodian.serving import described, open_site, resume, serve
from hdpstats.custodian.settings import SiteSettings
from hdpstats.custodian.slots import Overruns

__all__ = [
    "Overruns",
    "SiteSettings",
    "application",
    "described",
    "issue",
    "note",
    "open_site",
    "resume",
    "serve",
    "write_keys",
]
