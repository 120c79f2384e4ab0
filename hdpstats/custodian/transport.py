"""The body of a request, in bounded memory."""

from starlette.requests import ClientDisconnect, Request

from hdpstats.custodian.capacity import Hold
from hdpstats.custodian.refusing import Unacceptable

FINGERPRINT = "hdpstats.certificate"
"""Where a request's scope holds the SHA-256 of the client's certificate."""


async def body(request: Request, *, longest: int, hold: Hold) -> str:
    """Return the body of a request as text, or refuse one that is too long, too slow or no UTF-8.

    A length that is announced is believed where it is too long; what arrives is counted in any case, and ``hold`` is
    told of every part, which it may refuse.
    """
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > longest:
        raise Unacceptable("too-large")
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > longest:
                raise Unacceptable("too-large")
            hold(len(part))
            parts.append(part)
    except ClientDisconnect:
        raise Unacceptable("malformed") from None
    try:
        return b"".join(parts).decode("utf-8")
    except UnicodeDecodeError:
        raise Unacceptable("malformed") from None
