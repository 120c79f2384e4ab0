"""Requests that R writes, and answers to them that R reads: the numbers are Python's."""

import os
import subprocess
import sys

import pytest

import hdpstats.api as hdp
import r_bridge
from hdpstats.custodian import open_site
from hdpstats.exchange import RequestFile
from hdpstats.ledger import SigningKey
from tests.custodian.asked_by_files import Place, Seen
from tests.custodian.people import PUBLIC, SCHEMA

ASK = "function(s, file, key) dp_request('logit', y ~ x + g, s, epsilon = 1, path = file, key = key)"
DESCRIBE = "function(s, file) dp_request('describe', c('x', 'g'), s, epsilon = 0.5, path = file, by = 'y')"
READ = "function(release, request, key) coef(dp_read_result(release, request = request, key = key))"
ROWS = "function(release, request) as.data.frame(dp_read_result(release, request = request))"


@pytest.fixture
def place(tmp_path):
    tmp_path.chmod(0o700)
    site, _ = SigningKey.generate().write(tmp_path / "site")
    _, ann = SigningKey.generate().write(tmp_path / "ann")
    return Place(tmp_path, signing={"key": str(site)}, requests={"keys": {"ann": str(ann)}, "unsigned": "refused"})


@pytest.fixture
def study():
    return hdp.Study(public=PUBLIC, schema=SCHEMA)


def words(*paths):
    return [r_bridge.to_r(str(path)) for path in paths]


def test_r_asks_with_a_signature_and_reads_the_answer(evaluate, place, study, tmp_path):
    evaluate(ASK)(r_bridge.to_r(study), *words(place.request, tmp_path / "ann.key"))
    asked = RequestFile.read(place.request)
    same = hdp.request("logit", "y ~ x + g", study, epsilon=1, key=tmp_path / "ann.key")
    assert asked.to_json() == same.to_json()
    place.answer()
    read = evaluate(READ)(*words(place.release, place.request, tmp_path / "site.pub"))
    assert list(read) == place.read(key=tmp_path / "site.pub").params.tolist()


def test_r_describes_by_files(evaluate, tmp_path, study):
    place = Place(tmp_path)
    evaluate(DESCRIBE)(r_bridge.to_r(study), *words(place.request))
    place.answer()
    asked = RequestFile.read(place.request)
    assert asked.sha256 == hdp.request("describe", ["x", "g"], study, epsilon=0.5, by="y").sha256
    read = evaluate(ROWS)(*words(place.release, place.request))
    assert len(read) == len(r_bridge.call("as.data.frame", place.read()).columns)


WEIGHTED = """function(s, file) {
  dp_request('logit', event ~ y, s, epsilon = 1, path = file, propensity_formula = 'y ~ x + g', propensity_epsilon = 1)
}"""
SAME = """function(study, release, request) {
  weights <- dp_weights(dp_propensity(y ~ x + g, study, epsilon = 1))
  later <- dp_logit(event ~ y, study, epsilon = 1, weighting = weights)
  identical(coef(later), coef(dp_read_result(release, request = request)))
}"""


def test_r_asks_for_weighted_people_by_files(evaluate, tmp_path, study):
    place = Place(tmp_path)
    evaluate(WEIGHTED)(r_bridge.to_r(study), *words(place.request))
    asked = RequestFile.read(place.request)
    same = hdp.request("logit", "event ~ y", study, epsilon=1, propensity_formula="y ~ x + g", propensity_epsilon=1)
    assert asked.sha256 == same.sha256
    place.answer()
    later = hdp.Study(private=Seen(open_site(place.settings)), public=PUBLIC)
    assert list(evaluate(SAME)(r_bridge.to_r(later), *words(place.release, place.request))) == [True]
    assert place.spent == 2


def test_r_replaces_no_other_file(evaluate, study, tmp_path):
    path = tmp_path / "request.json"
    path.write_text("notes")
    with pytest.raises(Exception, match="not replaced"):
        evaluate(DESCRIBE)(r_bridge.to_r(study), *words(path))
    assert path.read_text() == "notes"


SCRIPT = """
library(hdpstats)
words <- commandArgs(TRUE)
fit <- dp_read_result(words[1], request = words[2], key = words[3])
cat(sprintf("%.17g", coef(fit)), sep = "\\n")
"""


@pytest.mark.wide
def test_plain_r_reads_the_same_numbers_without_a_network(place, study, tmp_path, library):
    hdp.request("logit", "y ~ x + g", study, epsilon=1, key=tmp_path / "ann.key", path=place.request)
    place.answer()
    script = tmp_path / "read.R"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [
            "unshare",
            "--net",
            "--",
            "Rscript",
            str(script),
            *map(str, (place.release, place.request, tmp_path / "site.pub")),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"R_LIBS": str(library), "RETICULATE_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr  # network namespaces need the rights of root
    assert [float(word) for word in done.stdout.split()] == place.read().params.tolist()
