"""HTTPS to a site: certificates, a proxy, and one request with its answer or refusal."""

import re
import ssl
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, HdpError, SiteError
from hdpstats._base.validation import real, text
from hdpstats.sites.codes import CODES, NUMBERS

if TYPE_CHECKING:
    import httpx

Token = str | Callable[[], str]
Certificate = tuple[str | PathLike[str], str | PathLike[str]]
PATIENCE = 10.0
"""The longest time in seconds to wait for a connection."""


def open_client(
    url: str, *, token: Token, ca: str | PathLike[str] | None, cert: Certificate | None, timeout: float
) -> "HttpClient":
    """Check the arguments of `hdpstats.sites.connect` and return what talks to the site; nothing is sent yet."""
    address = text(url, name="url", longest=2000).rstrip("/")
    if not address.startswith("https://"):
        raise ArgumentError("url must begin with 'https://': tokens and releases do not travel in the open")
    if not (isinstance(token, str) or callable(token)):
        raise ArgumentError("token must be a text, or a function that returns one", argument="token")
    try:
        import httpx
    except ImportError:
        message = "remote sites need httpx: pip install 'hdpstats[sites]'"
        raise ArgumentError(message, argument="url") from None
    longest = real(timeout, name="timeout", lower=0.0, open_lower=True)
    limits = httpx.Limits(max_connections=16, keepalive_expiry=20.0)
    transport = httpx.HTTPTransport(verify=_context(ca, cert), limits=limits, proxy=_proxy(address))
    return HttpClient(transport, address=address, token=token, timeout=longest)


def _proxy(address: str) -> str | None:
    """Return the proxy that the environment names for an address: ``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        host = ""
    if not host:
        raise ArgumentError("url must name a host: https://host:port", argument="url")
    proxy = None if proxy_bypass(host) else getproxies().get("https") or getproxies().get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _context(ca: str | PathLike[str] | None, cert: Certificate | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise ArgumentError(f"ca must be a file of certificates (PEM), not {str(ca)!r}", argument="ca") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        try:
            context.load_cert_chain(*cert)
        except (OSError, ssl.SSLError, TypeError):
            message = "cert must name two files (PEM): your certificate and its key"
            raise ArgumentError(message, argument="cert") from None
    return context


@final
class HttpClient:
    """Connections to one site, which are kept for later requests.

    A transport alone: a client's cookies, redirects and merged headers are no part of this conversation.
    """

    def __init__(self, transport: "httpx.HTTPTransport", *, address: str, token: Token, timeout: float) -> None:
        self.address = address
        self._transport = transport
        self._token = token
        self._patience = {"connect": min(timeout, PATIENCE), "read": timeout, "write": timeout, "pool": timeout}

    def ask(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        """Send a request and return the JSON object of the response, or raise the error that its code stands for."""
        import httpx

        headers = {"authorization": f"Bearer {_word(self._token)}", "content-type": "application/json"}
        content = None if body is None else body.encode()
        try:
            request = httpx.Request(
                method,
                f"{self.address}{path}",
                headers=headers,
                content=content,
                extensions={"timeout": self._patience},
            )
            response = self._transport.handle_request(request)
            try:
                response.read()
            finally:
                response.close()
        except httpx.TimeoutException:
            raise SiteError(f"the site {self.address} did not answer in time; {_AGAIN}") from None
        except httpx.InvalidURL as error:
            raise ArgumentError(f"url must be https://host:port ({error})", argument="url") from None
        except httpx.RemoteProtocolError:  # its text quotes what was sent
            raise SiteError(
                f"the site {self.address} cannot be reached (it broke off, or sent what is no answer); {_AGAIN}"
            ) from None
        except httpx.HTTPError as error:
            raise SiteError(f"the site {self.address} cannot be reached ({_reason(error)}); {_AGAIN}") from None
        fields = _object(response.text)
        if response.status_code == httpx.codes.OK and fields is not None:
            return fields
        raise _refusal(response.status_code, fields)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


_WORD = re.compile("[!-~]{1,16000}")
_AGAIN = "the same query may be sent again, and is not charged twice"


def _word(token: Token) -> str:
    word = token if isinstance(token, str) else token()
    if not (isinstance(word, str) and _WORD.fullmatch(word)):
        raise ArgumentError(
            "token must be one word of printable ASCII characters, as it was handed out", argument="token"
        )
    return word


def _object(content: str) -> dict[str, Any] | None:
    try:
        fields = canonical.loads(content)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _reason(error: Exception) -> str:
    """Return the first line of what the transport says: about certificates, names and connections."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _refusal(status: int, fields: dict[str, Any] | None) -> HdpError:
    found = fields or {}
    code = str(found.get("error"))
    known = CODES.get(code)
    if known is None:
        return SiteError(f"the site cannot answer now (status {status}); {_AGAIN}")
    numbers = {name: found[name] for name in NUMBERS if isinstance(found.get(name), int | float)}
    told = "".join(f"; {name}: {number:g}" for name, number in numbers.items())
    return known.error(known.message + told, code=code, **numbers)
