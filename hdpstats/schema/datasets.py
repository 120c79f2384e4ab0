"""Rows that anybody may see: six public studies of R's ``survival`` package, and invented rows.

**Example data.** The files in ``hdpstats/schema/csv`` hold R's rows, columns and values unchanged (survival 3.5-3,
Terry Therneau and others, LGPL version 2 or later; written by ``tools/export_datasets.R``). They are public, so any of
them can stand for the private or for the public records in an example.

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

**Invented rows** are those on which a computation takes the longest: they follow from the schema alone. What a
computation is said to do at most (`hdpstats._base.work`) is checked on rows that are as costly as any. Most of the cost
depends on the number of rows only. Survival models go through the intervals in which people are at risk: here everybody
is followed from time 0 to the horizon, in as many spells as a person may have, and the last one ends in an event.
"""

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.records.model import TimeGrid
from hdpstats.schema.columns import Binary, Categorical, Column, NumericColumn
from hdpstats.schema.schema import Schema

__all__ = ["load_colon", "load_flchain", "load_gbsg", "load_nwtco", "load_pbcseq", "load_rotterdam"]

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
        sample), kappa and ``lambda_`` (serum free light chains, mg/dl), flc_grp (tenth of their sum, 1 to
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


def load_pbcseq() -> pd.DataFrame:
    """Load the visits of the Mayo Clinic's trial in primary biliary cholangitis: 312 patients, 1945 visits.

    Patients came after 6 months, after a year and yearly from then on, 1 to 16 times: those who died early came less
    often. The columns are R's own with names that formulas can spell: ``alk.phos`` is ``alk_phos``.

    Returns
    -------
    pandas.DataFrame
        1945 rows: id (patient), futime (days from registration to death, transplantation or last follow-up), status (0:
        alive, 1: transplanted, 2: dead), trt (1: D-penicillamine, 0: placebo), age (years at registration), sex (``m``
        or ``f``), day (of the visit, from registration), ascites, hepato (enlarged liver), spiders (malformed vessels
        of the skin), edema (0, 0.5 or 1), bili (bilirubin, mg/dl), chol (cholesterol, mg/dl), albumin (g/dl), alk_phos
        and ast (U/l), platelet (counts per 1000), protime (seconds), stage (1 to 4).

    Notes
    -----
    Source: data set ``pbcseq`` of R's survival 3.5-3, licence LGPL version 2 or later.

    References
    ----------
    Murtaugh P.A., Dickson E.R., Van Dam G.M. et al. (1994). Primary biliary cirrhosis: prediction of short-term
    survival based on repeated patient visits. Hepatology 20, 126-134.

    Examples
    --------
    >>> from hdpstats.schema.datasets import load_pbcseq
    >>> visits = load_pbcseq()
    >>> len(visits), visits["id"].nunique(), int(visits["id"].value_counts().max())
    (1945, 312, 16)
    """
    return _read("pbcseq").rename(columns={"alk.phos": "alk_phos"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpColumns:
    """The columns of a survival outcome, and the intervals in which people are at risk.

    Attributes
    ----------
    start : str or None
        The column of the time at which a row comes under observation; None where that is always 0.
    stop, event : str
        The columns of the time at which observation ends, and of what ended it.
    grid : TimeGrid
        The intervals.
    """

    start: str | None
    stop: str
    event: str
    grid: TimeGrid


def costly_frame(
    schema: Schema, *, rows: int, unit: str | None = None, most_rows: int = 1, follow_up: FollowUpColumns | None = None
) -> pd.DataFrame:
    """Return so many invented rows of a schema, as `hdpstats.schema.table.PrivateTable.from_frame` takes them.

    Cells are spread over the declared values, columns apart from each other: a function of the arguments, the same each
    time. Rows stand in no order.

    Parameters
    ----------
    schema
        The declared columns.
    rows
        How many rows, from 1.
    unit, most_rows
        The column that names the person and the number of rows of each one; None and 1 where a row is a person.
    follow_up
        The outcome of a survival model: then everybody is at risk in every interval that the schema allows, in
        ``most_rows`` spells or as many as there are intervals, the last of which ends in an event.

    Examples
    --------
    >>> from hdpstats.schema.columns import Duration
    >>> schema = Schema(entry=Duration(30), exit=Duration(30), died=Binary())
    >>> outcome = FollowUpColumns(start="entry", stop="exit", event="died", grid=TimeGrid((10.0, 20.0, 30.0)))
    >>> frame = costly_frame(schema, rows=4, unit="person", most_rows=2, follow_up=outcome)
    >>> frame.sort_values(["person", "entry"]).to_numpy().tolist()[:2]
    [[0.0, 10.0, 0.0, 'person-1'], [10.0, 30.0, 1.0, 'person-1']]
    """
    columns: dict[str, Any] = {name: cells(column, name, rows) for name, column in schema.items()}
    if follow_up is not None:
        columns |= _followed(follow_up, schema, rows=rows, most_rows=most_rows)
    if unit is not None:
        columns[unit] = [f"person-{i // most_rows + 1}" for i in range(rows)]
    frame = pd.DataFrame(columns)
    return frame.iloc[np.argsort(shares("order of rows", rows))].reset_index(drop=True)


def shares(name: str, count: int) -> FloatArray:
    """Return numbers (count,) in [0, 1) without apparent relation to each other, made from a name."""
    digest = hashlib.shake_256(name.encode("utf-8", "surrogatepass")).digest(4 * count)
    return np.frombuffer(digest, dtype="<u4") / 2.0**32


def cells(column: Column, name: str, rows: int) -> Any:
    """Return the cells of a column (rows,), every declared value as often as any other, made from a name."""
    share = shares(name, rows)
    if isinstance(column, Categorical):
        return np.array(column.levels, dtype=object)[(share * len(column.levels)).astype(np.int64)]
    if isinstance(column, Binary):
        return _of_binary(column, np.floor(2.0 * share))
    if isinstance(column, NumericColumn):
        return column.lower + share * (column.upper - column.lower)
    raise TypeError(f"{type(column).__name__} is no kind of column")


def _followed(outcome: FollowUpColumns, schema: Schema, *, rows: int, most_rows: int) -> dict[str, Any]:
    """Return the columns of an outcome: everybody is followed to the horizon, spell after spell."""
    stop = schema[outcome.stop]
    horizon = stop.upper if isinstance(stop, NumericColumn) else outcome.grid.horizon
    times = np.array([0.0, *(cut for cut in outcome.grid.cuts if cut < horizon), min(outcome.grid.horizon, horizon)])
    intervals = len(times) - 1
    spells = min(most_rows, intervals) if outcome.start is not None else 1
    number: IntArray = np.arange(rows) % most_rows % spells
    cells: dict[str, Any] = {outcome.stop: times[(number + 1) * intervals // spells]}
    if outcome.start is not None:
        cells[outcome.start] = times[number * intervals // spells]
    ends = number == spells - 1
    event = schema[outcome.event]
    if isinstance(event, Categorical):
        cause = 1 + (shares(outcome.event, rows) * (len(event.levels) - 1)).astype(np.int64)
        cells[outcome.event] = np.array(event.levels, dtype=object)[np.where(ends, cause, 0)]
    else:
        cells[outcome.event] = _of_binary(event, ends.astype(np.float64))
    return cells


def _of_binary(column: Column, values: FloatArray) -> Any:
    """Return zeros and ones as the cells of a column."""
    labels = column.labels if isinstance(column, Binary) else None
    return values if labels is None else np.array(labels, dtype=object)[values.astype(np.int64)]


def __dir__() -> list[str]:
    return __all__
