"""The JSON of queries and releases never changes: ledgers know them by their hashes."""

import hashlib
from dataclasses import replace
from fractions import Fraction

import pytest

from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery, ClippedNewtonRelease
from hdpstats.mechanisms.count import CountQuery, CountRelease
from hdpstats.mechanisms.description import (
    DescribedColumn,
    DescribedPairs,
    DescriptionQuery,
    DescriptionRelease,
    RowsOfPerson,
)
from hdpstats.mechanisms.description.public_cells import CrossedColumn, FollowUpCells
from hdpstats.mechanisms.evaluation import EvaluationQuery, EvaluationRelease
from hdpstats.mechanisms.exponential import ExponentialQuery, ExponentialRelease
from hdpstats.mechanisms.histogram import Axis, HistogramQuery, HistogramRelease
from hdpstats.mechanisms.hybrid_weights import (
    CurveQuery,
    CurveRelease,
    DistanceQuery,
    DistanceRelease,
    LossSelectionQuery,
    NeighboursQuery,
    NeighboursRelease,
    SelectionQuery,
    SelectionRelease,
)
from hdpstats.mechanisms.importance_weights import ColumnBox, DensityRatioModel, ImportanceWeightsQuery
from hdpstats.mechanisms.perturbation import ObjectiveQuery, ObjectiveRelease, OutputQuery, OutputRelease
from hdpstats.mechanisms.public_hessian import PublicHessianQuery, PublicHessianRelease
from hdpstats.mechanisms.registry import FAMILIES, query_from_json, release_from_json
from hdpstats.mechanisms.statistics import StatisticsQuery, StatisticsRelease
from hdpstats.mechanisms.subsample import SubsampleQuery, SubsampleRelease
from hdpstats.mechanisms.treatment_effect import TreatmentEffectQuery, TreatmentEffectRelease
from hdpstats.privacy.budget import Budget, MechanismName, PrivacyEvent, Spend
from hdpstats.privacy.gaussian import mu_of
from hdpstats.records.averages import CentredColumn
from hdpstats.records.geometry import Geometry, PointColumn, PointSpace, Source
from hdpstats.records.model import HazardCap, HazardModel, MultinomialModel, RegressionModel, TimeGrid
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.records.sandwich import NoisySandwich, SandwichPart

ASKED = {"epsilon": Fraction(1, 3), "schema_sha256": "a" * 64, "public_sha256": "b" * 64, "replicate": 2}
AHEAD = (Spend(Fraction(2, 7)),)
SPACE = PointSpace(columns=(PointColumn(name="age", lower=0.1, upper=1 / 3), PointColumn(name="sex", levels=2)))


def geometry(intercept: bool = True) -> Geometry:
    return Geometry(
        location=(0.1, -1e-7),
        whitening=((1 / 3, 0.0), (0.2, 1e9)),
        radius=1.5,
        leverage=5.5,
        intercept=intercept,
        source=Source.PUBLIC_ROWS,
    )


REGRESSION = RegressionModel(
    formula="y ~ x", loss="huber", geometry=geometry(False), weights="w", offset="o", parameters=(1.345, 0.1)
)
TABLED = RegressionModel(formula="y ~ x", loss="own", geometry=geometry(False), table=((0.0, 0.5), (-1.0, 1 / 3)))
HAZARD = HazardModel(
    formula="Surv(t, d) ~ x + z",
    link="cloglog",
    grid=TimeGrid((0.1, 1 / 3)),
    baseline=((0.1,), (-1.0,)),
    geometry=geometry(),
    cap=HazardCap(total=4.1, margin=-0.7, baseline=((-1.1, 2.2),), slopes=((0.1, -1e-17),)),
    offset="o",
)
MULTINOMIAL = MultinomialModel(formula="y ~ x + z", others=1, geometry=geometry(), weights="w")
MINIMISED = ASKED | {"ridge": Fraction(0.1), "hessian_share": Fraction(3, 20)}
QUERIES = {
    "objective": ObjectiveQuery(model=REGRESSION, centre=(0.1, 5e-324), **MINIMISED),
    "objective, a table": ObjectiveQuery(model=TABLED, centre=(0.1, 5e-324), **MINIMISED),
    "objective, hazard": ObjectiveQuery(model=HAZARD, centre=(0.1, -1e-300, 7.7), **MINIMISED),
    "objective, weighted people": ObjectiveQuery(
        model=replace(
            REGRESSION,
            weights=None,
            weighting=OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=(0.1, -1 / 3)),
        ),
        centre=(0.1, 5e-324),
        **MINIMISED,
    ),
    "objective, means of weighted people": ObjectiveQuery(
        model=replace(
            REGRESSION,
            weights=None,
            weighting=OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=(0.1, -1 / 3)),
            averaged=4,
        ),
        centre=(0.1, 5e-324),
        **MINIMISED,
    ),
    "objective, a share for smoothing": ObjectiveQuery(
        model=REGRESSION, centre=(0.1, 5e-324), smoothing_share=Fraction(1, 50), **MINIMISED
    ),
    "objective, a sandwich": ObjectiveQuery(
        model=REGRESSION,
        centre=(0.1, 5e-324),
        sandwich=SandwichPart(share=Fraction(1, 50), curvature=0.1, scores=1 / 3, width=1e-3),
        **MINIMISED,
    ),
    "output, multinomial": OutputQuery(
        model=MULTINOMIAL, centre=(0.1, -1e-300, 7.7), **MINIMISED, delta=Fraction(1, 10**6)
    ),
    "sampling": ExponentialQuery(
        model=REGRESSION,
        centre=(0.1, 1 / 3),
        ridge=Fraction(2.5),
        delta=Fraction(1, 7),
        half_widths=(0.1, 1e-6),
        proposals=17,
        **ASKED,
    ),
    "gradient": ClippedNewtonQuery(
        model=REGRESSION,
        theta=(0.1, -5e-324),
        clip=Fraction(2.7),
        delta=Fraction(1, 10**6),
        mu_squared=mu_of(Fraction(1, 3), Fraction(1, 10**6)) ** 2 / 4,
        ahead=Fraction(1, 10**9),
        **ASKED,
    ),
    "importance": ImportanceWeightsQuery(
        model=DensityRatioModel(
            formula="~ hormon + age",
            columns=("hormon", "age"),
            coding=ColumnBox(
                location=(0.25, 50.0), scale=(1.0, 20.0), lower=(-1.0, -1.0), upper=(0.5, 1.0), intercept=True
            ),
        ),
        perturbs="output",
        centre=(0.0, 0.1, 0.2),
        ridge=Fraction(30),
        **ASKED,
    ),
    "importance, a geometry": ImportanceWeightsQuery(
        model=DensityRatioModel(formula="~ hormon + age", columns=("hormon", "age"), coding=geometry()),
        perturbs="objective",
        centre=(0.0, 0.1, 0.2),
        ridge=Fraction(30),
        **ASKED,
    ),
    "importance, a share for smoothing": ImportanceWeightsQuery(
        model=DensityRatioModel(formula="~ hormon + age", columns=("hormon", "age"), coding=geometry()),
        perturbs="objective",
        centre=(0.0, 0.1, 0.2),
        ridge=Fraction(30),
        smoothing_share=Fraction(1, 10),
        **ASKED,
    ),
    "count": CountQuery(**ASKED),
    "count, a column apart": CountQuery(columns=("a", "x", "y"), apart="y", **ASKED),
    "count ahead": CountQuery(
        ahead=(Spend(Fraction(1, 7), mu_squared=Fraction(1, 20), asked=Budget(Fraction(1), Fraction(1, 10**6))),),
        **ASKED,
    ),
    "evaluation": EvaluationQuery(
        formula="y ~ x", coefficients=(0.1, -1 / 3), offset="o", cuts=(-1.5, 0.2), grid=None, ends=(), causes=1, **ASKED
    ),
    "evaluation of survival": EvaluationQuery(
        formula="Surv(t, d) ~ x",
        coefficients=(0.1,),
        offset=None,
        cuts=(0.2,),
        grid=TimeGrid((0.1, 1 / 3)),
        ends=(1, 2),
        causes=2,
        **ASKED,
    ),
    "description of weighted arms": DescriptionQuery(
        columns=(DescribedColumn(name="x", lower=-1.0, upper=1.0),),
        by="a",
        groups=2,
        complete=True,
        weighting=OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=(0.1, -1 / 3)),
        **ASKED,
    ),
    "description of arms": DescriptionQuery(
        columns=(DescribedColumn(name="x", lower=-1.0, upper=1.0),),
        by="a",
        groups=2,
        complete=True,
        besides=("z",),
        followed_by=AHEAD,
        **ASKED,
    ),
    "treatment effect": TreatmentEffectQuery(
        weighting=OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=(0.1, -1 / 3)), outcome="y", **ASKED
    ),
    "description of first rows": DescriptionQuery(
        columns=(DescribedColumn(name="x", lower=-1.0, upper=1.0),),
        complete=True,
        besides=("a",),
        followed_by=AHEAD,
        first=("a", "x"),
        **ASKED,
    ),
    "objective, first rows": ObjectiveQuery(model=replace(REGRESSION, first=True), centre=(0.1, 5e-324), **MINIMISED),
    "treatment effect of several rows": TreatmentEffectQuery(
        weighting=OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=(0.1, -1 / 3)),
        outcome="y",
        cells=3,
        most_rows=4,
        **ASKED,
    ),
    "treatment effect on a number": TreatmentEffectQuery(
        weighting=OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=(0.1, -1 / 3)),
        outcome="y",
        lower=-0.1,
        upper=2.5,
        cells=3,
        **ASKED,
    ),
    "histogram": HistogramQuery(axes=(Axis(name="age", cuts=(0.1, 1 / 3)), Axis(name="sex", levels=2)), **ASKED),
    "neighbours": NeighboursQuery(space=SPACE, support=(3, 1), ahead=AHEAD, **ASKED),
    "neighbours of all": NeighboursQuery(space=SPACE, support=None, **ASKED),
    "selection": SelectionQuery(
        space=SPACE, order=(5, 2, 9), sizes=(1, 3), reach=0.7, penalties=(0.1, 1 / 3), ahead=AHEAD, **ASKED
    ),
    "loss selection": LossSelectionQuery(
        formula="y ~ x", candidates=((0.1, -0.2), (1 / 3, 5e-324)), reach=0.7, ahead=AHEAD, **ASKED
    ),
    "distance": DistanceQuery(space=SPACE, support=(3, 1), reach=0.7, **ASKED),
    "distance to all": DistanceQuery(space=SPACE, support=None, reach=0.7, **ASKED),
    "curve": CurveQuery(
        formula="y ~ x",
        candidates=((0.1, -0.2), (1 / 3, 5e-324)),
        scale=(1.0, 0.1),
        radius=Fraction(3, 7),
        ridge=Fraction(1, 10),
        ahead=AHEAD,
        **ASKED,
    ),
    "score": PublicHessianQuery(
        model=RegressionModel(formula="y ~ x + z", loss="logistic", geometry=geometry()),
        theta=(0.1, -5e-324, 1e-300),
        truncation=0.1,
        norm=Fraction(2.7),
        cost=Fraction(1, 9),
        ahead=Fraction(2, 9),
        **ASKED,
    ),
    "description": DescriptionQuery(
        columns=(
            DescribedColumn(name="age", lower=18.0, upper=1 / 3 + 100, centre=0.4, cuts=(40.5, 60.5), whole=True),
            DescribedColumn(name="size", levels=3, complete=True),
        ),
        by="hormon",
        groups=2,
        complete=True,
        weights="w",
        largest_weight=5.0,
        follow_up=FollowUpCells(time="time", event="event", causes=2, ends=(0.1, 365.25)),
        **ASKED,
    ),
    "description of curves": DescriptionQuery(
        by="rx",
        groups=6,
        crossed=(CrossedColumn(name="sex", levels=2),),
        follow_up=FollowUpCells(time="time", event="event", causes=1, ends=(365.25, 1000.0), start="entry"),
        **ASKED,
    ),
    "description of several rows": DescriptionQuery(
        columns=(DescribedColumn(name="size", levels=3, complete=True),),
        rows=RowsOfPerson(most=6, ends=(1, 2, 4)),
        **ASKED,
    ),
    "averages of several rows": DescriptionQuery(
        columns=(DescribedColumn(name="age", lower=18.0, upper=100.0, centre=0.4),),
        complete=True,
        counted=False,
        ahead=AHEAD,
        rows=RowsOfPerson(most=6, ends=(2,), correlation=1 / 3),
        **ASKED,
    ),
    "objective, several rows": ObjectiveQuery(
        model=replace(REGRESSION, correlation=1 / 3), centre=(0.1, 5e-324), **MINIMISED
    ),
    "description with pairs": DescriptionQuery(
        columns=(DescribedColumn(name="age", lower=18.0, upper=100.0), DescribedColumn(name="size", levels=3)),
        complete=True,
        pairs=DescribedPairs(
            columns=(
                CentredColumn(name="age", centre=51.25, unit=1 / 3 + 10),
                CentredColumn(name="size", level=1, centre=0.4, unit=0.5),
            ),
            reach=2.5,
            largest=3.0,
        ),
        **ASKED,
    ),
    "statistics": StatisticsQuery(column="age", family="normal", **ASKED),
    "subsample": SubsampleQuery(
        column="age", family="gamma", box=((0.1, 1 / 3), (1.0, 2.0)), blocks=30, by="persons", **ASKED
    ),
}
EVENTS = (
    PrivacyEvent(ran=MechanismName.OBJECTIVE, epsilon=Fraction(1, 3), delta=Fraction(1, 7)),
    PrivacyEvent(
        ran=MechanismName.GRADIENT, epsilon=Fraction(1), delta=Fraction(1, 10**6), mu_squared=Fraction(1, 10**4)
    ),
)
POINT = {"theta": (0.1, -3.5), "hessian_noise_sd": 7.7, "grid": 2.0**-40, "records": 10, "events": EVENTS}
COUNTS = {"counts": (3, -1), "noise_variance": 1 / 3, "events": EVENTS}
RELEASES = {
    "objective": ObjectiveRelease(hessian=(1.0, 2.0, 0.1), noise_rate=1 / 3, **POINT),
    "objective, a sandwich": ObjectiveRelease(
        hessian=None,
        noise_rate=1 / 3,
        sandwich=NoisySandwich(hessian=(1.0, 2.0, 0.1), scores=(0.3, -1e-17, 5.0), hessian_sd=0.1, scores_sd=1 / 3),
        **POINT,
    ),
    "output": OutputRelease(hessian=None, noise_rate=0.0, noise_sd=0.3, **POINT),
    "sampling": ExponentialRelease(hessian=None, noise_rate=0.0, temperature=1 / 3, **POINT),
    "gradient": ClippedNewtonRelease(total=(0.1, -3.5e7), noise_sd=12.25, grid=2.0**-29, records=10, events=EVENTS),
    "count": CountRelease(count=7, noise_sd=1 / 3, most=1000, events=EVENTS),
    "evaluation": EvaluationRelease(**COUNTS),
    "treatment effect": TreatmentEffectRelease(weights=(3, -1, 0, 2**40), noise_sd=1 / 3, events=EVENTS),
    "histogram": HistogramRelease(**COUNTS),
    "neighbours": NeighboursRelease(**COUNTS),
    "selection": SelectionRelease(choice=3, events=EVENTS),
    "distance": DistanceRelease(units=-7, noise_sd=1 / 3, events=EVENTS),
    "curve": CurveRelease(errors=(0.1, -1 / 3), noise_sd=0.3, events=EVENTS),
    "score": PublicHessianRelease(total=(0.1, -3.5e7), noise_sd=12.25, grid=2.0**-29, records=10, events=EVENTS),
    "description": DescriptionRelease(
        sums=(3, -1),
        sums_sd=1 / 3,
        cells=(2**60,),
        cells_sd=0.1,
        follow_up=(-7,),
        follow_up_sd=12.25,
        records=None,
        events=EVENTS,
    ),
    "statistics": StatisticsRelease(units=(3, -1), noise_rate=1 / 3, records=10, events=EVENTS),
    "subsample": SubsampleRelease(units=(3, -1), noise_rate=1 / 3, records=10, blocks=5, events=EVENTS),
}
PINNED = {
    "query: objective": "388ba66856946128",
    "query: objective, a table": "514a2476d8f4c826",
    "query: objective, hazard": "62eef5b05c1541ef",
    "query: objective, a share for smoothing": "3db100fc8edbace1",
    "query: objective, a sandwich": "187daae35cd9eb48",
    "query: objective, weighted people": "d25ad6f83c1476af",
    "query: objective, means of weighted people": "1a9019f793d3d2b8",
    "query: output, multinomial": "5a6e4648b2bb8e29",
    "query: sampling": "bfb64fb4ec1402d4",
    "query: gradient": "21e02781123904eb",
    "query: importance": "d958c2a8e9e3810a",
    "query: importance, a geometry": "db28fe91fe895742",
    "query: importance, a share for smoothing": "0fcdcc89354433b3",
    "query: count": "2347184ff3b6edb8",
    "query: count, a column apart": "ee3666b1b47505c8",
    "query: count ahead": "49cda58c47673492",
    "query: evaluation": "fac107d1f2fb8071",
    "query: evaluation of survival": "3a181a6237154b50",
    "query: description of weighted arms": "d6b433e706f3086e",
    "query: description of arms": "07bb2eb94bc6f63c",
    "query: objective, first rows": "7e6351c802e96ade",
    "query: description of first rows": "282725dff69b5fc5",
    "query: treatment effect": "0c9ff9c703108912",
    "query: treatment effect of several rows": "d2f21caad4a361b2",
    "query: treatment effect on a number": "205f2ce7a956e273",
    "query: histogram": "90c8bb0fcf98f3ef",
    "query: neighbours": "677c0013b5d5c1ea",
    "query: neighbours of all": "5b110d61d5e8e547",
    "query: selection": "2366101f83191fda",
    "query: loss selection": "7124ac271c36d2e8",
    "query: distance": "c472cbecf4089790",
    "query: distance to all": "9ab8ec6d59dce4e9",
    "query: curve": "d7aef2bb78307d6c",
    "query: score": "5bcb5f86d3dd8d7a",
    "query: description": "c0c2b13230d89150",
    "query: description of curves": "8153fdc8a3240aef",
    "query: description of several rows": "f802d7dbc4f633ae",
    "query: averages of several rows": "678858530108602e",
    "query: objective, several rows": "b4f3d78219c5ee01",
    "query: description with pairs": "3c8ee6e9dc58939b",
    "query: statistics": "4ff6a3cbba0ee501",
    "query: subsample": "abf969c222307839",
    "release: objective, a sandwich": "6ec51b7f55e6109a",
    "release: objective": "7c69da1894e490f0",
    "release: output": "14b6d9cbc2c167b9",
    "release: sampling": "97e52fadffaf8032",
    "release: gradient": "9581bd5fcdd34ec0",
    "release: count": "5363e3d9ae11d51b",
    "release: evaluation": "499cd75427b78d63",
    "release: treatment effect": "1ea3617158e89480",
    "release: histogram": "91f3afe37fff989c",
    "release: neighbours": "5a7632e8b253711f",
    "release: selection": "c316406d345e2a66",
    "release: distance": "97507885634087d5",
    "release: curve": "5adc3c40750bdd80",
    "release: score": "50076e411b64a68d",
    "release: description": "d05d8764eb8c5f19",
    "release: statistics": "39948e85f17dedf8",
    "release: subsample": "24f9ba42b89e967a",
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_keeps_its_name_and_is_read_back(name):
    query = QUERIES[name]
    assert hashlib.sha256(query.to_json().encode()).hexdigest()[:16] == PINNED[f"query: {name}"]
    assert query_from_json(query.to_json()) == query


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_keeps_its_name_and_is_read_back(name):
    release = RELEASES[name]
    assert release.sha256[:16] == PINNED[f"release: {name}"]
    assert release_from_json(release.to_json()) == release


def test_names_of_mechanisms_are_kept_so_that_recorded_releases_can_be_read():
    names = "\n".join(sorted(MechanismName))
    assert hashlib.sha256(names.encode()).hexdigest()[:16] == "e7a7c51a6f16dde8"


def test_every_kind_that_a_site_answers_is_here():
    assert {each.kind.partition("/")[0] for each in QUERIES.values()} == FAMILIES.keys()
