"""Sums of Hessians and squared scores of people, each cut to a norm: what one person changes, and what is charged."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import MechanismError
from hdpstats.families.base import ROUNDING
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.losses import HuberLoss, LogisticLoss, PoissonLoss, SmoothedQuantile
from hdpstats.mechanisms.minimiser import calibrate_semidefinite, sandwich_of
from hdpstats.mechanisms.registry import person_loss_of
from hdpstats.models.sandwich_share import ROOTS, _bound
from hdpstats.noise.exact import sqrt_up
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.codec import dumps
from hdpstats.records.query import unstack
from hdpstats.records.sandwich import SandwichPart
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.privacy.test_bounds_of_families import MODELS, SCHEMA, people_of_all_kinds

REGRESSIONS = [name for name in MODELS if "hazard" not in name and name != "multinomial"]
GRIDS = (2.0**-40, 2.0**-40)


def opened(name, **changes):
    query = MODELS[name]()._spec.ask(epsilon=Fraction(1), records=1200, share=Fraction(0), replicate=1)
    facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=1200)
    return query, person_loss_of(query.model, facts)


def rows_of(person_loss, frame):
    return person_loss.people(PrivateTable.from_frame(frame, SCHEMA).admit(person_loss.needs))


def matrices(stacked, D):
    return [unstack(np.array(each.astype(np.float64)) * grid, D) for each, grid in zip(stacked, GRIDS, strict=True)]


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("name", REGRESSIONS)
def test_one_person_changes_no_more_than_the_norm_that_all_are_cut_to(name):
    query, person_loss = opened(name)
    D, rng = person_loss.dimension, np.random.default_rng(2)
    everybody = people_of_all_kinds().sample(10, random_state=1)
    for scale in (0.0, 1.0, 30.0):
        theta = np.array(query.centre) + scale * rng.normal(size=D)
        for bound in (1e-3, 0.05, 1.0):
            part = SandwichPart(share=Fraction(1, 2), curvature=bound, scores=2 * bound, width=0.5)
            alone = [
                matrices(rows_of(person_loss, everybody.iloc[[k]]).stacked_sandwich(theta, part, grids=GRIDS), D)
                for k in range(len(everybody))
            ]
            for which, most in enumerate((bound, 2 * bound)):
                found = [each[which] for each in alone]
                sizes = [float(np.linalg.norm(each)) for each in found]
                assert max(sizes) <= most * (1 + 1e-9)
                assert min(float(np.linalg.eigvalsh(each)[0]) for each in found) >= -1e-9 * most
                apart = max(float(np.linalg.norm(a - b)) for a in found for b in found)
                assert apart <= math.sqrt(2.0) * most * (1 + 1e-9)
        tight = SandwichPart(share=Fraction(1, 2), curvature=1e-3, scores=1e-3, width=0.5)
        stacked = [rows_of(person_loss, everybody).stacked_sandwich(theta, tight, grids=GRIDS) for _ in range(2)]
        assert all(np.array_equal(a, b) for a, b in zip(*stacked, strict=True))


def test_orthogonal_rows_of_the_cut_norm_attain_root_two():
    part = SandwichPart(share=Fraction(1, 2), curvature=0.1, scores=0.2)
    found = []
    for row in ([1.0, 1.0], [1.0, -1.0]):
        people = RegressionRows.of(LogisticLoss(), np.array([row]), np.ones(1))
        found.append(matrices(people.stacked_sandwich(np.zeros(2), part, grids=GRIDS), 2))
    for which, most in enumerate((0.1, 0.2)):
        assert np.linalg.norm(found[0][which]) == pytest.approx(most, rel=1e-9)
        assert np.linalg.norm(found[0][which] - found[1][which]) == pytest.approx(math.sqrt(2.0) * most, rel=1e-9)


@pytest.mark.parametrize("name", ["squares", "quantile", "logistic"])
def test_sums_are_exact_over_people_in_any_place_and_a_row_with_a_missing_cell_adds_nothing(name):
    query, person_loss = opened(name)
    theta, part = np.array(query.centre) + 0.1, SandwichPart(share=Fraction(1, 2), curvature=0.3, scores=0.2, width=0.4)
    frame = people_of_all_kinds().head(101)

    def sums(some):
        return rows_of(person_loss, some).stacked_sandwich(theta, part, grids=GRIDS)

    whole = sums(frame)
    first, rest = sums(frame.iloc[:38]), sums(frame.iloc[38:])
    shuffled = sums(frame.sample(frac=1.0, random_state=3))
    lacking = frame.iloc[[0]].assign(x=np.nan)
    more = sums(pd.concat([lacking, frame]))
    for k in range(2):
        assert np.array_equal(whole[k], first[k] + rest[k])
        assert np.array_equal(whole[k], shuffled[k])
        assert np.array_equal(whole[k], more[k]), "an incomplete row adds 0, wherever it stands"


def test_the_noise_is_that_of_the_cut_norm_and_both_draws_are_charged():
    query, person_loss = opened("squares")
    part = SandwichPart(share=Fraction(1, 5), curvature=4.0, scores=0.25)
    asked = query.asked_as(type(query), sandwich=part)
    for relation, root in ((Relation.REPLACE_ONE, math.sqrt(2.0)), (Relation.ADD_OR_REMOVE_ONE, 1.0)):
        found, events = sandwich_of(asked, person_loss, relation=relation)
        assert [each.ran for each in events] == [MechanismName.CURVATURE, MechanismName.SQUARES]
        assert [each.epsilon for each in events] == [Fraction(1, 10)] * 2
        entries = person_loss.dimension * (person_loss.dimension + 1) // 2
        for each, bound in ((found.curvature, 4.0), (found.scores, 0.25)):
            assert root * bound < float(each.sensitivity.value) < root * bound * (1 + 1e-5)
            rate = float(each.noise.rate / each.grid)
            assert rate * float(each.sensitivity.value) <= 0.1 * (1 + 1e-15)
            assert each.noise_sd == pytest.approx(math.sqrt(entries + 1.0) / rate)


def test_the_sensitivity_counts_rounding_of_the_norm_and_to_the_grid():
    query, person_loss = opened("squares")
    part = SandwichPart(share=Fraction(1, 5), curvature=4.0, scores=0.25)
    asked, D = query.asked_as(type(query), sandwich=part), person_loss.dimension
    for relation, square in ((Relation.REPLACE_ONE, 2), (Relation.ADD_OR_REMOVE_ONE, 1)):
        found, _ = sandwich_of(asked, person_loss, relation=relation)
        for each, bound in ((found.curvature, part.curvature), (found.scores, part.scores)):
            rounded = each.sensitivity.value - each.grid * sqrt_up(Fraction(D * (D + 1) // 2))
            assert rounded > 0
            assert rounded**2 >= square * (Fraction(bound) * (1 + Fraction(1, 2**40))) ** 2


LOSSES = {
    "logistic": LogisticLoss(),
    "poisson": PoissonLoss(upper=1e9, cap=1e9),
    "huber": HuberLoss(lower=0.0, upper=1.0, c=1e9),
    "quantile": SmoothedQuantile(lower=0.0, upper=1.0, q=0.25, h=1e-3),
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("bound", [1e-60, 3.3, 1e60])
def test_rows_of_any_size_stay_within_the_sensitivity_without_a_warning(name, bound, recwarn):
    """Denormal and huge predictors, weights and coefficients; squared distances are exact, in grid steps."""
    D, rng = 3, np.random.default_rng(4)
    part = SandwichPart(share=Fraction(1, 2), curvature=bound, scores=bound, width=0.01)
    constants = {each: calibrated(D, bound, relation=each) for each in Relation}
    grid = float(constants[Relation.REPLACE_ONE].grid)
    sizes = [0.0, 5e-324, 1e-160, 1e-75, 1e-10, 1.0, 1e20, 1e50]
    rows = [size * row for size in sizes for row in (np.eye(D)[0], np.ones(D), rng.uniform(-1, 1, D))]
    found = [[], []]
    for theta in (np.zeros(D), 1e90 * rng.normal(size=D)):
        for weight in (0.0, 5e-324, 1.0, 1e9):
            for row in rows:
                one = RegressionRows.of(
                    LOSSES[name], row[None, :], np.ones(1), weights=np.array([weight]), offset=np.ones(1)
                )
                for which, each in enumerate(one.stacked_sandwich(theta, part, grids=(grid, grid))):
                    found[which].append(tuple(int(number) for number in each))
    for each in map(set, found):
        alone = max(sum(a * a for a in one) for one in each)
        apart = max(sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) for one in each for two in each)
        for relation, most in ((Relation.ADD_OR_REMOVE_ONE, alone), (Relation.REPLACE_ONE, apart)):
            value = constants[relation].sensitivity.value / constants[relation].grid
            assert value**2 / 2 < most <= value**2, "attained but for rounding, or nearly"
    assert not recwarn.list


def calibrated(D, bound, *, relation):
    return calibrate_semidefinite(D, bound=Fraction(bound) * ROUNDING, epsilon=Fraction(1), relation=relation)


def test_a_smaller_norm_is_a_smaller_sensitivity():
    small, large = (
        calibrate_semidefinite(3, bound=Fraction(bound), epsilon=Fraction(1), relation=Relation.REPLACE_ONE)
        for bound in (1, 8)
    )
    assert large.noise_sd == pytest.approx(8.0 * small.noise_sd, rel=1e-9)


@pytest.mark.parametrize("name", ["multinomial", "logit hazard"])
def test_other_families_refuse_the_question_before_a_row_is_read(name):
    query, person_loss = opened(name)
    asked = query.asked_as(type(query), sandwich=SandwichPart(share=Fraction(1, 5), curvature=1.0, scores=1.0))
    with pytest.raises(MechanismError, match="one linear predictor"):
        sandwich_of(asked, person_loss, relation=Relation.REPLACE_ONE)


@pytest.mark.parametrize(
    "wrong", [{"share": Fraction(0)}, {"share": Fraction(19, 20)}, {"curvature": 0.0}, {"scores": math.inf}]
)
def test_a_part_that_is_none_is_refused(wrong):
    with pytest.raises(MechanismError):
        SandwichPart(**({"share": Fraction(1, 5), "curvature": 1.0, "scores": 1.0} | wrong))


def test_shares_never_leave_nothing_for_the_coefficients():
    query, _ = opened("logistic")
    part = SandwichPart(share=Fraction(1, 2), curvature=1.0, scores=1.0)
    with pytest.raises(MechanismError, match="together"):
        query.asked_as(type(query), sandwich=part, hessian_share=Fraction(1, 2))


def test_questions_without_a_part_are_written_as_before():
    query, _ = opened("logistic")
    assert "sandwich" not in query.to_dict()
    asked = query.asked_as(type(query), sandwich=SandwichPart(share=Fraction(1, 2), curvature=1.0, scores=1.0))
    assert type(query).from_dict(asked.to_dict()) == asked
    assert "width" not in dumps(asked.to_dict()["sandwich"])


def test_a_fit_charges_what_it_was_asked_to_and_not_more():
    rng, n = np.random.default_rng(0), 30_000
    x = rng.uniform(-1, 1, n)
    frame = pd.DataFrame({"x": x, "y": (x + rng.normal(size=n)).clip(-4, 4)})
    schema = hdp.Schema(x=hdp.Continuous(-1, 1, complete=True), y=hdp.Continuous(-4, 4, complete=True))
    study = hdp.Study(private=frame, public=frame.head(200), schema=schema, budget=hdp.Budget(epsilon=3))
    result = hdpf.linear("y ~ x", study).fit(epsilon=3)
    spent = {event.ran: event.epsilon for event in result.release.events}
    assert spent[MechanismName.CURVATURE] == spent[MechanismName.SQUARES] > 0
    assert float(study.ledger.spent.epsilon) == 3.0


def test_norms_are_the_same_doubles_on_every_machine():
    assert [each**8 for each in ROOTS] == pytest.approx([2.0**k for k in range(8)], rel=1e-14)
    assert all(math.frexp(_bound(level, noise=1.0))[0] * 2 in ROOTS for level in np.geomspace(1e-12, 1e12, 97))
