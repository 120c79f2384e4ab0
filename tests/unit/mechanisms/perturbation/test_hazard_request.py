"""The cap and the radius that public people recommend for a private hazard fit."""

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.perturbation import hazard_request as hazard_objective

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    grade3=hdp.Binary(complete=True),
    hormon=hdp.Binary(complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    time=hdp.Duration(2557, complete=True),
    event=hdp.Binary(complete=True),
)


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
