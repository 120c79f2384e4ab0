"""Later queries of a fit, whose text rests on releases: they are too long before the first charge, or never."""

from dataclasses import replace
from fractions import Fraction

import pytest

import hdpstats.api as hdp
from hdpstats.custodian import preview
from hdpstats.custodian.previewing import looked_at
from hdpstats.exchange.longest_text import LONGEST_FRACTION, LONGEST_NUMBER, longest_text
from hdpstats.records import codec
from hdpstats.records.sandwich import SandwichPart
from tests.custodian import asked_by_files
from tests.custodian.asked_by_files import BY_PROPENSITY, STUDY, Place, with_entries
from tests.custodian.people import FORMULA, PUBLIC, SCHEMA, SURVIVAL

HIDDEN = {"place": "ledger.db", "dataset": "trial", "epsilon": 100, "delta": 1e-3, "relation": "add_or_remove_one"}
OF_HIDDEN = {"persons": {"n_max": 500}, "ledger": HIDDEN}
OFFLINE = hdp.Study(public=PUBLIC, schema=SCHEMA, relation="add_or_remove_one", n_max=500)
ROUNDS = {"epsilon": 1, "delta": 1e-6, "mechanism": "clipped_newton"}
HESSIAN = {"epsilon": 1, "mechanism": "public_hessian"}
ASKED = {
    "logit": ("logit", FORMULA, {"epsilon": 1}, True),
    "without a description": ("logit", FORMULA, {"epsilon": 1, "describe": False}, True),
    "linear": ("linear", "secret ~ x + g", {"epsilon": 1}, True),
    "quantile": ("quantile", "secret ~ x", {"epsilon": 1, "q": 0.5}, True),
    "poisson": ("poisson", "k ~ x", {"epsilon": 1}, True),
    "multinomial": ("multinomial", "g ~ x", {"epsilon": 1}, True),
    "hazard": ("hazard", SURVIVAL, {"epsilon": 1, "intervals": 6}, True),
    "propensity": ("propensity", "y ~ x + g", {"epsilon": 1}, True),
    "weighted logit": ("logit", "event ~ y", BY_PROPENSITY, True),
    "weighted hazard": ("hazard", "Surv(time, event) ~ y", BY_PROPENSITY | {"intervals": 6}, True),
    "clipped scores": ("logit", FORMULA, ROUNDS, True),
    "public Hessian": ("logit", FORMULA, HESSIAN, True),
    "clipped scores of a public number": ("logit", FORMULA, ROUNDS, False),
    "public Hessian of a public number": ("logit", FORMULA, HESSIAN, False),
}


def place_of(tmp_path, name):
    """Return a hospital that was sent a request, and what its dry run was told of later queries."""
    kind, what, options, hidden = ASKED[name]
    place = Place(tmp_path, **OF_HIDDEN if hidden else {})
    place.ask(kind, what, options, OFFLINE if hidden else STUDY)
    return place, [each for each, _ in looked_at(place.settings, place.request).site._fitted]


@pytest.mark.parametrize("name", ASKED)
def test_later_queries_are_too_long_before_the_first_charge_or_never(tmp_path, name):
    place, later = place_of(tmp_path, name)
    longest = max(map(longest_text, later))
    with_entries(place, limits={"query": longest - 1})
    assert "would be refused: the request is longer" in preview(place.settings, place.request, prices={"steps": 1e-12})
    with pytest.raises(hdp.SiteError, match="longer than the site accepts"):
        place.answer()
    assert len(place.ledger.history()) == 0
    with_entries(place, limits={"query": longest})
    assert "would be refused" not in preview(place.settings, place.request, prices=asked_by_files.PRICES)
    first, *others = (query for query, _ in place.answer().answers)
    known = {kind: max(longest_text(each) for each in later if each.kind == kind) for kind in {q.kind for q in later}}
    assert len(first.to_json()) <= longest
    for query in others:
        assert len(query.to_json().encode()) <= known.get(query.kind, longest)


def test_a_text_has_room_for_every_number_and_for_parts_that_come_with_the_number_of_people(tmp_path):
    _, later = place_of(tmp_path, "logit")
    query = next(each for each in later if each.kind == "objective/1")
    least, most, share = 5e-324 + 1e-60 * 1.2345678901234567, -1.2345678901234567e-300, Fraction(10**30 - 1, 10**30)
    assert len(codec.dumps(most)) == LONGEST_NUMBER
    smoothing = Fraction(10**29 - 1, 10**30)
    sandwich = SandwichPart(share=smoothing, curvature=least, scores=least, width=least)
    geometry = query.model.geometry
    longer = replace(
        query,
        centre=tuple(most for _ in query.centre),
        ridge=Fraction(least),
        epsilon=share,
        model=replace(query.model, geometry=replace(geometry, location=tuple(most for _ in geometry.location))),
        sandwich=sandwich,
        smoothing_share=smoothing,
    )
    assert len(str(longer.ridge)) < LONGEST_FRACTION
    assert len(query.to_json()) < len(longer.to_json()) <= longest_text(query)
