"""Requests and releases as files, for a site that nobody reaches over a network.

``questions`` has the kinds of questions that a request may ask, each with the code that analyst and custodian both run;
``weighted_people`` those of two parts, a propensity model and what rests on it; ``longest_text`` how long queries may
become that rest on releases;
``request_file`` what an analyst writes, ``release_file`` what the custodian's answer is written to and how it is read;
``files`` how a file that comes from somebody else is opened, and how one is written as a whole. ``several`` is for one
request to several sites.
Answering is the custodian's: `hdpstats.custodian.answering`.
"""

from hdpstats.exchange.release_file import ReleaseFile, read_result
from hdpstats.exchange.request_file import RequestFile, RequestName, request
from hdpstats.exchange.several import SeveralSites

__all__ = ["ReleaseFile", "RequestFile", "RequestName", "SeveralSites", "read_result", "request"]
