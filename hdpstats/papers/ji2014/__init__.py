"""The distributed logistic regression of Ji et al. (2014), as printed and corrected, with its baselines. NOT private.

They are here to reproduce the paper's experiments and to measure against: numpy noise from a seed, floating point as it
comes, any number of draws. The mechanism that may see private records is `hdpstats.mechanisms.PublicHessian`.

References
----------
Ji Z., Jiang X., Wang S., Xiong L., Ohno-Machado L. (2014). Differentially private distributed logistic regression using
private and public data. BMC Medical Genomics 7 (Suppl. 1), S14.
"""

from hdpstats.papers.ji2014.newton import FORMS, Form, distributed_newton
from hdpstats.papers.ji2014.rivals import auc, everybody, meta_analysis, public_only
from hdpstats.papers.ji2014.split import Split, breast_cancer, random_split

__all__ = [
    "FORMS",
    "Form",
    "Split",
    "auc",
    "breast_cancer",
    "distributed_newton",
    "everybody",
    "meta_analysis",
    "public_only",
    "random_split",
]
