"""Sites: private rows are held inside a `Site`, and only `Site.answer` reads them."""

from hdpstats.sites.local import LocalSite
from hdpstats.sites.remote import RemoteSite, connect
from hdpstats.sites.site import Site
from hdpstats.sites.study import Study

__all__ = ["LocalSite", "RemoteSite", "Site", "Study", "connect"]
