"""The custodian's service: private rows in a process of their own, behind HTTPS.

It adds identity, permissions, caps and transport to a `hdpstats.sites.LocalSite`, which alone reads rows. Needs the
extra ``sites``; the command line imports it when it is used.

* ``analysis_time``: How long a request's own analysis may take at a site.
* ``answering``: Requests that come as files, and their answers.
* ``app``: What a site answers over HTTP.
* ``approvals``: Who approved a request file, and when: written down durably before anything is charged.
* ``capacity``: What one analyst may take of a site.
* ``credentials``: Who asks whom: the site's certificate, clients' certificates, and signed tokens (JWT) of analysts.
* ``health``: Whether a site is alive and ready, and metrics: at a local address, without a token.
* ``http_connection``: One connection: requests in HTTP/1.1 and their responses, each part of them with a deadline.
* ``first_site``: The files of a new site: settings with every key explained, keys and certificates for a trial run, a
  service's unit.
* ``files``: Who may read and write the files of a site: its own user, root, and a group that it has alone.
* ``log``: The custodian's log: one JSON line for each request, and for what went wrong inside; never a cell.
* ``kept_head``: The account of a site: one that exists, on the terms that the settings name, with its head kept
  elsewhere.
* ``listening``: Connections of a site: which are admitted (in all, of one certificate, without a finished handshake),
  TLS handshakes.
* ``overview``: What the person who decides must see of a site, in a terminal: budgets, analysts, requests, releases,
  late answers.
* ``permissions``: What an analyst may ask a site for: what is listed, and nothing else.
* ``previewing``: What a request file asks and would cost, in words, for the custodian who decides.
* ``prices``: What operations take on this machine: measured once in a process, before anybody asks, on invented
  numbers.
* ``queried_rows``: Private rows that a database returns: a query of the settings.
* ``request_costs``: What the queries of a request file cost in all, over every exchange in which it came.
* ``senders``: Who sent a request file: the analyst whose key signed it, or whom the custodian names.
* ``settings_sections``: Sections of settings: each entry known and of its type.
* ``serving``: The process of a site: from settings to a site that holds the rows, and from there to a service.
* ``settings``: ``site.yaml``: everything a custodian decides about a site, in one file.
* ``timing``: Answers that leave at fixed slots, whatever private rows and noise make of the computation.
* ``watching``: A folder that is polled: request files that come into it are answered, and release files put into
  another.
"""

from hdpstats.custodian.answering import answer
from hdpstats.custodian.app import application
from hdpstats.custodian.credentials import issue, write_keys
from hdpstats.custodian.first_site import write_site
from hdpstats.custodian.health import ask
from hdpstats.custodian.kept_head import known_heads, note
from hdpstats.custodian.overview import overview
from hdpstats.custodian.previewing import approve, preview
from hdpstats.custodian.request_costs import known_queries
from hdpstats.custodian.serving import described, disclosure, open_site, protect_process, resume, serve
from hdpstats.custodian.settings import SiteSettings
from hdpstats.custodian.timing import Overruns
from hdpstats.custodian.watching import watch

__all__ = [
    "Overruns",
    "SiteSettings",
    "answer",
    "application",
    "approve",
    "ask",
    "described",
    "disclosure",
    "issue",
    "known_heads",
    "known_queries",
    "note",
    "open_site",
    "overview",
    "preview",
    "protect_process",
    "resume",
    "serve",
    "watch",
    "write_keys",
    "write_site",
]
