"""Who sent a request: whose key signed it, or whom the custodian names where the settings admit that."""

import json

import pytest

import hdpstats.api as hdp
from hdpstats.custodian import preview
from hdpstats.custodian.senders import sender_of
from hdpstats.exchange import RequestFile
from hdpstats.ledger import SigningKey
from tests.custodian.asked_by_files import SIMPLE, STUDY, Place
from tests.custodian.institution import EVERYTHING

FEW = {"mechanisms": ["description"], "models": [], "columns": ["x"]}


@pytest.fixture
def keys(tmp_path):
    tmp_path.chmod(0o700)
    return {name: SigningKey.generate().write(tmp_path / name) for name in ("ann", "bob", "eve")}


@pytest.fixture
def place(tmp_path, keys):
    return Place(
        tmp_path,
        analysts={"ann": EVERYTHING | {"epsilon": 2}, "bob": FEW | {"epsilon": 1}, "cox": EVERYTHING | {"epsilon": 1}},
        requests={"unsigned": "refused", "keys": {"ann": str(keys["ann"][1]), "bob": [str(keys["bob"][1])]}},
    )


def test_a_signature_says_whose_permissions_and_cap_apply(place, keys):
    signed = place.ask(*SIMPLE, key=keys["ann"][0])
    assert sender_of(place.settings, RequestFile.read(place.request)) == "ann"
    assert f"from ann, signed with the key {signed.signature.key}" in preview(place.settings, place.request)
    with pytest.raises(hdp.ArgumentError, match="'ann', whose key signed"):
        sender_of(place.settings, signed, "cox")
    place.answer()
    assert place.ledger.spent_by("ann").epsilon == 0.5
    assert place.read().to_json()
    place.release.unlink()  # which an answer to another analyst does not replace
    place.ask(*SIMPLE, key=keys["bob"][0])
    with pytest.raises(hdp.SiteError, match="does not permit"):
        place.answer()
    assert place.spent == 0.5


def test_the_name_of_a_request_is_that_of_what_it_asks(place, keys):
    plain, signed = (hdp.request(*SIMPLE[:2], STUDY, epsilon=0.5, key=key) for key in (None, keys["ann"][0]))
    assert plain.sha256 == signed.sha256
    assert plain.to_json() != signed.to_json()


def test_who_has_a_key_signs_and_others_only_where_the_settings_admit_it(place, keys):
    place.ask(*SIMPLE)
    with pytest.raises(hdp.ArgumentError, match="admit none without"):
        place.answer(analyst="cox")
    admitted = place.settings.model_copy(
        update={"requests": place.settings.requests.model_copy(update={"unsigned": "admitted"})}
    )
    assert sender_of(admitted, RequestFile.read(place.request), "cox") == "cox"
    with pytest.raises(hdp.ArgumentError, match="'ann' has a key"):
        sender_of(admitted, RequestFile.read(place.request), "ann")
    with pytest.raises(hdp.ArgumentError, match="one of the settings"):
        sender_of(admitted, RequestFile.read(place.request))


def test_forged_signatures_and_unknown_keys_are_refused(place, keys):
    place.ask(*SIMPLE, key=keys["eve"][0])
    with pytest.raises(hdp.ArgumentError, match="nobody's in the settings"):
        place.answer()
    place.ask(*SIMPLE, key=keys["ann"][0])
    fields = json.loads(place.request.read_text())
    fields["question"]["spending"]["epsilon"] = 0.6
    place.request.write_text(json.dumps(fields, sort_keys=True, separators=(",", ":")))
    with pytest.raises(hdp.LedgerError, match="not what the key"):
        place.answer()
    digits = "0" * 16
    for signature in ({"key": digits}, {"key": "x", "value": "y"}, {"key": digits, "value": "A" * 128}, [], 5, None):
        place.request.write_text(json.dumps({**fields, "signature": signature}, sort_keys=True, separators=(",", ":")))
        with pytest.raises(hdp.ArgumentError):
            place.answer()
    assert place.spent == 0


def test_a_key_of_two_analysts_is_nobodys(tmp_path, keys):
    own = str(keys["ann"][1])
    place = Place(
        tmp_path, analysts={"ann": EVERYTHING, "bob": EVERYTHING}, requests={"keys": {"ann": own, "bob": own}}
    )
    place.ask(*SIMPLE, key=keys["ann"][0])
    with pytest.raises(hdp.ArgumentError, match="several analysts have this key"):
        place.answer()


def test_a_key_that_others_may_replace_is_not_read(place, keys):
    place.ask(*SIMPLE, key=keys["ann"][0])
    keys["ann"][1].chmod(0o666)
    with pytest.raises(hdp.LedgerError, match="others than the owner may write"):
        place.answer()


@pytest.mark.parametrize("entry", [{"eve": "ann.pub"}, {"ann": []}, {"ann": "gone.pub"}, {"ann": 5}])
def test_settings_name_keys_of_analysts_in_files_that_are_there(tmp_path, keys, entry):
    place = Place(tmp_path, requests={"keys": entry})
    with pytest.raises(hdp.ArgumentError, match="requests"):
        _ = place.settings
