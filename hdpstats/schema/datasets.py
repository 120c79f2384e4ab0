"""Example data: five public studies of R's ``survival`` package, as pandas frames.

The files in ``hdpstats/schema/csv`` hold R's rows, columns and values unchanged (survival 3.5-3, Terry
Therneau and others, LGPL version 2 or later; written by ``tools/export_datasets.R``). They are public,
so any of them can stand for the private or for the public records in an example.

``load_rotterdam`` and ``load_gbsg`` describe the same disease and by default have the same columns:

======== ======================================================================================
age      age at surgery, years
nodes    number of positive lymph nodes
size     tumour size in mm, cut: ``<=20`` (reference), ``20-50`` (above 20, up to 50), ``>50``
grade3   1 if the tumour's differentiation grade is 3
hormon   1 if hormonal treatment
meno     1 if postmenopausal
pgr      progesterone receptors, fmol/l
er       oestrogen receptors, fmol/l
time     days from surgery (gbsg: from randomisation) to relapse, death or last follow-up
event    1 if ``time`` ends with relapse or death, 0 if it is censored
event3   relapse or death within 3 years (3 * 365.25 days): 1 or 0, NaN if censored before
======== ======================================================================================
"""

from importlib import resources
from typing import Final

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray

THREE_YEARS: Final = 3 * 365.25
"""Three years in days: the time limit of ``event3``."""

SIZE_LEVELS: Final = ("<=20", "20-50", ">50")
"""Levels of the tumour size in mm, reference first."""

_COMMON: Final = [
    "age",
    "nodes",
    "size",
    "grade3",
    "hormon",
    "meno",
    "pgr",
    "er",
    "time",
    "event",
    "event3",
]


def _read(name: str) -> pd.DataFrame:
    with resources.files("hdpstats.schema").joinpath("csv", f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def _event_within(time: FloatArray, event: FloatArray, *, limit: float) -> FloatArray:
    """Return 1 for an event up to the limit, 0 for a time beyond it, NaN for a time censored before it."""
    return np.where(time > limit, 0.0, np.where(event == 1, 1.0, np.nan))


def _common(frame: pd.DataFrame, *, size: pd.Series, time: pd.Series, event: pd.Series) -> pd.DataFrame:
    """Return the common columns of the two breast cancer studies."""
    event3 = _event_within(time.to_numpy(dtype="float64"), event.to_numpy(dtype="float64"), limit=THREE_YEARS)
    grade3 = (frame["grade"] == 3).astype("int64")
    return frame.assign(size=size, grade3=grade3, time=time, event=event, event3=event3)[_COMMON]


def load_rotterdam(*, harmonised: bool = True) -> pd.DataFrame:
    """Load the Rotterdam breast cancer data: 2982 patients operated 1978-1993, node-negative ones included.

    Relapse-free survival is derived as on R's help page ``?rotterdam``: ``time`` is the day of the
    relapse where there was one and the day of death or last follow-up otherwise, ``event`` is relapse or
    death (1713 events). In 43 patients death was recorded after the end of the follow-up for relapse
    (``rtime < dtime`` without relapse); they count as events on the day of death, which assumes that
    they had no relapse before, as R's help page discusses. In 9 of them this decides ``event3`` (1 in 3,
    0 in 6), which would be NaN if they were censored at ``rtime``.

    Parameters
    ----------
    harmonised : bool, default True
        Whether to return the columns in common with :func:`load_gbsg` (listed in the module's docstring)
        or R's own.

    Returns
    -------
    pandas.DataFrame
        2982 rows. With ``harmonised=False`` the columns are pid (patient), year (of surgery), age
        (years), meno (1: postmenopausal), size (mm, three levels), grade (2 or 3), nodes (positive lymph
        nodes), pgr and er (receptors, fmol/l), hormon and chemo (treatments, 0 or 1), rtime (days to
        relapse or last follow-up), recur (1: relapse), dtime (days to death or last follow-up), death
        (1: dead).

    Notes
    -----
    Source: data set ``rotterdam`` of R's survival 3.5-3, licence LGPL version 2 or later.

    References
    ----------
    Foekens J.A., Peters H.A., Look M.P. et al. (2000). The urokinase system of plasminogen activation
    and prognosis in 2780 breast cancer patients. Cancer Research 60, 636-643.

    Royston P., Altman D.G. (2013). External validation of a Cox prognostic model: principles and
    methods. BMC Medical Research Methodology 13, 33.

    Examples
    --------
    >>> from hdpstats.schema.datasets import load_rotterdam
    >>> frame = load_rotterdam()
    >>> len(frame), int(frame["event"].sum())
    (2982, 1713)
    """
    frame = _read("rotterdam").astype({"size": pd.CategoricalDtype(list(SIZE_LEVELS))})
    if not harmonised:
        return frame
    return _common(
        frame,
        size=frame["size"],
        time=frame["dtime"].where(frame["recur"] == 0, frame["rtime"]),
        event=frame[["recur", "death"]].max(axis=1),
    )


def load_gbsg(*, harmonised: bool = True) -> pd.DataFrame:
    """Load the German Breast Cancer Study Group's trial of 1984-1989: 686 patients, 299 events.

    These are the 686 of the trial's 720 node-positive patients whose prognostic variables are complete.
    Tumour size, recorded in mm, is cut at 20 and 50 as it is in the Rotterdam data.

    Parameters
    ----------
    harmonised : bool, default True
        Whether to return the columns in common with :func:`load_rotterdam` (listed in the module's
        docstring) or R's own.

    Returns
    -------
    pandas.DataFrame
        686 rows. With ``harmonised=False`` the columns are pid (patient), age (years), meno (1:
        postmenopausal), size (mm), grade (1 to 3), nodes (positive lymph nodes), pgr and er (receptors,
        fmol/l), hormon (1: hormonal therapy), rfstime (days to relapse, death or last follow-up), status
        (1: relapse or death).

    Notes
    -----
    Source: data set ``gbsg`` of R's survival 3.5-3, licence LGPL version 2 or later.

    References
    ----------
    Schumacher M., Bastert G., Bojar H. et al. (1994). Randomized 2 x 2 trial evaluating hormonal
    treatment and the duration of chemotherapy in node-positive breast cancer patients. Journal of
    Clinical Oncology 12, 2086-2093.

    Royston P., Altman D.G. (2013). External validation of a Cox prognostic model: principles and
    methods. BMC Medical Research Methodology 13, 33.

    Examples
    --------
    >>> from hdpstats.schema.datasets import load_gbsg
    >>> frame = load_gbsg()
    >>> len(frame), int(frame["event"].sum())
    (686, 299)
    """
    frame = _read("gbsg")
    if not harmonised:
        return frame
    levels = pd.cut(frame["size"], bins=[-np.inf, 20, 50, np.inf], labels=list(SIZE_LEVELS), ordered=False)
    return _common(frame, size=levels, time=frame["rfstime"], event=frame["status"])


def load_flchain() -> pd.DataFrame:
    """Load the free light chain data: 7874 residents of Olmsted County, half of a study of mortality.

    2169 people died. The columns are R's own with names that Python and formulas can spell:
    ``sample.yr`` is ``sample_yr``, ``flc.grp`` is ``flc_grp`` and ``lambda`` is ``lambda_``.

    Returns
    -------
    pandas.DataFrame
        7874 rows: age (years, 50 or more), sex (``F`` or ``M``), sample_yr (calendar year of the blood
        sample), kappa and lambda_ (serum free light chains, mg/dl), flc_grp (tenth of their sum, 1 to
        10), creatinine (mg/dl, missing in 1350), mgus (1: monoclonal gammopathy diagnosed), futime (days
        to death or last contact; 0 in 3 people), death (1: dead), chapter (cause of death by ICD-9
        chapter, missing in the living).

    Notes
    -----
    Source: data set ``flchain`` of R's survival 3.5-3, licence LGPL version 2 or later.

    References
    ----------
    Dispenzieri A., Katzmann J., Kyle R. et al. (2012). Use of nonclonal serum immunoglobulin free light
    chains to predict overall survival in the general population. Mayo Clinic Proceedings 87, 517-523,
    doi:10.1016/j.mayocp.2012.03.009.

    Examples
    --------
    >>> from hdpstats.schema.datasets import load_flchain
    >>> frame = load_flchain()
    >>> len(frame), int(frame["death"].sum())
    (7874, 2169)
    """
    names = {"sample.yr": "sample_yr", "flc.grp": "flc_grp", "lambda": "lambda_"}
    return _read("flchain").rename(columns=names).astype({"sex": "category", "chapter": "category"})


def load_nwtco() -> pd.DataFrame:
    """Load the National Wilms Tumor Study data: 4028 children, 571 relapses.

    The columns are R's own, except that ``in.subcohort`` is ``in_subcohort``.

    Returns
    -------
    pandas.DataFrame
        4028 rows: seqno (patient), instit and histol (histology read at the institution and at the
        central laboratory, 1: favourable, 2: unfavourable), stage (1 to 4), study (3 or 4), rel (1:
        relapse), edrel (days to relapse or last follow-up), age (months), in_subcohort (whether in the
        sample of the paper's example).

    Notes
    -----
    Source: data set ``nwtco`` of R's survival 3.5-3, licence LGPL version 2 or later.

    References
    ----------
    Breslow N.E., Chatterjee N. (1999). Design and analysis of two-phase studies with binary outcome
    applied to Wilms tumour prognosis. Applied Statistics 48, 457-468.

    Examples
    --------
    >>> from hdpstats.schema.datasets import load_nwtco
    >>> frame = load_nwtco()
    >>> len(frame), int(frame["rel"].sum())
    (4028, 571)
    """
    return _read("nwtco").rename(columns={"in.subcohort": "in_subcohort"})


def load_colon() -> pd.DataFrame:
    """Load the trial of adjuvant chemotherapy for colon cancer: 929 patients, two rows each, 452 deaths.

    The columns are R's own. One row of a patient is about recurrence, the other about death: choose one by ``etype``.

    Returns
    -------
    pandas.DataFrame
        1858 rows: id (patient), study (1), rx (treatment: "Obs" for observation, "Lev" for levamisole, "Lev+5FU" for
        levamisole and fluorouracil), sex (1: male), age (years), obstruct (obstruction of the colon by the tumour),
        perfor (perforation), adhere (adherence to nearby organs), nodes (positive lymph nodes), status (1: the event
        happened), differ (differentiation, 1: well, 2: moderate, 3: poor), extent (of local spread, 1: submucosa, 2:
        muscle, 3: serosa, 4: contiguous structures), surg (time from surgery to registration, 1: long), node4 (more
        than 4 positive nodes), time (days to the event or last follow-up), etype (1: recurrence, 2: death).

    Notes
    -----
    Source: data set ``colon`` of R's survival 3.5-3, licence LGPL version 2 or later.

    References
    ----------
    Moertel C.G., Fleming T.R., Macdonald J.S. et al. (1990). Levamisole and fluorouracil for adjuvant therapy of
    resected colon carcinoma. New England Journal of Medicine 322, 352-358.

    Examples
    --------
    >>> from hdpstats.schema.datasets import load_colon
    >>> frame = load_colon()
    >>> deaths = frame[frame["etype"] == 2]
    >>> len(deaths), int(deaths["status"].sum())
    (929, 452)
    """
    return _read("colon")
