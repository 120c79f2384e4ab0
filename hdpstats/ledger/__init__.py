"""What was recorded: a durable account of the privacy spent on a dataset, charged before private rows are touched.

`Ledger` is the account; `Request`, `Charge` and `StoredRelease` are what passes between it and a site.
"""

from hdpstats.ledger.bookkeeping import verify_file
from hdpstats.ledger.ledger import Ledger
from hdpstats.ledger.records import Charge, Lease, Request, StoredRelease, Verification

__all__ = ["Charge", "Lease", "Ledger", "Request", "StoredRelease", "Verification", "verify_file"]
