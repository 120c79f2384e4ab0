"""What was recorded: a durable account of the privacy spent on a dataset, charged before private rows are touched.

`Ledger` is the account; `Request`, `Charge` and `StoredRelease` are what passes between it and a site.

* ``analysts``: One analyst in an account: the cap on what he may receive, his quota, and his own part of the ledger.
* ``backup``: Copies of a ledger, what makes one usable again, and a ledger whose charges are lost.
* ``bookkeeping``: One transaction on a ledger: read the chain, open an account, grant a cap, add a charge, add a
  release; verify.
* ``chain``: The hash chain: every entry names the hash of the one before it, and the sums follow from the entries.
* ``disclosure``: What is disclosed of the privacy of a data set, or of one result: three forms that fill themselves.
* ``export``: A ledger as text, as a table of charges, on a page with bars of what is spent, and as a file for
  auditors.
* ``leases``: Who computes a charged request: one computation at a time, and none that was given up.
* ``ledger``: The ledger of a dataset: charge, compute, record the release, hand it out; and what it says of the
  account.
* ``location``: Where a ledger is kept: a path, a URL or memory, checked before anything is opened.
* ``records``: The records of a ledger: what is asked, what was charged, what was handed out, what is written in the
  file.
* ``signing``: Signatures: releases and heads of a ledger that anybody can check who has the site's public key.
* ``store``: The database of a ledger: its tables, durable transactions, errors that say what to do.
"""

from hdpstats.ledger.backup import KnownHead, KnownQuery, back_up, count_as_spent, restore
from hdpstats.ledger.bookkeeping import verify_file
from hdpstats.ledger.disclosure import Disclosure, Statements
from hdpstats.ledger.ledger import Ledger
from hdpstats.ledger.records import Charge, Lease, Request, StoredRelease, Verification
from hdpstats.ledger.signing import SignatureError, SignedHead, SigningKey, VerifyingKey

__all__ = [
    "Charge",
    "Disclosure",
    "KnownHead",
    "KnownQuery",
    "Lease",
    "Ledger",
    "Request",
    "SignatureError",
    "SignedHead",
    "SigningKey",
    "Statements",
    "StoredRelease",
    "Verification",
    "VerifyingKey",
    "back_up",
    "count_as_spent",
    "restore",
    "verify_file",
]
