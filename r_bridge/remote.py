"""Sites in other processes, for R: to connect, and to try code on invented rows."""

from collections.abc import Callable
from typing import Any

import pandas as pd

import hdpstats.api as hdp
from r_bridge.arguments import whole


def connect(
    url: str,
    token: str,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    timeout: float = 600.0,
) -> hdp.RemoteSite:
    """Connect to a custodian's service.

    A token is a text here: sites are asked on threads of their own, from which a function of R's cannot be called.
    """
    if not isinstance(token, str):
        raise hdp.ArgumentError("token must be a text: the token as it was handed out", argument="token")
    cert = None if certificate is None or key is None else (certificate, key)
    return hdp.connect(url, token=token, ca=ca, cert=cert, timeout=timeout)


def dummy(site: hdp.RemoteSite, n: float = 100, seed: float = 0) -> pd.DataFrame:
    """Return invented rows, drawn from the site's schema alone."""
    return _site(site).dummy(whole(n), seed=whole(seed))


def _site(site: object) -> hdp.RemoteSite:
    if not isinstance(site, hdp.RemoteSite):
        raise hdp.ArgumentError("site must be what dp_connect() returned", argument="site")
    return site


REMOTE: dict[str, Callable[..., Any]] = {"connect": connect, "dummy": dummy}
"""What R calls of this, by name."""
