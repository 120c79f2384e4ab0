"""Regressions of people with several rows: what public fits compute, and private fits from charge to table."""

import subprocess
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.registry import query_from_json
from tests import known_noise

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-3, 3),
    z=hdp.Binary(complete=True),
    y=hdp.Binary(complete=True),
    v=hdp.Continuous(-5, 5),
    k=hdp.Continuous(0, 9),
    w=hdp.Weight(2, complete=True),
    o=hdp.Offset(-1, 1, complete=True),
    two=hdp.Categorical(["no", "yes"], complete=True),
    three=hdp.Categorical(["none", "mild", "severe"], complete=True),
)
CORRELATIONS = {"person": 1.0, 0.4: 0.4, "independence": 0.0}


def visits(people, seed, *, rho=0.3, most=6):
    """Return people with 1 to ``most`` rows, outcomes correlated within a person."""
    rng = np.random.default_rng(seed)
    whose = np.repeat(np.arange(people), rng.integers(1, most + 1, people))
    x, z = rng.normal(size=len(whose)).clip(-3, 3).round(3), rng.integers(0, 2, people)[whose]
    own = np.sqrt(rho) * rng.normal(size=people)[whose] + np.sqrt(1 - rho) * rng.normal(size=len(whose))
    eta = -0.3 + 0.8 * x - 0.5 * z
    return pd.DataFrame(
        {
            "id": whose,
            "x": x,
            "z": z,
            "y": (stats.norm.cdf(own) < 1 / (1 + np.exp(-eta))).astype(int),
            "v": (eta + own).clip(-5, 5).round(3),
            "k": stats.poisson.ppf(stats.norm.cdf(own), np.exp(0.3 * x)).clip(0, 9),
            "w": rng.choice([0.5, 1.0, 2.0], len(whose)),
            "two": np.where(stats.norm.cdf(own) < 1 / (1 + np.exp(-eta)), "yes", "no"),
            "three": np.array(["none", "mild", "severe"])[(own > eta).astype(int) + (own > eta + 1.0)],
            "o": rng.uniform(-0.5, 0.5, len(whose)).round(2),
        }
    )


PUBLIC, PRIVATE = visits(120, 1), visits(1500, 2)


def study_of(private=PRIVATE, public=PUBLIC, **more):
    terms = {"unit": "id", "max_rows_per_unit": 6, "n_max": 1500, "budget": hdp.Budget(epsilon=40, delta=1e-5), **more}
    if private is None:
        terms.pop("budget")
    return hdp.Study(private=private, public=public, schema=SCHEMA, **terms)


FAMILIES = {
    "y ~ x + z": (hdpf.logit, sm.families.Binomial(), "binomial"),
    "v ~ x + z": (hdpf.linear, sm.families.Gaussian(), "gaussian"),
    "k ~ x + z": (hdpf.poisson, sm.families.Poisson(), "poisson"),
}


def cluster_weights(frame, r):
    return 1.0 / (1.0 + (frame.groupby("id")["id"].transform("size") - 1) * r)


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("formula", FAMILIES)
def test_a_public_fit_is_gee_with_an_independence_working_correlation(formula, correlation):
    model, family, _ = FAMILIES[formula]
    ours = model(formula, study_of(None), correlation=correlation).fit_public()
    theirs = sm.GEE.from_formula(
        formula,
        groups="id",
        data=PUBLIC,
        family=family,
        cov_struct=sm.cov_struct.Independence(),
        weights=cluster_weights(PUBLIC, CORRELATIONS[correlation]),
    ).fit()
    assert ours.params.to_numpy() == pytest.approx(theirs.params.to_numpy(), abs=1e-8)
    assert ours.cov_params().to_numpy() == pytest.approx(np.asarray(theirs.cov_params()), abs=1e-8)


R_SCRIPT = """
d <- read.csv("{file}")
for (formula in c("y ~ x + z", "v ~ x + z", "k ~ x + z")) for (r in c(1, 0.4, 0)) {{
  d$g <- 1 / (1 + (ave(d$id, d$id, FUN = length) - 1) * r)
  family <- list(y = binomial, v = gaussian, k = poisson)[[substr(formula, 1, 1)]]
  fit <- suppressWarnings(geepack::geeglm(as.formula(formula), family, d, weights = g, id = id, corstr = "independence",
    control = geepack::geese.control(epsilon = 1e-12, maxit = 50)))
  cat("geepack", formula, r, sprintf("%.15g", c(coef(fit), vcov(fit))), "\\n", sep = ";")
  design <- survey::svydesign(ids = ~id, weights = ~g, data = d)
  closely <- glm.control(epsilon = 1e-14, maxit = 50)
  fit <- suppressWarnings(survey::svyglm(as.formula(formula), design, family = family, control = closely))
  cat("survey", formula, r, sprintf("%.15g", c(coef(fit), vcov(fit))), "\\n", sep = ";")
  fit <- suppressWarnings(glm(as.formula(formula), family, d, weights = g, control = closely))
  if (formula == "v ~ x + z") fit <- lm(as.formula(formula), d, weights = g)
  own <- if (formula == "v ~ x + z") rep(1, nrow(d)) else fit$family$variance(fitted(fit))
  V <- clubSandwich::vcovCR(fit, cluster = d$id, type = "CR2", target = own, inverse_var = FALSE)
  cat("CR2", formula, r, sprintf("%.15g", c(coef(fit), V)), "\\n", sep = ";")
}}
"""


@pytest.fixture(scope="module")
def of_r(tmp_path_factory):
    """Return what R's geepack, survey and clubSandwich compute, by package, formula and correlation."""
    wanted = "library(geepack); library(clubSandwich); library(survey)"
    if subprocess.run(["Rscript", "-e", wanted], capture_output=True).returncode:
        pytest.skip("R has no geepack, clubSandwich and survey here")
    file = tmp_path_factory.mktemp("r") / "visits.csv"
    PUBLIC.to_csv(file, index=False)
    code = R_SCRIPT.format(file=file)
    done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=True)
    lines = [line.split(";") for line in done.stdout.splitlines() if line]
    return {
        (package, formula, float(r)): np.array(list(map(float, filter(str.strip, numbers))))
        for package, formula, r, *numbers in lines
    }


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("formula", FAMILIES)
def test_a_public_fit_is_that_of_geepack(of_r, formula, correlation):
    ours = FAMILIES[formula][0](formula, study_of(None), correlation=correlation).fit_public()
    theirs = of_r["geepack", formula, CORRELATIONS[correlation]]
    assert [*ours.params, *ours.cov_params().to_numpy().ravel()] == pytest.approx(theirs, abs=1e-8)


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("formula", FAMILIES)
def test_errors_over_people_are_those_of_svyglm_after_its_factor(of_r, formula, correlation):
    ours = FAMILIES[formula][0](formula, study_of(None), correlation=correlation).fit_public()
    theirs = of_r["survey", formula, CORRELATIONS[correlation]]
    people = PUBLIC["id"].nunique()
    assert ours.params.to_numpy() == pytest.approx(theirs[:3], abs=1e-8)
    assert ours.cov_params().to_numpy().ravel() * people / (people - 1) == pytest.approx(theirs[3:], abs=1e-8)


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("formula", FAMILIES)
def test_errors_for_few_people_are_cr2_of_clubsandwich(of_r, formula, correlation):
    """The working variance is that of the model, whatever the number of a person's rows makes of a row."""
    model = FAMILIES[formula][0](formula, study_of(None), correlation=correlation)
    ours, theirs = model.fit_public(small_sample=True), of_r["CR2", formula, CORRELATIONS[correlation]]
    assert [*ours.params, *ours.cov_params().to_numpy().ravel()] == pytest.approx(theirs, abs=1e-8)
    assert (ours.bse > model.fit_public().bse).all()


@pytest.mark.parametrize("small_sample", [False, True])
@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_of_two_levels_a_multinomial_fit_is_a_logistic_one(correlation, small_sample):
    study = study_of(None)
    levels = hdpf.multinomial("two ~ x + z", study, correlation=correlation).fit_public(small_sample=small_sample)
    binary = hdpf.logit("y ~ x + z", study, correlation=correlation).fit_public(small_sample=small_sample)
    assert levels.params.to_numpy() == pytest.approx(binary.params.to_numpy(), abs=1e-8)
    assert levels.cov_params().to_numpy() == pytest.approx(binary.cov_params().to_numpy(), abs=1e-8)


def test_errors_of_a_multinomial_fit_are_a_sandwich_of_people():
    fit = hdpf.multinomial("three ~ x + z", study_of(None), correlation=0.4).fit_public()
    X, w = sm.add_constant(PUBLIC[["x", "z"]].to_numpy()), cluster_weights(PUBLIC, 0.4).to_numpy()
    eta = np.column_stack([np.zeros(len(X)), X @ fit.params.to_numpy().reshape(2, 3).T])
    p = (np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True))[:, 1:]
    outcome = PUBLIC["three"].to_numpy()[:, None] == np.array(["mild", "severe"])
    scores = (w[:, None, None] * (p - outcome)[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    assert np.abs(scores.sum(axis=0)).max() < 1e-8
    A = sum(
        weight * np.kron(np.diag(each) - np.outer(each, each), np.outer(x, x))
        for weight, each, x in zip(w, p, X, strict=True)
    )
    of_people = pd.DataFrame(scores).groupby(PUBLIC["id"]).sum().to_numpy()
    inverse = np.linalg.inv(A)
    assert fit.cov_params().to_numpy() == pytest.approx(inverse @ of_people.T @ of_people @ inverse, abs=1e-8)


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_private_multinomial_fit_to_two_levels_is_near_the_logistic_one(monkeypatch, relation):
    known_noise.off(monkeypatch)
    study = study_of(relation=relation)
    levels = hdpf.multinomial("two ~ x + z", study).fit(epsilon=4).private_only
    binary = hdpf.logit("y ~ x + z", study).fit(epsilon=4).private_only
    assert np.abs((levels.params.to_numpy() - binary.params.to_numpy()) / binary.bse.to_numpy()).max() < 1.0
    assert levels.bse.to_numpy() == pytest.approx(binary.bse.to_numpy(), rel=0.5)
    three = hdpf.multinomial("three ~ x + z", study, correlation="independence").fit(epsilon=8)
    assert three.bse.notna().all()


def test_small_sample_is_for_people_with_several_rows():
    with pytest.raises(hdp.ArgumentError, match="small_sample"):
        hdpf.logit("y ~ x", hdp.Study(public=PUBLIC, schema=SCHEMA)).fit_public(small_sample=True)


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("formula", FAMILIES)
def test_without_noise_a_fit_is_near_the_ordinary_fit_to_the_same_rows(monkeypatch, formula, relation):
    known_noise.off(monkeypatch)
    model, family, _ = FAMILIES[formula]
    for correlation, r in CORRELATIONS.items():
        fit = model(formula, study_of(relation=relation), correlation=correlation).fit(epsilon=2)
        ordinary = sm.GLM.from_formula(formula, PRIVATE, family=family, freq_weights=cluster_weights(PRIVATE, r)).fit()
        apart = (fit.private_only.params - ordinary.params.to_numpy()) / fit.private_only.bse
        assert np.abs(apart).max() < 1.0
        assert fit.private_only.bse.notna().all()


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("formula", FAMILIES)
def test_clipped_scores_of_rows_without_noise_give_the_ordinary_fit(monkeypatch, formula, correlation, relation):
    known_noise.off(monkeypatch)
    model, family, _ = FAMILIES[formula]
    ours = model(formula, study_of(relation=relation), correlation=correlation)
    fit = ours.fit(epsilon=2, delta=1e-6, mechanism="clipped_newton").private_only
    weights = cluster_weights(PRIVATE, CORRELATIONS[correlation])
    ordinary = sm.GLM.from_formula(formula, PRIVATE, family=family, freq_weights=weights).fit()
    assert np.abs((fit.params - ordinary.params.to_numpy()) / fit.bse).max() < 1.0


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("formula", FAMILIES)
def test_plans_of_clipped_scores_are_what_fits_report_where_people_are_alike(monkeypatch, formula, correlation):
    known_noise.off(monkeypatch)
    public, asked = visits(600, 21), {"epsilon": 2, "delta": 1e-6, "mechanism": "clipped_newton"}
    model = FAMILIES[formula][0](formula, study_of(public=public), correlation=correlation)
    planned, fit = model.plan(**asked).frame["private_only"], model.fit(**asked)
    ratio = planned.to_numpy() / fit.private_only.bse.to_numpy()
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.1)
    assert ratio == pytest.approx(np.ones(3), abs=0.15)


def test_errors_of_clipped_scores_count_how_rows_of_a_person_go_together(monkeypatch):
    """Errors by sampling are those of a sandwich over public people, for as many as there are private ones."""
    known_noise.off(monkeypatch)
    public, private = visits(400, 11, rho=0.8), visits(1500, 12, rho=0.8)
    model = hdpf.logit("y ~ x + z", study_of(private, public), correlation="independence")
    fit = model.fit(epsilon=4, delta=1e-6, mechanism="clipped_newton", describe=False)
    sandwich = sm.GEE.from_formula(
        "y ~ x + z", groups="id", data=public, family=sm.families.Binomial(), cov_struct=sm.cov_struct.Independence()
    ).fit()
    known = sandwich.bse.to_numpy() * np.sqrt(400 / 1500)
    ratio = np.sqrt(np.diag(fit.private_only.sampling)) / known
    assert ratio.min() > 0.92
    assert ratio.max() < 1.08
    rows = sm.GLM.from_formula("y ~ x + z", public, family=sm.families.Binomial()).fit()
    assert sandwich.bse.to_numpy()[2] > 1.3 * rows.bse.to_numpy()[2]  # were rows people, they would be too small


def test_clipped_scores_of_two_levels_are_the_logistic_ones_at_several_sites(monkeypatch):
    known_noise.off(monkeypatch)
    sites, asked = {"A": visits(600, 3), "B": visits(900, 4)}, {"delta": 1e-6, "mechanism": "clipped_newton"}
    fits = [
        model(study_of(sites, n_max={"A": 600, "B": 900}, budget=hdp.Budget(epsilon=3, delta=1e-5))).fit(
            epsilon=2, **asked
        )
        for model in (lambda data: hdpf.logit("y ~ x + z", data), lambda data: hdpf.multinomial("two ~ x + z", data))
    ]
    assert fits[0].private_only.params.to_numpy() == pytest.approx(fits[1].private_only.params.to_numpy(), abs=0.02)
    assert fits[0].private_only.bse.to_numpy() == pytest.approx(fits[1].private_only.bse.to_numpy(), rel=0.05)
    again = hdp.Result.from_json(fits[0].to_json())
    assert again.facts.several_rows == fits[0].facts.several_rows
    assert "the average person" in str(again.summary())


def test_clipped_rows_with_weights_and_missing_cells(monkeypatch):
    known_noise.off(monkeypatch)
    private = PRIVATE.copy()
    private.loc[private.index % 7 == 0, "x"] = np.nan
    model = hdpf.logit("y ~ x + z", study_of(private), weights="w", offset="o", correlation=0.4)
    fit, whole = model.fit(epsilon=3, delta=1e-6, mechanism="clipped_newton"), private.dropna()
    g = cluster_weights(whole, 0.4) * whole["w"]
    ordinary = sm.GLM.from_formula("y ~ x + z", whole, family=sm.families.Binomial(), freq_weights=g, offset=whole["o"])
    apart = (fit.private_only.params - ordinary.fit().params.to_numpy()) / fit.private_only.bse
    assert np.abs(apart).max() < 1.0


def test_clipped_rows_need_public_people_who_are_told_apart():
    study = study_of(public=PUBLIC.drop(columns="id"))
    with pytest.raises(hdp.MechanismError, match=r"whose rows say whose they are.*'objective'"):
        hdpf.logit("y ~ x + z", study).fit(epsilon=1, delta=1e-6, mechanism="clipped_newton")
    assert study.ledger.spent.epsilon == 0


def test_weights_offsets_and_missing_cells(monkeypatch):
    known_noise.off(monkeypatch)
    private = PRIVATE.copy()
    private.loc[private.index % 7 == 0, "x"] = np.nan
    model = hdpf.logit("y ~ x + z", study_of(private), weights="w", offset="o", correlation="person")
    fit, whole = model.fit(epsilon=3), private.dropna()
    g = cluster_weights(whole, 1.0) * whole["w"]
    ordinary = sm.GLM.from_formula("y ~ x + z", whole, family=sm.families.Binomial(), freq_weights=g, offset=whole["o"])
    apart = (fit.private_only.params - ordinary.fit().params.to_numpy()) / fit.private_only.bse
    assert np.abs(apart).max() < 1.0
    assert fit.facts.records < 1500


def test_a_fit_is_replayed_stored_and_told():
    study = study_of()
    model = hdpf.logit("y ~ x + z", study, correlation=0.4)
    fit = model.fit(epsilon=1)
    assert float(study.ledger.spent.epsilon) == 1.0
    assert hdpf.logit("y ~ z + x", study, correlation=0.4).fit(epsilon=1).release == fit.release
    assert float(study.ledger.spent.epsilon) == 1.0
    hdpf.logit("y ~ x + z", study, correlation="person").fit(epsilon=1)
    assert 1.9 < float(study.ledger.spent.epsilon) <= 2.0  # they share the number of people
    again = hdp.Result.from_json(fit.to_json())
    assert again.facts.several_rows == fit.facts.several_rows
    for words in (str(fit.summary()), again.methods_text()):
        assert "r = 0.4" in words
    text = str(fit.summary())
    assert "120 people" in text
    assert "No. private people" in text
    assert "Private rows:" in text
    told = fit.facts.several_rows
    assert told.rows == pytest.approx(len(PRIVATE), abs=6 * told.rows_sd)
    assert f"They had {told.rows:.0f} such rows" in again.methods_text()
    assert "'id'" in str(again.disclosure())
    assert np.isfinite(np.asarray(fit.predict(PUBLIC.head(3)))).all()
    assert np.isfinite(fit.wald_test("x = 0").pvalue)


def test_a_description_counts_people_and_rows():
    study = study_of(pd.concat([PRIVATE, PRIVATE[PRIVATE["id"] == 3].head(1)]), n_max=1500)
    description = hdp.describe(study, ["x", "z"], epsilon=4)
    frame = description.tidy()
    named = frame[frame["statistic"] == "rows"].iloc[0]
    assert named["estimate"] == pytest.approx(len(PRIVATE), abs=6 * named["std_error"] + 1)
    shares = frame[frame["variable"] == "number of rows"]
    assert shares["level"].tolist() == ["1", "2", "3-4", "5-6"]
    numbers = PRIVATE.groupby("id").size().to_numpy()
    exact = [np.mean((numbers > low) & (numbers <= high)) for low, high in ((0, 1), (1, 2), (2, 4), (4, 6))]
    assert np.abs(shares["estimate"].to_numpy() - exact).max() < 6 * shares["std_error"].max()
    assert [name.strip() for name in description.first_table().names[:4]] == ["n", "rows", "rows of a person", "1"]
    assert {"rows"} <= set(hdp.describe(study, ["x"]).plan(epsilon=1).frame["statistic"])
    assert hdp.Description.from_json(description.to_json()).tidy().equals(frame)
    weighted = hdp.describe(study, ["x"], weights="w", epsilon=1)
    assert "rows" not in set(weighted.tidy()["statistic"])


def test_private_people_who_have_more_rows_are_not_taken_for_public_ones(monkeypatch):
    known_noise.off(monkeypatch)
    rng = np.random.default_rng(4)
    few = PUBLIC[PUBLIC.groupby("id").cumcount() < rng.choice([1, 1, 1, 6], 120)[PUBLIC["id"]]]
    found = {}
    for described in (True, False):
        fit = hdpf.logit("y ~ x + z", study_of(public=few)).fit(epsilon=4, describe=described, se_share=0)
        found[described] = fit.private_only.bse.to_numpy()
    assert few.groupby("id").size().mean() < 2.6  # of private people 3.5: a mean of more rows varies less
    assert (found[True] < 0.97 * found[False])[:2].all()


@pytest.mark.wide
def test_many_people_tell_themselves_how_their_rows_correlate(monkeypatch):
    known_noise.off(monkeypatch)
    public, private = visits(120, 1, rho=0.0), visits(8000, 50, rho=0.8)
    truth = sm.GEE.from_formula(
        "y ~ x + z",
        groups="id",
        data=private,
        family=sm.families.Binomial(),
        cov_struct=sm.cov_struct.Independence(),
        weights=cluster_weights(private, 1.0),
    ).fit()
    ratios = {}
    for name, options in (("own", {}), ("public", {"se_share": 0})):
        fit = hdpf.logit("y ~ x + z", study_of(private, public, n_max=8000)).fit(epsilon=3, **options)
        assert (fit.query.sandwich is None) == (name == "public")
        ratios[name] = np.sqrt(np.diag(fit.private_only.sampling)) / truth.bse.to_numpy()
    assert ratios["public"][[0, 2]].max() < 0.85  # public rows of a person are not correlated
    assert ratios["own"].min() > 0.95
    assert ratios["own"].max() < 1.35


def test_results_of_different_correlations_are_not_combined():
    fits = {}
    for name, seed, correlation in (("A", 3, "person"), ("B", 4, "independence"), ("C", 5, "person")):
        study = study_of(visits(600, seed), n_max=600)
        fits[name] = hdpf.logit("y ~ x + z", study, correlation=correlation).fit(epsilon=3)
    with pytest.raises(hdp.ArgumentError, match="one model"):
        hdp.aggregate({name: fits[name] for name in "AB"})
    assert hdp.aggregate({name: fits[name] for name in "AC"}).params.notna().all()


def test_several_sites():
    sites = {"A": visits(600, 3), "B": visits(900, 4)}
    budget = hdp.Budget(epsilon=3)
    fit = hdpf.linear("v ~ x + z", study_of(sites, n_max={"A": 600, "B": 900}, budget=budget)).fit(epsilon=2)
    assert fit.bse.notna().all()


@pytest.mark.wide
def test_without_public_people_errors_hold_for_any_correlation_within_a_person():
    study = study_of(visits(6000, 6), None, n_max=6000)
    fit = hdpf.logit("y ~ x + z", study).fit(epsilon=8)
    assert fit.bse.notna().all()
    assert "any correlation" in fit.facts.method
    alone = PUBLIC.drop(columns="id")
    fit = hdpf.logit("y ~ x + z", study_of(visits(6000, 6), alone, n_max=6000)).fit(epsilon=8)
    assert fit.bse.notna().all()
    assert "any correlation" in fit.facts.method


def test_a_refusal_names_both_remedies():
    few = study_of(visits(200, 6), PUBLIC.drop(columns="id"), n_max=200)
    with pytest.raises(hdp.ArgumentError, match=r"column 'id'.*se_share"):
        hdpf.logit("y ~ x + z", few).fit(epsilon=0.1)
    assert few.ledger.spent.epsilon == 0


@pytest.mark.wide
def test_a_loss_of_ones_own_takes_several_rows(monkeypatch):
    known_noise.off(monkeypatch)
    own = hdp.losses.Loss(
        value=lambda eta, y: 0.5 * (eta - y) ** 2,
        score=lambda eta, y: eta - y,
        lipschitz=11.0,
        smoothness=1.0,
        residual=(-11.0, 11.0),
    )
    study = study_of()
    ours = hdpf.mestimate("v ~ x + z", study, loss=own, correlation=0.4)
    squares = hdpf.linear("v ~ x + z", study, correlation=0.4)
    assert ours.fit_public().params.to_numpy() == pytest.approx(squares.fit_public().params.to_numpy(), abs=1e-6)
    assert ours.fit_public().bse.to_numpy() == pytest.approx(squares.fit_public().bse.to_numpy(), rel=1e-6)
    fits = [each.fit(epsilon=4).private_only for each in (ours, squares)]
    assert np.abs((fits[0].params - fits[1].params.to_numpy()) / fits[1].bse.to_numpy()).max() < 1.0


def test_rows_in_several_files_are_refused_and_those_in_one_are_read(tmp_path):
    PRIVATE.head(2000).to_parquet(tmp_path / "1.parquet")
    PRIVATE.tail(len(PRIVATE) - 2000).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(hdp.ArgumentError, match=r"several rows \(unit=\).*partitions.*name one file"):
        study_of(str(tmp_path))
    PRIVATE.to_parquet(tmp_path / "one.parquet")
    fits = []
    for private in (str(tmp_path / "one.parquet"), PRIVATE):
        known = study_of(private)
        fits.append(hdpf.logit("y ~ x + z", known).fit(epsilon=2, describe=False, se_share=0))
    assert fits[0].query == fits[1].query


@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_effects_are_averaged_as_the_model_weights_people(correlation):
    study = study_of(None)
    fit = hdpf.logit("y ~ x + z", study, correlation=correlation).fit_public()
    w, b = cluster_weights(PUBLIC, CORRELATIONS[correlation]), fit.params.to_numpy()
    share = (w / w.sum()).to_numpy()
    risks = [1 / (1 + np.exp(-(b[0] + b[1] * PUBLIC["x"] + b[2] * z))) for z in (0, 1)]
    apart = (risks[1] - risks[0]).to_numpy()
    effects = fit.average_effects("z", values=[0, 1])
    own = effects.frame[effects.frame["effect"] == "risk difference"].iloc[0]
    assert own["estimate"] == pytest.approx(share @ apart, abs=1e-9)
    of_people = pd.Series(share * (apart - share @ apart)).groupby(PUBLIC["id"]).sum()
    assert own["frame_error"] == pytest.approx(np.sqrt((of_people**2).sum()), rel=1e-6)
    alike = fit.average_effects("z", over=PUBLIC, values=[0, 1]).frame["estimate"].iloc[0]
    assert (alike == pytest.approx(own["estimate"], abs=1e-12)) == (correlation == "independence")


@pytest.mark.wide
def test_a_plan_shows_the_correlations_side_by_side():
    plan = hdpf.logit("y ~ x + z", study_of(None), correlation=0.4).plan(epsilon=[0.5, 1])
    assert plan.correlations["correlation"].unique().tolist() == [1.0, 0.4, 0.0]
    assert plan.correlations["total"].unique().tolist() == pytest.approx([1.0, 2.0, 6.0])
    assert "r=0.4 (W=2)" in str(plan)
    assert "not by the error" in plan._repr_html_()
    asked = plan.correlations[plan.correlations["correlation"] == 0.4]["std_error"]
    assert asked.to_numpy() == pytest.approx(plan.frame["std_error"].to_numpy())
    assert hdpf.logit("y ~ x", hdp.Study(public=PUBLIC, schema=SCHEMA)).plan(epsilon=1, n=500).correlations is None


def test_a_fit_beyond_the_declared_number_of_people_is_used_and_certified(monkeypatch):
    known_noise.off(monkeypatch)
    fits = [hdpf.logit("y ~ x + z", study_of(n_max=n)).fit(epsilon=2, se_share=0) for n in (1500, 1000)]
    assert fits[0].params.to_numpy() == pytest.approx(fits[1].params.to_numpy(), abs=0.2)


def test_a_query_says_how_rows_count_and_is_silent_where_people_have_one():
    several = hdpf.logit("y ~ x", study_of(None), correlation=0.4)._spec
    alone = hdpf.logit("y ~ x", hdp.Study(public=PUBLIC, schema=SCHEMA))._spec
    asked = {"epsilon": Fraction(1), "records": 1500, "share": Fraction(0), "replicate": 1}
    query = several.ask(**asked)
    assert '"correlation":0.4' in query.to_json().replace(" ", "")
    assert query_from_json(query.to_json()) == query
    assert "correlation" not in alone.ask(**asked).to_json()
