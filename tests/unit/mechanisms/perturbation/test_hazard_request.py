"""The cap and the radius that public people recommend for a private hazard fit."""

from fractions import Fraction

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms.perturbation import hazard_request as hazard_objective
from hdpstats.mechanisms.perturbation.request import Asked
from hdpstats.privacy.hazard_sensitivity import hazard_noise
from hdpstats.privacy.sensitivity import Relation

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    grade3=hdp.Binary(complete=True),
    hormon=hdp.Binary(complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    time=hdp.Duration(2557, complete=True),
    event=hdp.Binary(complete=True),
)


@pytest.mark.wide
def test_a_baseline_that_nobody_can_estimate_does_not_spoil_the_slopes(monkeypatch):
    """Follow-up hardly reaches the last years; a sum of variances in any one basis is a sum of theirs."""
    study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=SCHEMA)
    formula = "Surv(time, event) ~ age + size + grade3 + log1p(nodes) + hormon"
    chosen = hdpf.hazard(formula, study, intervals=28, link="cloglog").plan(1, n=3000).frame["std_error"][4:]
    best = []
    for margin in hazard_objective.MARGINS:
        with monkeypatch.context() as patch:
            patch.setattr(hazard_objective, "MARGINS", (margin,))
            plan = hdpf.hazard(formula, study, intervals=28, link="cloglog").plan(1, n=3000)
        best.append(plan.frame["std_error"][4:].mean())
    assert max(best) > 1.1 * min(best)
    assert chosen.mean() < 1.03 * min(best)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_a_ridge_is_the_least_at_which_so_much_noise_is_certified(link: str, relation: Relation) -> None:
    study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=SCHEMA)
    spec, epsilon = hdpf.hazard("Surv(time, event) ~ age", study, intervals=6, link=link)._spec, Fraction(1)
    model = spec.choose_model([Asked(records=3000, epsilon=epsilon)], share=Fraction(0))
    person_loss = spec.person_loss(model)
    bounds = person_loss.bounds

    def certified(ridge: float) -> float:
        try:
            return float(hazard_noise(bounds, epsilon=epsilon, curvature=1 / Fraction(ridge), relation=relation))
        except MechanismError:
            return 0.0

    for share in hazard_objective.LEFT:
        wanted = share / (relation.persons_changed * bounds.gradient_bound)
        ridge = hazard_objective.free_ridge(person_loss, epsilon=epsilon, share=share, relation=relation)
        assert certified(ridge) >= wanted * (1.0 - 1e-12)
        assert certified(ridge / 1.011) < wanted
