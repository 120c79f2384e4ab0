"""Compile loops before processes start that would all compile them at once: ``make test`` runs this."""

import hdpstats.api as hdp
from hdpstats.papers import nguyen_hui
from tests import forked


def compile_loops() -> None:
    """Fit models as users do, with noise: to private rows beside public ones."""
    forked.load_compiled_code()
    columns = {"age": hdp.Continuous(20, 90), "event": hdp.Binary(), "time": hdp.Duration(2557)}
    rotterdam, gbsg = hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg()
    study = hdp.Study(private=rotterdam, public=gbsg, schema=hdp.Schema(columns), budget=hdp.Budget(epsilon=9))
    hdp.warm_up()
    hdp.hybrid_weights(study, ["age", "event"], epsilon=1, select=True)
    patients = nguyen_hui.prepare(gbsg, time="time", event="event", covariates=["age"], intervals=12)
    nguyen_hui.objective_perturbation(patients, epsilon=1, regularisation=1.0, seed=1, draws=1)
    nguyen_hui.psgld(patients, epsilon=1, seed=1, steps=2)


if __name__ == "__main__":
    compile_loops()
