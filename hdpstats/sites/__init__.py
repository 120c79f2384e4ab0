"""Sites: private rows are held inside a `Site`, and only `Site.answer` reads them.

* ``asking``: Asking the sites of a study, in rounds.
* ``messages``: What crosses to and from a site beside queries and releases: facts, costs, accounts, public rows,
  refusals.
* ``local``: A site in this process: for a custodian's own analyses, for teaching, and behind every remote site.
* ``opening``: From what a user calls private to sites: frames with their ledgers, files, sites of one's own and
  remote ones.
* ``recipes``: A call is answered under the recipe that it was charged under.
* ``remote``: A site in another process or on another machine: HTTPS with certificates, and one request with its
  answer.
* ``single_draw``: One charge, one draw: a request is computed once, whoever asks for it and however often.
* ``site``: What every site is, and who is protected by its releases; in this process, in another, or on another
  machine.
* ``study``: A study: private records at one site or several, public records at hand, and the schema that all obey.
"""

from hdpstats.sites.local import LocalSite
from hdpstats.sites.remote import RemoteSite, connect
from hdpstats.sites.site import Site
from hdpstats.sites.study import Study

__all__ = ["LocalSite", "RemoteSite", "Site", "Study", "connect"]
