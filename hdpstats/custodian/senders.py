"""Who sent a request file: the analyst whose key signed it, or whom the custodian names.

A file has no token and no certificate. Where the settings name an analyst's key (``requests: keys:``), that analyst's
requests are signed, and the signature says who asks. A file without one is taken only where the settings say so
(``requests: unsigned: admitted``), for an analyst without a key, and then the custodian says who sent it.

A signature says who wrote a request, not to whom or when: whoever has the file may hand it to another site that knows
the key, where it is charged to the same analyst. At the same site and the same data it is charged once, however often
it comes.
"""

from pathlib import Path

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.custodian.files import StateError, check_file
from hdpstats.custodian.settings import SiteSettings
from hdpstats.exchange import RequestFile, RequestName
from hdpstats.ledger import VerifyingKey


def sender_of(settings: SiteSettings, request: RequestFile | RequestName, analyst: str | None = None) -> str:
    """Return the analyst whose permissions and cap apply to a request.

    Parameters
    ----------
    settings
        Of the site.
    request
        What was sent, or its name.
    analyst
        Who sent it, as the custodian says; may be left out where the request is signed, or there is one analyst.

    Raises
    ------
    ArgumentError
        The settings have no such analyst, do not admit requests without a signature, or do not know the key; or the
        request is another analyst's.
    StateError
        The file of a key cannot be used, be it another's: whose request it is is not known.
    SignatureError
        The signature is forged.
    """
    if analyst is not None and analyst not in settings.analysts:
        names = ", ".join(map(repr, settings.analysts))
        raise ArgumentError(f"analyst must be one of the settings, {names}: who sent the request", argument="analyst")
    if request.signature is not None:
        return _signer(settings, request, analyst)
    if settings.requests.unsigned != "admitted":
        raise ArgumentError(
            "request: it has no signature, and the settings admit none without: name analysts' keys, requests: {keys: "
            "{NAME: NAME.pub}}, and have them sign (hdpstats request --key NAME.key); or write requests: {unsigned: "
            "admitted}, and say by --analyst who sent each",
            argument="request",
        )
    if analyst is None and len(settings.analysts) > 1:
        names = ", ".join(map(repr, settings.analysts))
        raise ArgumentError(f"analyst must be one of the settings, {names}: who sent the request", argument="analyst")
    name = next(iter(settings.analysts)) if analyst is None else analyst
    if name in settings.requests.keys:
        raise ArgumentError(
            f"request: it has no signature, and {name!r} has a key in the settings: it must be signed",
            argument="request",
        )
    return name


def _key(file: Path) -> VerifyingKey:
    try:
        check_file(file, name="requests: keys")
        return VerifyingKey.read(file)
    except (HdpError, OSError) as error:
        raise StateError(f"requests: keys: {file} cannot be used: {error}", argument="requests: keys") from None


def _signer(settings: SiteSettings, request: RequestFile | RequestName, analyst: str | None) -> str:
    """Return the analyst whose key signed a request."""
    signature, owners = request.signature, []
    for name, files in settings.requests.keys.items():
        for file in files:
            key = _key(file)
            if signature is not None and key.id == signature.key:
                request.check_signature(key)
                owners.append(name)
    if len(owners) != 1:
        several = f"several analysts have this key: {', '.join(owners)}" if owners else "nobody's in the settings"
        raise ArgumentError(
            f"request: it is signed with the key {'' if signature is None else signature.key}; {several}; each analyst "
            "needs a key alone, named under requests: keys",
            argument="request",
        )
    if analyst not in (None, owners[0]):
        raise ArgumentError(f"analyst must be {owners[0]!r}, whose key signed the request", argument="analyst")
    return owners[0]
