"""A paragraph for the methods section of a paper: the model, the guarantee, the mechanism, the intervals, the sources.

Every statement is of a public fact of the result; what holds for private rows alone is not said of public fits.
"""

from typing import TYPE_CHECKING, Final

from hdpstats import __version__
from hdpstats.losses import LINKS
from hdpstats.privacy.budget import Guarantee, MechanismName, decimal
from hdpstats.records.several import answers_in
from hdpstats.results.facts import ModelFacts
from hdpstats.results.fitted import design_of

if TYPE_CHECKING:
    from hdpstats.results.result import Result

_OBJECTIVE: Final = (
    "Chaudhuri K, Monteleoni C, Sarwate AD (2011). Differentially private empirical risk minimization. "
    "Journal of Machine Learning Research 12, 1069-1109."
)
_HYBRID: Final = (
    "Nguyen TT, Hui SC (2017). Differentially private regression for discrete-time survival analysis. "
    "Proceedings of CIKM 2017."
)
_NEWTON: Final = (
    "Ji Z, Jiang X, Wang S, Xiong L, Ohno-Machado L (2014). Differentially private distributed logistic regression "
    "using private and public data. BMC Medical Genomics 7(S1), S14."
)
_COUNT: Final = (
    "Ghosh A, Roughgarden T, Sundararajan M (2012). Universally utility-maximizing privacy mechanisms. "
    "SIAM Journal on Computing 41, 1673-1693."
)
_CLIPPED: Final = (
    "Abadi M, Chu A, Goodfellow I, et al. (2016). Deep learning with differential privacy. CCS '16, 308-318."
)
_HISTOGRAM: Final = (
    "Lei J (2011). Differentially private M-estimators. Advances in Neural Information Processing Systems 24."
)
_EXPONENTIAL: Final = "McSherry F, Talwar K (2007). Mechanism design via differential privacy. FOCS '07, 94-103."
_GEOMETRY: Final = "Hardt M, Talwar K (2010). On the geometry of differential privacy. STOC '10, 705-714."
_SUBSAMPLE: Final = "Smith A (2008). Efficient, differentially private point estimators. arXiv:0809.4794."
_PRIVACY: Final = (
    "Dwork C, McSherry F, Nissim K, Smith A (2006). Calibrating noise to sensitivity in private data analysis. "
    "TCC 2006, 265-284."
)
_POOLING: Final = "Hedges LV, Olkin I (1985). Statistical Methods for Meta-Analysis. Academic Press."
_RAKING: Final = (
    "Deville J-C, Sarndal C-E (1992). Calibration estimators in survey sampling. Journal of the American Statistical "
    "Association 87, 376-382."
)
_HAZARDS: Final = "Tutz G, Schmid M (2016). Modeling Discrete Time-to-Event Data. Springer."

SOURCES: Final = {
    MechanismName.OBJECTIVE: (_OBJECTIVE, _HYBRID),
    MechanismName.OBJECTIVE_DETERMINANT: (_OBJECTIVE, _HYBRID),
    MechanismName.GAUSSIAN_OBJECTIVE: (_OBJECTIVE, _HYBRID),
    MechanismName.OUTPUT: (_OBJECTIVE, _HYBRID),
    MechanismName.GAUSSIAN_OUTPUT: (_OBJECTIVE, _HYBRID),
    MechanismName.GRADIENT: (_NEWTON,),
    MechanismName.GRADIENT_PURE: (_NEWTON,),
    MechanismName.SCORE: (_CLIPPED,),
    MechanismName.SCORE_PURE: (_CLIPPED,),
    MechanismName.SAMPLING: (_EXPONENTIAL,),
    MechanismName.COUNT: (_COUNT,),
    MechanismName.HISTOGRAM: (_HISTOGRAM,),
    MechanismName.GAUSSIAN_HISTOGRAM: (_HISTOGRAM,),
    MechanismName.DESCRIPTION: (_GEOMETRY,),
    MechanismName.SUBSAMPLE: (_SUBSAMPLE,),
}
"""What a methods section cites for each mechanism."""

FAMILIES: Final = {
    "Logit": "Logistic regression",
    "Linear": "Linear regression",
    "Quantile": "Quantile regression",
    "DiscreteHazard": "A discrete-time hazard model",
}
"""What models are called in a sentence."""


def methods_text(result: "Result") -> str:
    """Return the paragraph and the references below it."""
    facts, guarantee = result.facts, result.guarantee
    sentences = [_model(facts)]
    sentences += [_public(result)] if guarantee is None else _private(result, guarantee)
    sentences.append(f"Computed with hdpstats {__version__}.")
    references = "\n".join(f"- {each}" for each in references_of(result))
    return " ".join(sentences) + (f"\n\nReferences\n\n{references}" if references else "")


def references_of(result: "Result") -> tuple[str, ...]:
    """Return what the paragraph rests on, each once."""
    found = [_HAZARDS] if result.facts.hazard is not None else []
    if result.guarantee is not None:
        releases = [each for whole in (result.count, result.release) if whole is not None for each in answers_in(whole)]
        found.append(_PRIVACY)
        found += [source for each in releases for event in each.events for source in SOURCES.get(event.ran, ())]
        found += [_POOLING] if result.pooled is not None else []
        found += [] if result.released.description is None else [_GEOMETRY, _RAKING]
    return tuple(dict.fromkeys(found))


def _model(facts: ModelFacts) -> str:
    if facts.hazard is None:
        return f"{FAMILIES.get(facts.model, facts.model)} was fitted with the formula {facts.formula}."
    hazard = facts.hazard
    unit = f" {hazard.unit_of_time}" if hazard.unit_of_time else ""
    causes = f", cause-specific for {', '.join(hazard.causes)}" if len(hazard.causes) > 1 else ""
    return (
        f"{FAMILIES.get(facts.model, facts.model)} with the {hazard.link} link, {hazard.grid.intervals} intervals up "
        f"to {hazard.grid.horizon:.6g}{unit} and a baseline of {len(hazard.baseline_names)} coefficients{causes} was "
        f"fitted with the formula {facts.formula}; coefficients of covariates are {LINKS[hazard.link].scale}."
    )


def _public(result: "Result") -> str:
    rows = "" if result.facts.public_rows is None else f" ({result.facts.public_rows} complete rows)"
    return f"It is an ordinary fit to public data{rows}; no private record was used."


def _left_out(result: "Result") -> list[str]:
    """Return that records with missing cells were left out, where the schema lets cells be missing."""
    read = [name for name in design_of(result).needs if name in result.schema] if result.facts.family is None else []
    holes = [name for name in read if result.schema[name].leaves_out]
    if not holes:
        return []
    return [f"Records without a value of {', '.join(holes)} were left out."]


def _described(result: "Result") -> list[str]:
    """Return which description of the private people standard errors rest on, and what it cost."""
    known = result.released.description
    if known is None:
        return []
    columns = dict.fromkeys(column.name for _, query in known.queries for column in query.columns)
    cost = decimal(max(query.epsilon for _, query in known.queries))
    charged = f"part of this loss, epsilon = {cost}" if known.charged else f"charged before, epsilon = {cost} besides"
    return [
        f"Standard errors rest on noisy averages of {', '.join(columns)} among the private people ({charged}), to "
        "which the public rows were raked."
    ]


def _private(result: "Result", guarantee: Guarantee) -> list[str]:
    """Return what was protected how, what was used, and what intervals count."""
    facts, estimate = result.facts, result.estimate
    loss = f"epsilon = {decimal(guarantee.epsilon)}" + (
        "" if guarantee.delta == 0 else f", delta = {decimal(guarantee.delta)}"
    )
    kind = "pure differential privacy" if guarantee.delta == 0 else "approximate differential privacy"
    sentences = [
        f"The private records were analysed under {kind} ({loss}; protected unit: {guarantee.protected}; "
        f"{guarantee.neighbours}), by {facts.method}."
    ]
    if guarantee.sites > 1:
        sentences.append(f"Records of {guarantee.sites} sites were analysed where they are; no record left its site.")
    noisy = result.count is not None or facts.records_sd is not None
    if facts.records is not None:
        what = "private records that are complete in the model's columns" if facts.complete_rows else "private records"
        sentences.append(f"The number of {what} was {facts.records}{' (a noisy number)' if noisy else ''}.")
    sentences += _left_out(result) + _described(result)
    if facts.public_rows is not None:
        pooled = " and entered the pooled estimate" if result.pooled is not None else ""
        sentences.append(f"{facts.public_rows} public rows set the scale of the covariates{pooled}.")
    if estimate.distribution is not None:
        sentences.append(
            "Standard errors, confidence intervals and p-values count sampling and the privacy noise together. "
            "They are from draws of the error of the released estimate, which has heavier tails than the normal "
            "distribution."
        )
    else:
        sentences.append("Standard errors and intervals count sampling and, where it is known, the privacy noise.")
    return sentences
