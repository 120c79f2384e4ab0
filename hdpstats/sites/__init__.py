"""The wall: private rows live inside a `Site`, and `Site.answer` is its only door."""

from hdpstats.sites.local import LocalSite
from hdpstats.sites.remote import RemoteSite, connect
from hdpstats.sites.site import Site
from hdpstats.sites.study import Study

__all__ = ["LocalSite", "RemoteSite", "Site", "Study", "connect"]
