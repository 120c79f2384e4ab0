"""One request answered by several sites, each with a file of its own, and read together."""

import json

import pytest

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.custodian import open_site
from hdpstats.exchange import read_result
from hdpstats.ledger import SigningKey
from tests.custodian.asked_by_files import QUESTIONS, Place, Seen, write_whole
from tests.custodian.people import PUBLIC, people


@pytest.fixture
def places(tmp_path):
    made = []
    for number, name in enumerate(("bos", "cox")):
        folder = tmp_path / name
        folder.mkdir()
        private, public = SigningKey.generate().write(tmp_path / f"{name}-key")
        place = Place(
            folder, signing={"key": str(private)}, ledger={"place": "ledger.db", "dataset": name, "epsilon": 100}
        )
        people(250 + 50 * number, seed=7 + number).to_parquet(folder / "rows.parquet")
        (folder / "rows.parquet").chmod(0o600)
        place.public_key = public
        made.append(place)
    return made


def asked_of(places, question):
    """Have a request answered by each site, and return it."""
    kind, what, options = QUESTIONS[question]
    for place in places:
        asked = place.ask(kind, what, options)
        place.answer()
    return asked


@pytest.mark.parametrize("question", ["description", "curves"])
def test_files_of_several_sites_give_what_the_ordinary_call_gives(places, question):
    asked = asked_of(places, question)
    files = {place.file.parent.name: place.release for place in places}
    keys = {place.file.parent.name: place.public_key for place in places}
    result = read_result(files, asked, key=keys)
    sites = {place.file.parent.name: Seen(open_site(place.settings)) for place in places}
    assert result.to_json() == asked.question.ask(hdp.Study(private=sites, public=PUBLIC)).to_json()
    assert [place.spent for place in places] == [float(asked.question.most.epsilon)] * 2
    with pytest.raises(hdp.ArgumentError, match="one for each site"):
        read_result(files, asked, key={"bos": keys["bos"]})
    with pytest.raises(hdp.LedgerError, match="signed with the key"):
        read_result(files, asked, key=dict.fromkeys(files, keys["bos"]))
    with pytest.raises(hdp.ArgumentError, match="every site once"):
        read_result([files["bos"], files["bos"]], asked)
    words = [str(places[0].request), *map(str, files.values()), "--out", str(places[0].file.with_name("r.json"))]
    assert main(["result", *words, *(word for key in keys.values() for word in ("--key", str(key)))]) == 0
    assert main(["result", *words, "--key", str(keys["bos"])]) == 2


def test_what_takes_joint_rounds_is_refused_and_read_one_by_one(places):
    asked = asked_of(places, "effect")
    with pytest.raises(hdp.SiteError, match="takes joint rounds"):
        read_result([place.release for place in places], asked)
    assert [read_result(place.release, asked).to_json() != "" for place in places] == [True, True]


def test_answers_that_nobody_asked_for_are_refused(places):
    bos, _ = places
    asked = asked_of([bos], "curves")
    more = json.loads(bos.release.read_text())["answers"]
    asked = asked_of([bos], "description")
    fields = json.loads(bos.release.read_text())
    write_whole(bos.release, {**fields, "answers": fields["answers"] + more})
    with pytest.raises(hdp.SiteError, match="does not ask for"):
        read_result(bos.release, asked)
