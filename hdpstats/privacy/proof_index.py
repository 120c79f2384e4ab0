"""Where the proof of each mechanism stands, and what it rests on in the literature.

A proof is in the docstring of the module that answers the query; most have a page besides, with every step. A result
cites the sources in its methods text, and a disclosure names module and page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from hdpstats.privacy.budget import MechanismName

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
GEOMETRY: Final = "Hardt M, Talwar K (2010). On the geometry of differential privacy. STOC '10, 705-714."
_SUBSAMPLE: Final = "Smith A (2008). Efficient, differentially private point estimators. arXiv:0809.4794."
_GAUSSIAN: Final = (
    "Dong J, Roth A, Su WJ (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B 84, 3-37."
)
_DISTRIBUTED: Final = "Chen W-N, Sung J. Differentially private parameter estimation from distributed sources."
_PERMUTE: Final = (
    "McKenna R, Sheldon D (2020). Permute-and-flip: a new mechanism for differentially private selection. "
    "Advances in Neural Information Processing Systems 33."
)
_WEIGHTS: Final = (
    "Wang M, Ji Z, Kim HE, Wang S, Xiong L, Jiang X (2018). Selecting optimal subset to release under differentially "
    "private M-estimators from hybrid datasets. IEEE Transactions on Knowledge and Data Engineering 30, 573-584."
)
OVERLAP: Final = (
    "Li F, Morgan KL, Zaslavsky AM (2018). Balancing covariates via propensity score weighting. Journal of the "
    "American Statistical Association 113, 390-400."
)
PRIVACY: Final = (
    "Dwork C, McSherry F, Nissim K, Smith A (2006). Calibrating noise to sensitivity in private data analysis. "
    "TCC 2006, 265-284."
)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """Where the proof of a mechanism stands.

    Attributes
    ----------
    module : str
        The package whose docstrings have the constants with their proofs.
    page : str or None
        The page of the documentation with the whole proof, under ``explanation``; None where the docstring has it all.
    sources : tuple of str
        What the proof rests on.
    """

    module: str
    page: str | None
    sources: tuple[str, ...]

    def __str__(self) -> str:
        return self.module if self.page is None else f"page explanation/{self.page}, and {self.module}"


PROOFS: Final[Mapping[MechanismName, Proof]] = {
    MechanismName.OBJECTIVE: Proof(
        module="hdpstats.mechanisms.perturbation",
        page="objective-perturbation",
        sources=(
            _OBJECTIVE,
            _HYBRID,
        ),
    ),
    MechanismName.OBJECTIVE_DETERMINANT: Proof(
        module="hdpstats.mechanisms.perturbation",
        page="objective-perturbation",
        sources=(
            _OBJECTIVE,
            _HYBRID,
        ),
    ),
    MechanismName.GAUSSIAN_OBJECTIVE: Proof(
        module="hdpstats.mechanisms.perturbation",
        page="output-and-sampling",
        sources=(
            _OBJECTIVE,
            _HYBRID,
            _GAUSSIAN,
        ),
    ),
    MechanismName.OUTPUT: Proof(
        module="hdpstats.mechanisms.perturbation",
        page="output-and-sampling",
        sources=(
            _OBJECTIVE,
            _HYBRID,
        ),
    ),
    MechanismName.GAUSSIAN_OUTPUT: Proof(
        module="hdpstats.mechanisms.perturbation",
        page="output-and-sampling",
        sources=(
            _OBJECTIVE,
            _HYBRID,
            _GAUSSIAN,
        ),
    ),
    MechanismName.SMOOTHING: Proof(
        module="hdpstats.mechanisms.minimiser", page="objective-perturbation", sources=(GEOMETRY,)
    ),
    MechanismName.HESSIAN: Proof(
        module="hdpstats.mechanisms.minimiser", page="objective-perturbation", sources=(GEOMETRY,)
    ),
    MechanismName.CURVATURE: Proof(
        module="hdpstats.mechanisms.minimiser", page="objective-perturbation", sources=(GEOMETRY,)
    ),
    MechanismName.SQUARES: Proof(
        module="hdpstats.mechanisms.minimiser", page="objective-perturbation", sources=(GEOMETRY,)
    ),
    MechanismName.GRADIENT: Proof(
        module="hdpstats.mechanisms.clipped_newton",
        page="clipped-scores",
        sources=(
            _NEWTON,
            _GAUSSIAN,
        ),
    ),
    MechanismName.GRADIENT_PURE: Proof(
        module="hdpstats.mechanisms.clipped_newton", page="clipped-scores", sources=(_NEWTON,)
    ),
    MechanismName.SCORE: Proof(
        module="hdpstats.mechanisms.public_hessian",
        page="public-hessian",
        sources=(
            _CLIPPED,
            _GAUSSIAN,
        ),
    ),
    MechanismName.SCORE_PURE: Proof(
        module="hdpstats.mechanisms.public_hessian", page="public-hessian", sources=(_CLIPPED,)
    ),
    MechanismName.SAMPLING: Proof(
        module="hdpstats.mechanisms.exponential", page="output-and-sampling", sources=(_EXPONENTIAL,)
    ),
    MechanismName.COUNT: Proof(module="hdpstats.mechanisms.count", page=None, sources=(_COUNT,)),
    MechanismName.HISTOGRAM: Proof(module="hdpstats.mechanisms.histogram", page=None, sources=(_HISTOGRAM,)),
    MechanismName.WEIGHTED_CELLS: Proof(
        module="hdpstats.mechanisms.treatment_effect",
        page=None,
        sources=(
            OVERLAP,
            _COUNT,
        ),
    ),
    MechanismName.GAUSSIAN_HISTOGRAM: Proof(
        module="hdpstats.mechanisms.histogram",
        page=None,
        sources=(
            _HISTOGRAM,
            _GAUSSIAN,
        ),
    ),
    MechanismName.DESCRIPTION: Proof(module="hdpstats.mechanisms.description", page="description", sources=(GEOMETRY,)),
    MechanismName.GAUSSIAN_DESCRIPTION: Proof(
        module="hdpstats.mechanisms.description", page="description", sources=(_GAUSSIAN,)
    ),
    MechanismName.STATISTICS: Proof(
        module="hdpstats.mechanisms.statistics",
        page="subsample-and-aggregate",
        sources=(
            _DISTRIBUTED,
            GEOMETRY,
        ),
    ),
    MechanismName.SUBSAMPLE: Proof(
        module="hdpstats.mechanisms.subsample",
        page="subsample-and-aggregate",
        sources=(
            _SUBSAMPLE,
            _DISTRIBUTED,
        ),
    ),
    MechanismName.SELECTION: Proof(
        module="hdpstats.mechanisms.hybrid_weights", page="hybrid-weights", sources=(_PERMUTE,)
    ),
    MechanismName.DISTANCE: Proof(
        module="hdpstats.mechanisms.hybrid_weights",
        page="hybrid-weights",
        sources=(
            _WEIGHTS,
            _COUNT,
        ),
    ),
    MechanismName.CURVE: Proof(
        module="hdpstats.mechanisms.hybrid_weights",
        page="hybrid-weights",
        sources=(
            _WEIGHTS,
            _COUNT,
        ),
    ),
}
"""The proof of each mechanism: every name of `MechanismName` has an entry."""
