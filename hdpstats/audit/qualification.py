"""Qualification: whether this installation computes what it should in this environment.

For a validation file (GxP, IEC 62304): requirements, the checks of each, their outcomes, versions, and where random
numbers come from. Everything that is needed is in the installed package; nothing is downloaded or installed, no
private record is read, and about a minute of one core is used.

Stored values (``reference.json``) are of three kinds: what R's glm, lm and survreg give on the package's example data,
what NIST certifies (Statistical Reference Datasets, Norris and Longley), and integers that noise is added to on
invented people, as every supported environment computes them. Where something in the environment changes a number, the
check fails, and its line says which number, what was expected and what was found.
"""

import datetime
import hashlib
import html
import importlib.metadata
import json
import os
import platform
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pandas as pd

from hdpstats import __version__
from hdpstats._base.caching import remembered
from hdpstats._base.errors import ArgumentError, InsufficientBudget, LedgerError
from hdpstats._base.no_warnings import silence
from hdpstats._base.precision import numbers_of
from hdpstats.audit.cases import CASES, SCHEMA, SETTINGS, asked, people
from hdpstats.audit.fingerprint import fingerprint
from hdpstats.audit.guarantees import checked
from hdpstats.audit.noise_mechanisms import naive_laplace, normal_audit, sampler_audits
from hdpstats.audit.replay import inputs_of_noise
from hdpstats.ledger import Ledger
from hdpstats.losses import options as losses
from hdpstats.models import Linear, Logit, MEstimator
from hdpstats.noise.exact import bits
from hdpstats.records.query import PointRelease
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.schema.datasets import load_gbsg
from hdpstats.schema.schema import Schema
from hdpstats.sites import LocalSite, Study

REQUIREMENTS: Final = {
    "R1": "Estimates and standard errors without noise are those of R and those that NIST certifies.",
    "R2": "Numbers that noise is added to are those of every other environment.",
    "R3": "Every mechanism keeps the guarantee that it is charged for, as far as searches can tell.",
    "R4": "Noise has its distribution, comes from the operating system, and leaves nothing in last bits.",
    "R5": "The ledger charges before it answers, answers once, never overspends, and shows a change.",
    "R6": "Floating point and the operating system are as the proofs take them to be.",
}
"""What is required, by the number that checks name."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CheckOutcome:
    """What one check found.

    Attributes
    ----------
    requirement : str
        The number of the requirement.
    check : str
        What was checked.
    passed : bool
        Whether it was as required.
    found : str
        What was found, in words; where it failed, what was expected too.
    seconds : float
        How long it took, in seconds of this process.
    """

    requirement: str
    check: str
    passed: bool
    found: str
    seconds: float


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Qualification:
    """The outcome of a qualification, as text, data frame, HTML, and JSON.

    Attributes
    ----------
    outcomes : tuple of CheckOutcome
        One for each check.
    environment : dict of str to str
        Versions, machine, and the SHA-256 of the installed package.
    seeds : dict of str to str
        Where random numbers come from.
    at : str
        When it ended, in UTC.
    """

    outcomes: tuple[CheckOutcome, ...]
    environment: dict[str, str]
    seeds: dict[str, str]
    at: str

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(each.passed for each in self.outcomes)

    @property
    def failed(self) -> tuple[CheckOutcome, ...]:
        """The checks that did not pass."""
        return tuple(each for each in self.outcomes if not each.passed)

    def to_frame(self) -> pd.DataFrame:
        """Return requirement, check, outcome and what was found, a row for each check."""
        return pd.DataFrame(
            {
                "requirement": [each.requirement for each in self.outcomes],
                "check": [each.check for each in self.outcomes],
                "outcome": [_word(each) for each in self.outcomes],
                "found": [each.found for each in self.outcomes],
            }
        )

    def to_json(self) -> str:
        """Return everything as JSON."""
        outcomes = [{name: getattr(each, name) for name in CheckOutcome.__slots__} for each in self.outcomes]
        about = {"passed": self.passed, "at": self.at, "environment": self.environment, "seeds": self.seeds}
        return json.dumps({**about, "requirements": REQUIREMENTS, "outcomes": outcomes}, indent=1)

    def to_html(self) -> str:
        """Return the report: a page for a validation file, with a table of requirements, checks and outcomes."""
        return _page(self)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a ``.html`` or a ``.json`` file.

        Raises
        ------
        ArgumentError
            If the name ends otherwise, or the file cannot be written.
        """
        place = Path(path)
        text = {".html": self.to_html, ".json": self.to_json}.get(place.suffix)
        if text is None:
            raise ArgumentError(f"path must end in .html or .json, not {place.name!r}", argument="path")
        try:
            place.write_text(text(), encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"path cannot be written: {error}", argument="path") from None

    def __str__(self) -> str:
        lines = [f"{_word(each):6}  {each.requirement}  {each.check}: {each.found}" for each in self.outcomes]
        number = len(self.outcomes)
        said = (
            f"{number} of {number} checks passed" if self.passed else f"FAILED: {len(self.failed)} of {number} checks"
        )
        return "\n".join([*lines, "", f"hdpstats {self.environment['hdpstats']}, {self.at}: {said}"])

    def _repr_html_(self) -> str:
        return _body(self)


def _word(outcome: CheckOutcome) -> str:
    return "passed" if outcome.passed else "FAILED"


def qualify(path: str | os.PathLike[str] | None = None) -> Qualification:
    """Check this installation in this environment; takes about a minute and installs nothing.

    Parameters
    ----------
    path
        Where to write the report, ``.html`` or ``.json``; nowhere by default.

    Returns
    -------
    Qualification
        ``passed`` says whether all is as required. A check that fails does not raise.

    Raises
    ------
    ArgumentError
        If the report cannot be written there; before anything is checked where the name is none.

    Notes
    -----
    Checks of samplers draw from the operating system's entropy; all of them together fail in a correct installation
    with a probability below 1e-9.
    """
    if path is not None and Path(path).suffix not in {".html", ".json"}:
        raise ArgumentError(f"path must end in .html or .json, not {Path(path).name!r}", argument="path")
    with silence():
        outcomes = tuple(_outcome(*check) for check in checks())
    found = Qualification(
        outcomes=outcomes,
        environment=environment(),
        seeds=SEEDS,
        at=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    if path is not None:
        found.write(path)
    return found


SEEDS: Final = {
    "noise of releases": "the operating system's entropy (os.urandom); there is no seed, by design",
    "checks of samplers": "the operating system's entropy; bounds that hold together with probability 1 - 1e-9",
    "invented people": "fixed rows without a generator",
    "standard errors drawn from a release": "numpy's PCG64, seeded by the SHA-256 of the release: the same every time",
}
"""Where random numbers come from."""


class _NotAsRequiredError(Exception):
    """Carries what a check found where it fails."""


def _outcome(requirement: str, name: str, check: Callable[[], str]) -> CheckOutcome:
    """Run one check; whatever it raises is a failure with its words."""
    begun = time.process_time()
    try:
        found, passed = check(), True
    except _NotAsRequiredError as wrong:
        found, passed = str(wrong), False
    except Exception as error:  # a check that cannot run has failed, and the others are run
        found, passed = f"the check could not run: {type(error).__name__}: {error}", False
    return CheckOutcome(
        requirement=requirement, check=name, passed=passed, found=found, seconds=time.process_time() - begun
    )


def environment() -> dict[str, str]:
    """Return versions, machine, and the SHA-256 of the installed package's files."""
    versions = {"hdpstats": __version__, "Python": f"{platform.python_implementation()} {platform.python_version()}"}
    for name in ("numpy", "scipy", "pandas", "numba", "llvmlite", "mpmath", "SQLAlchemy", "statsmodels", "pyarrow"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    machine = {
        "operating system": platform.platform(),
        "processor": f"{platform.machine()}, {os.cpu_count()} cores, {sys.byteorder}-endian",
        "files of the package (SHA-256)": _installed(),
    }
    return versions | machine


def _installed() -> str:
    """Return the SHA-256 over names and contents of the package's Python and JSON files."""
    root, digest = Path(str(files("hdpstats"))), hashlib.sha256()
    for place in sorted([*root.rglob("*.py"), *root.rglob("*.json")]):
        digest.update(place.relative_to(root).as_posix().encode() + b"\0" + place.read_bytes() + b"\0")
    return digest.hexdigest()


@remembered(1)
def _reference() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(files("hdpstats.audit").joinpath("reference.json").read_text(encoding="utf-8"))
    return stored


def _within(names: Sequence[str], found: Any, expected: Any, *, tolerance: float) -> float:
    """Return the largest relative difference, or fail with the number that is off most."""
    one, two = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    if one.shape != two.shape:
        raise _NotAsRequiredError(f"{len(one)} numbers were found, {len(two)} were expected")
    apart = np.abs(one - two) / np.maximum(np.abs(two), 1e-12)
    place = int(np.argmax(np.where(np.isnan(apart), np.inf, apart)))
    if not apart[place] <= tolerance:
        raise _NotAsRequiredError(
            f"{names[place]} is {one[place]:.17g}; expected {two[place]:.17g} within a relative {tolerance:g}"
        )
    return float(apart[place])


# R1: numbers of R and NIST.


@remembered(1)
def _gbsg() -> Study:
    frame = load_gbsg()
    schema = Schema(
        age=Continuous(20, 90, complete=True),
        nodes=Continuous(0, 40, missing=1),
        size=Categorical(["<=20", "20-50", ">50"], complete=True),
        grade3=Binary(complete=True),
        hormon=Binary(complete=True),
        event3=Binary(complete=True),
        time=Duration(_reference()["horizon"], unit="days", complete=True),
        event=Binary(complete=True),
        w=Weight(max=4, complete=True),
        o=Offset(-2, 2, complete=True),
    )
    return Study(public=frame.assign(w=1 + frame["nodes"] % 4, o=frame["grade3"] - 0.5), schema=schema)


def _model(kind: str, formula: str, study: Study, **columns: Any) -> Any:
    if kind == "logit":
        return Logit.from_formula(formula, study, **columns)
    if kind == "linear":
        return Linear.from_formula(formula, study, **columns)
    loss = {"poisson": losses.Poisson(), "exponential": losses.Exponential()}[kind]
    return MEstimator.from_formula(formula, study, loss=loss, **columns)


def _errors_of(names: Sequence[str]) -> list[str]:
    return [f"the standard error of {name}" for name in names]


def _fit_of_r(stored: dict[str, Any]) -> str:
    columns = {name: stored[name] for name in ("weights", "offset") if stored[name] is not None}
    result = _model(stored["kind"], stored["formula"], _gbsg(), **columns).fit_public()
    names = list(result.params.index)
    apart = _within(names, result.params, stored["coefficients"], tolerance=1e-7)
    errors = _within(_errors_of(names), result.bse, stored["std_errors"], tolerance=1e-6)
    return f"{len(names)} coefficients within a relative {apart:.1e}, standard errors within {errors:.1e}"


def _fit_of_nist(stored: dict[str, Any]) -> str:
    data = pd.DataFrame(stored["data"])
    ranges = {name: Continuous(data[name].min() - 1, data[name].max() + 1, complete=True) for name in data.columns}
    result = Linear.from_formula(stored["formula"], Study(public=data, schema=Schema(ranges))).fit_public()
    names = list(result.params.index)
    apart = _within(names, result.params, stored["coefficients"], tolerance=1e-8)
    errors = _within(_errors_of(names), result.bse, stored["std_errors"], tolerance=1e-8)
    return f"{len(names)} certified coefficients within a relative {apart:.1e}, standard errors within {errors:.1e}"


# R2: what noise is added to.


def _inputs(name: str) -> list[float]:
    (case,) = (each for each in CASES if each.name == name)
    question = asked(case, SETTINGS[0])
    found = inputs_of_noise(question.compute, people((1.0, 4.0, "a", 1.0, -2.0, 12.0, 0.0, 1.0, "one")))
    return [value for each in found for value in each]


def _stored_inputs(name: str) -> str:
    stored = _reference()["inputs"][name]
    found = _inputs(name)
    scale = max(1.0, *map(abs, stored))
    names = [f"number {place + 1} of {name}" for place in range(len(found))]
    apart = _within(names, np.array(found) / scale + 2.0, np.array(stored) / scale + 2.0, tolerance=1e-9)
    near = "" if apart == 0 else f" within {2 * apart:.1e} of the largest"
    return f"{len(stored)} numbers are the stored ones{near}"


# R3: guarantees.


def _replays() -> str:
    """Replay every kind of question on neighbours, under the relation that comes first."""
    shares = []
    for case in CASES:
        setting = SETTINGS[1] if case.name == "count" else SETTINGS[0]
        row = checked(case, setting, asked(case, setting), pairs_of_each=1, plant=False)
        if not row.holds:
            what = "; ".join(row.differences) or f"a loss of {row.share:.3f} times the claim"
            raise _NotAsRequiredError(f"{case.name}, {setting}: {what}")
        shares.append(row.share)
    return f"{len(shares)} kinds of question; the largest loss found is {max(shares):.4f} of the claim, never above it"


def _planted() -> str:
    (case,) = (each for each in CASES if each.name == "histogram")
    row = checked(case, SETTINGS[0], asked(case, SETTINGS[0]), pairs_of_each=1, plant=True)
    missed = [name for name, caught in row.planted.items() if not caught]
    if missed:
        raise _NotAsRequiredError(f"not caught: {', '.join(missed)}")
    return f"{len(row.planted)} mistakes planted, all caught"


# R4: noise.


def _samplers() -> str:
    found = [*sampler_audits(draws=4000, releases=3000), normal_audit(draws=4000)]
    wrong = [each.name for each in found if each.holds == each.is_control]
    if wrong:
        raise _NotAsRequiredError(f"not as claimed: {', '.join(wrong)}")
    return f"{sum(not each.is_control for each in found)} samplers within their claims; half the noise is caught"


def _control() -> str:
    found = fingerprint(naive_laplace, releases=48_000)
    if found.epsilon < 5.0:
        raise _NotAsRequiredError(f"noise in floating point was not told from exact noise: {found}")
    return f"Laplace noise in floating point is caught: {found.epsilon:.2f} where 1 is claimed"


def _entropy() -> str:
    read = [bits(256) for _ in range(64)]
    ones = sum(each.bit_count() for each in read)
    if len(set(read)) < len(read) or abs(ones - 8192) > 512:  # 8 standard deviations: 1e-15
        raise _NotAsRequiredError(f"os.urandom repeats itself or is not balanced: {ones} of 16,384 bits are 1")
    return f"64 reads are all different, {ones} of 16,384 bits are 1"


# R5: the ledger.


@contextmanager
def _ledger_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hdpstats-qualify-") as folder:
        yield Path(folder) / "ledger.db"


def _site(place: Path, epsilon: float) -> LocalSite:
    ledger = Ledger(place, dataset="invented", epsilon=epsilon, create=True)
    return LocalSite(people(None), schema=SCHEMA, ledger=ledger)


def _asked_twice() -> str:
    with _ledger_file() as place:
        site = _site(place, 2)
        model = Logit.from_formula("y ~ x1", Study(private=site), row_norm=2.0)
        one = model.fit(epsilon=1.0, se_share=0, describe=False)
        two = model.fit(epsilon=1.0, se_share=0, describe=False)
        thetas = {each.release.theta for each in (one, two) if isinstance(each.release, PointRelease)}
        if len(thetas) != 1 or site.ledger.spent.epsilon != 1:
            raise _NotAsRequiredError(f"the same question was answered twice; spent {site.ledger.spent.epsilon}, not 1")
    return "the same question is answered once, from the ledger afterwards; 1 of 2 spent"


def _overspent() -> str:
    with _ledger_file() as place:
        site = _site(place, 1)
        model = Logit.from_formula("y ~ x1", Study(private=site), row_norm=2.0)
        model.fit(epsilon=1.0, se_share=0, describe=False)
        try:
            model.fit(epsilon=0.5, se_share=0, describe=False)
        except InsufficientBudget:
            left = Ledger.open_existing(place).spent.epsilon
            if left != 1:
                raise _NotAsRequiredError(f"a refused question was charged: {left}") from None
            return "a question beyond the total is refused and not charged"
    raise _NotAsRequiredError("a question beyond the total was answered")


def _rewritten() -> str:
    import sqlite3
    from contextlib import closing

    with _ledger_file() as place:
        site = _site(place, 2)
        Logit.from_formula("y ~ x1", Study(private=site), row_norm=2.0).fit(epsilon=1.0, se_share=0, describe=False)
        entries = site.ledger.verify().entries
        del site
        with closing(sqlite3.connect(place)) as connection:
            if not _changed(connection):
                raise _NotAsRequiredError(
                    "no stored number of the ledger could be changed: its tables are not as expected"
                )
            connection.commit()
        try:
            Ledger.open_existing(place).verify()
        except LedgerError:
            return f"{entries} entries verify; one that is rewritten in the file does not"
    raise _NotAsRequiredError("a rewritten ledger verifies")


def _changed(connection: Any) -> bool:
    """Change one stored text that holds a release, whatever the tables are called."""
    tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
    for table in tables:
        columns = [row[1] for row in connection.execute(f'pragma table_info("{table}")')]
        for column in columns:
            count = connection.execute(
                f'update "{table}" set "{column}" = replace("{column}", ?, ?) where "{column}" like ?',  # noqa: S608
                ("objective", "subjective", "%objective%"),
            ).rowcount
            if count:
                return True
    return False


# R6: the environment.


def _doubles() -> str:
    tiny = struct.unpack("<d", b"\1" + bytes(7))[0]
    facts = {
        "doubles have 53 bits": sys.float_info.mant_dig == 53,
        "sums round to nearest, ties to even": 1.0 + 2.0**-53 == 1.0 and 1.0 + 3 * 2.0**-53 == 1.0 + 2.0**-51,
        "small doubles are not flushed to zero": bool((np.array([tiny]) * 1.0)[0] == tiny > 0.0),
        "products are rounded before they are added": bool(
            (np.array([1.0 + 2.0**-30]) * np.array([1.0 - 2.0**-30]) - 1.0)[0] == 0.0
        ),
        "integers wrap at 64 bits": bool((np.array([2**62], dtype=np.int64) * 2)[0] == -(2**63)),
    }
    wrong = [name for name, holds in facts.items() if not holds]
    if wrong:
        raise _NotAsRequiredError(f"not so: {'; '.join(wrong)}")
    return "; ".join(facts)


def _functions() -> str:
    """Compare exp and log1p with 170 binary digits: proofs allow 2^-41, the package counts on far less."""
    exact = numbers_of(170)
    points = np.concatenate([np.linspace(-700.0, 700.0, 101), np.linspace(-1.0, 1.0, 101)])
    of_exp = max(abs(float(exact.mpf(float(np.exp(x))) / exact.exp(float(x)) - 1)) for x in points)
    inner = points[(points > -1.0) & (points != 0.0)]
    of_log = max(abs(float(exact.mpf(float(np.log1p(x))) / exact.log1p(float(x)) - 1)) for x in inner)
    worst = max(of_exp, of_log)
    if worst > 2.0**-50:
        raise _NotAsRequiredError(f"exp or log1p is off by a relative {worst:.2e}; at most {2.0**-50:.2e} is expected")
    return f"exp and log1p are within a relative {worst:.1e} at {len(points)} points"


def checks() -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Yield requirement, name and function of each check."""
    stored = _reference()
    for each in stored["r"]:
        options = ", ".join(f"{name} {each[name]}" for name in ("weights", "offset") if each[name] is not None)
        yield "R1", f"R: {each['kind']}, {each['formula']}{', ' * bool(options)}{options}", _bound_to(_fit_of_r, each)
    for each in stored["nist"]:
        yield "R1", f"NIST: {each['name']}", _bound_to(_fit_of_nist, each)
    for name in stored["inputs"]:
        yield "R2", f"Sums of invented people: {name}", _bound_to(_stored_inputs, name)
    yield "R3", "Replay on neighbouring data sets", _replays
    yield "R3", "Planted mistakes", _planted
    yield "R4", "Lower bounds of epsilon from draws, and last bits", _samplers
    yield "R4", "Control of the last bits", _control
    yield "R4", "Entropy", _entropy
    yield "R5", "One answer for one charge", _asked_twice
    yield "R5", "Refusal beyond the total", _overspent
    yield "R5", "A rewritten entry", _rewritten
    yield "R6", "Doubles and integers", _doubles
    yield "R6", "Elementary functions", _functions


def _bound_to(check: Callable[[Any], str], given: Any) -> Callable[[], str]:
    return lambda: check(given)


# The report.


def _page(found: Qualification) -> str:
    style = (
        "body{font-family:sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#111}"
        "table{border-collapse:collapse;width:100%;margin:1em 0}td,th{border:1px solid #999;padding:.3em .5em;"
        "text-align:left;vertical-align:top}.failed{background:#fbe3d6;font-weight:bold}.line{height:2.5em}"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Qualification of hdpstats</title>'
        f"<style>{style}</style></head><body>{_body(found)}</body></html>\n"
    )


def _body(found: Qualification) -> str:
    word = "All checks passed." if found.passed else f"{len(found.failed)} of {len(found.outcomes)} checks failed."
    rows = [
        f"<tr{'' if each.passed else ' class=failed'}><td>{each.requirement}</td><td>{html.escape(each.check)}</td>"
        f"<td>{_word(each)}</td><td>{html.escape(each.found)}</td></tr>"
        for each in found.outcomes
    ]
    return "\n".join(
        [
            f"<h1>Qualification of hdpstats {html.escape(__version__)}</h1>",
            f"<p><strong>{word}</strong> {html.escape(found.at)}</p>",
            "<h2>Requirements</h2>",
            _table(("requirement", "text", "checks", "outcome"), [_required(found, number) for number in REQUIREMENTS]),
            "<h2>Checks</h2>",
            "<table><tr><th>requirement</th><th>check</th><th>outcome</th><th>found</th></tr>",
            *rows,
            "</table>",
            "<h2>Environment</h2>",
            _table(("what", "which"), list(found.environment.items())),
            "<h2>Random numbers</h2>",
            _table(("what", "where from"), list(found.seeds.items())),
            "<h2>Signatures</h2>",
            "<table><tr><th></th><th>name</th><th>date</th><th>signature</th></tr>"
            '<tr class="line"><td>performed by</td><td></td><td></td><td></td></tr>'
            '<tr class="line"><td>reviewed by</td><td></td><td></td><td></td></tr></table>',
        ]
    )


def _required(found: Qualification, number: str) -> tuple[str, ...]:
    own = [each for each in found.outcomes if each.requirement == number]
    passed = bool(own) and all(each.passed for each in own)
    return number, REQUIREMENTS[number], str(len(own)), "met" if passed else "NOT MET"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
