"""Signed releases and heads: what was altered, cut off, rolled back, rewritten or signed by others is named."""

import json
import shutil
import stat
from dataclasses import replace
from fractions import Fraction

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.cli import main
from hdpstats.ledger import Ledger, SignatureError, SignedHead, SigningKey, VerifyingKey
from hdpstats.ledger.chain import digest
from hdpstats.ledger.signing import check_export, check_release
from hdpstats.privacy.budget import Spend

SCHEMA = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event3=hdp.Binary(complete=True))


@pytest.fixture(scope="module")
def key():
    return SigningKey.generate()


@pytest.fixture(scope="module")
def fit(key):
    site = hdp.LocalSite(
        hdp.datasets.load_rotterdam(),
        schema=SCHEMA,
        ledger=Ledger(None, dataset="rotterdam", epsilon=4),
        signing_key=key,
    )
    study = hdp.Study(private=site, public=hdp.datasets.load_gbsg())
    return hdpf.logit("event3 ~ age", data=study).fit(epsilon=1)


def reason(call, *given, **named):
    with pytest.raises(SignatureError) as refused:
        call(*given, **named)
    return refused.value.facts["reason"]


def test_every_release_of_a_fit_is_signed_and_survives_json(fit, key, tmp_path):
    assert fit.verify(key.public) == 2
    fit.to_json(tmp_path / "fit.json")
    assert hdp.Result.from_json(tmp_path / "fit.json").verify(key.public_pem) == 2
    private, public = key.write(tmp_path / "site")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert fit.verify(SigningKey.generate().public, public) == 2
    assert SigningKey.read(private).public == key.public
    with pytest.raises(hdp.ArgumentError, match="is not replaced"):
        key.write(tmp_path / "site")


@pytest.fixture(scope="module")
def sites(key):
    rows = hdp.datasets.load_rotterdam()
    return hdp.Study(
        private={
            name: hdp.LocalSite(
                some, schema=SCHEMA, ledger=Ledger(None, dataset=name, epsilon=100, delta=1e-4), signing_key=key
            )
            for name, some in (("first", rows.iloc[:1500]), ("second", rows.iloc[1500:]))
        },
        public=hdp.datasets.load_gbsg(),
    )


def test_a_result_holds_releases_of_its_own_queries_only(sites, key):
    """Each release alone is what the site signed; they are of a fit of four times the epsilon."""
    fits = [hdpf.logit("event3 ~ age", data=sites).fit(epsilon=epsilon) for epsilon in (1, 4)]
    assert [each.verify(key.public) for each in fits] == [4, 4]
    texts = [json.loads(each.to_json()) for each in fits]

    def mixed(*path):
        text = json.loads(json.dumps(texts[0]))
        place, other = text["released"], texts[1]["released"]
        for step in path[:-1]:
            place, other = place[step], other[step]
        place[path[-1]] = other[path[-1]]
        return reason(hdp.Result.from_json(json.dumps(text)).verify, key.public)

    assert mixed("description", "releases") == "forged"
    assert mixed("release", "sites", 1, 1) == "forged"
    renamed = json.loads(json.dumps(texts[0]))
    renamed["released"]["description"]["queries"][0][0] = "third"
    assert reason(hdp.Result.from_json(json.dumps(renamed)).verify, key.public) == "forged"


@pytest.fixture(scope="module")
def counted(key):
    """A site whose number of people is protected, and of one size with missing cells."""
    site = hdp.LocalSite(
        hdp.datasets.load_rotterdam().head(500),
        schema=hdp.Schema(age=hdp.Continuous(20, 90), nodes=hdp.Continuous(0, 40)),
        ledger=Ledger(None, dataset="rotterdam", epsilon=100, relation="add_or_remove_one"),
        n_max=1000,
        signing_key=key,
    )
    return hdp.Study(private=site, public=hdp.datasets.load_gbsg())


def swapped(results, *path):
    """Return the first result with a part of the second one, read from JSON."""
    texts = [json.loads(each.to_json()) for each in results]
    place, other = texts[0], texts[1]
    for step in path[:-1]:
        place, other = place[step], other[step]
    assert place[path[-1]] != other[path[-1]]
    place[path[-1]] = other[path[-1]]
    return type(results[0]).from_json(json.dumps(texts[0]))


def test_the_number_of_people_answers_the_query_that_the_fit_keeps(counted, key):
    fits = [hdpf.linear("nodes ~ age", data=counted).fit(epsilon, se_share=0, describe=False) for epsilon in (1, 2)]
    assert [each.verify(key.public) for each in fits] == [2, 2]
    assert reason(swapped(fits, "released", "count").verify, key.public) == "forged"
    text = json.loads(fits[0].to_json())
    del text["released"]["counting"]
    assert reason(hdp.Result.from_json(json.dumps(text)).verify, key.public) == "forged"


def test_every_release_of_a_weighted_sample_answers_its_query(counted, key):
    samples = [hdp.hybrid_weights(counted, ["age"], epsilon=epsilon, select="distance") for epsilon in (1, 2)]
    fits = [each.fit(hdpf.linear, "nodes ~ age") for each in samples]
    assert [each.verify(key.public) for each in fits] == [2, 2]
    assert hdp.Result.from_json(fits[0].to_json()).verify(key.public) == 2
    for path in (("sample", 0), ("sample", 1), ("sample_queries", 0), ("release",)):
        assert reason(swapped(fits, "released", *path).verify, key.public) == "forged", path


def test_fits_in_rounds_are_signed_round_by_round(sites, key):
    fit = hdpf.logit("event3 ~ age", data=sites).fit(epsilon=2, delta=1e-6, mechanism="clipped_newton")
    assert fit.verify(key.public) > 4
    assert hdp.Result.from_json(fit.to_json()).verify(key.public) == fit.verify(key.public)


def test_a_release_that_was_altered_another_key_and_a_missing_signature_are_told_apart(fit, key):
    release = fit.release
    theta = (release.theta[0] + 1e-9, *release.theta[1:])
    assert reason(check_release, replace(release, theta=theta), [key.public]) == "forged"
    assert reason(check_release, release.at(replace(release.entry, number=7)), [key.public]) == "forged"
    assert reason(check_release, release.at(replace(release.entry, signature=None)), [key.public]) == "unsigned"
    assert reason(check_release, release, [SigningKey.generate().public]) == "other key"
    other = SigningKey.generate()
    swapped = replace(release.entry.signature, key=other.public.id)
    assert reason(check_release, release.at(replace(release.entry, signature=swapped)), [other.public]) == "forged"
    assert reason(check_release, release, [key.public], query=replace(fit.query, replicate=2)) == "forged"
    garbled = replace(release.entry.signature, value="zz")
    assert reason(check_release, release.at(replace(release.entry, signature=garbled)), [key.public]) == "forged"


@pytest.mark.wide
def test_a_stored_release_has_the_same_signature_and_a_rotated_key_signs_it_anew(key, tmp_path):
    def answer(signing_key):
        site = hdp.LocalSite(
            hdp.datasets.load_gbsg(),
            schema=SCHEMA,
            ledger=Ledger(tmp_path / "site.db", dataset="gbsg", epsilon=2, create=True),
            signing_key=signing_key,
        )
        return hdpf.logit("event3 ~ age", data=hdp.Study(private=site)).fit(epsilon=1)

    first, again, rotated = answer(key), answer(key), answer(SigningKey.generate())
    unsigned = answer(None)
    assert first.release.entry.signature == again.release.entry.signature
    assert rotated.release == first.release
    assert reason(rotated.verify, key.public) == "other key"
    assert reason(unsigned.verify, key.public) == "unsigned"
    assert unsigned.release == first.release
    with pytest.raises(hdp.ArgumentError, match="at least one public key"):
        first.verify()


def test_a_public_fit_has_nothing_to_verify(key):
    study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=SCHEMA)
    with pytest.raises(hdp.ArgumentError, match="public rows alone"):
        hdpf.logit("event3 ~ age", data=study).fit_public().verify(key.public)


@pytest.fixture
def ledger(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=3, create=True)
    ledger.persist(ledger.charge(request_for(1), cost("0.5")), '{"params":[1.5]}')
    return ledger


def go_on(path, request_for, number, dataset="trial"):
    ledger = Ledger(path, dataset=dataset, epsilon=3, create=True)
    request = request_for(number, dataset=dataset)
    ledger.persist(ledger.charge(request, Spend(Fraction(1, 4))), json.dumps({"params": [number]}))
    return ledger


def test_a_ledger_that_goes_on_verifies_and_one_that_was_cut_or_rolled_back_is_named(ledger, path, key, request_for):
    older = path.with_name("older.db")
    shutil.copy(path, older)
    go_on(path, request_for, 2)
    head = ledger.signed_head(key)
    assert (head.entries, head.charges, head.key) == (5, 2, key.public.id)
    assert ledger.verify(head, key=key.public).head == head.head
    go_on(path, request_for, 3)
    assert ledger.verify(head, key=key.public).entries == 7
    cut = Ledger.open_existing(older, dataset="trial")
    assert reason(cut.verify, head, key=key.public) == "cut off"
    go_on(older, request_for, 4)
    assert reason(Ledger.open_existing(older, dataset="trial").verify, head) == "rolled back"
    new = Ledger(path.with_name("new.db"), dataset="trial", epsilon=3, create=True)
    assert reason(new.verify, head) == "other account"


def test_heads_are_checked_with_their_key(ledger, key, tmp_path):
    head = ledger.signed_head(key)
    assert reason(ledger.verify, head, key=SigningKey.generate().public) == "other key"
    assert reason(ledger.verify, replace(head, entries=1), key=key.public) == "forged"
    assert reason(ledger.verify, ledger.signed_head(), key=key.public) == "unsigned"
    head.write(tmp_path / "head.json")
    assert SignedHead.read(tmp_path / "head.json") == head
    (tmp_path / "other.json").write_text("{}")
    for source in (tmp_path / "other.json", tmp_path / "missing.json"):
        with pytest.raises(hdp.ArgumentError, match="no signed head"):
            SignedHead.read(source)


@pytest.mark.parametrize("shared", [False, True])
def test_an_export_shows_a_gap_a_cut_end_and_a_rewritten_entry(ledger, path, key, request_for, tmp_path, shared):
    go_on(path, request_for, 2)
    if shared:
        go_on(path, request_for, 1, dataset="other")
    go_on(path, request_for, 3)
    older, exported = tmp_path / "older.json", tmp_path / "trial.json"
    ledger.export(older)
    go_on(path, request_for, 4)
    ledger.export(exported)
    head, document = ledger.signed_head(key), json.loads(exported.read_text())
    checked = check_export(exported, head=head, key=key.public)
    assert (checked.entries, checked.others) == (len(document["entries"]), 3 if shared else 0)
    assert ("left out" in str(checked)) is shared
    assert "signature was not checked" in str(check_export(exported, head=head))
    assert reason(check_export, older, head=head) == "cut off"

    def altered(change):
        changed = json.loads(exported.read_text())
        change(changed)
        place = tmp_path / "altered.json"
        place.write_text(json.dumps(changed))
        return reason(check_export, place, head=head, key=key.public)

    assert altered(lambda export: export["entries"][1].update(epsilon="1/8")) == "rewritten"
    assert altered(lambda export: export["entries"].pop(1)) in ("gap", "rewritten")
    assert altered(lambda export: export["hashes"].pop()) in ("gap", "cut off")

    def left_out(export):
        charge = next(entry["seq"] for entry in export["entries"][3:] if entry["kind"] == "charge")
        export["entries"] = [entry for entry in export["entries"] if entry["seq"] not in (charge, charge + 1)]

    assert altered(left_out) == "gap"

    def rewritten(export):
        entry = export["entries"][-2]
        entry["epsilon"] = "1/1000"
        entry["hash"] = export["hashes"][entry["seq"] - 1] = digest(entry)
        last = export["entries"][-1]
        last["previous_hash"] = entry["hash"]
        last["hash"] = export["hashes"][-1] = export["head"] = digest(last)

    assert altered(rewritten) == "rolled back"


def test_files_that_are_no_exports_and_no_keys_are_refused(tmp_path):
    file = tmp_path / "file.json"
    file.write_text("[]")
    with pytest.raises(hdp.ArgumentError, match="export of a ledger"):
        check_export(file)
    for read in (VerifyingKey.read, SigningKey.read):
        with pytest.raises(hdp.ArgumentError, match="signing-key STEM"):
            read(file)


def test_the_command_line_signs_and_verifies(ledger, path, tmp_path, capsys, request_for):
    stem, head, export = tmp_path / "site", tmp_path / "head.json", tmp_path / "trial.json"

    def run(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    assert run("site", "signing-key", stem)[0] == 0
    code, out = run("ledger", "head", path, "--key", f"{stem}.key", "--out", head)
    assert (code, "3 entries, 1 charges" in out) == (0, True)
    go_on(path, request_for, 2)
    code, out = run("ledger", "verify", path, "--head", head, "--key", f"{stem}.pub")
    assert (code, "goes on from the head" in out) == (0, True)
    assert run("ledger", "export", path, export)[0] == 0
    code, out = run("ledger", "verify", export, "--head", head, "--key", f"{stem}.pub")
    assert (code, "goes on from the head" in out) == (0, True)
    assert run("ledger", "verify", path, "--head", "ab" * 32, "--key", f"{stem}.pub")[0] == 2
    assert run("ledger", "verify", export, "--head", "ab" * 32)[0] == 2
    assert run("site", "signing-key", tmp_path / "other")[0] == 0
    code, out = run("ledger", "verify", path, "--head", head, "--key", tmp_path / "other.pub")
    assert (code, "signed with the key" in out) == (1, True)
