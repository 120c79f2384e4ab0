"""An aggregate: an estimate for every group of a tree of results, with its tables and its forest plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, final

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.display import Report, Reported, columns, named_values
from hdpstats.privacy.budget import Guarantee, over_data_sets
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.codec import LEFT_OUT
from hdpstats.records.estimate import Estimate, HasCoefficients
from hdpstats.records.saved import Saved
from hdpstats.results import plots, tables
from hdpstats.results.facts import ModelFacts
from hdpstats.results.sites import DataSet, accounts_of, stored_rows
from hdpstats.results.summary import coefficients, shown_places, side_by_side

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE: Final = "Results in groups"
_TERMS_SHOWN: Final = 5
_INDENT: Final = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}"
BETWEEN_WORDS: Final = {
    "paule_mandel": "differ, variance by Paule and Mandel",
    "dersimonian_laird": "differ, variance by DerSimonian and Laird",
    None: "have the same parameters",
}
_INTERVALS: Final = {
    "model": "from the variances of the results: sampling and privacy noise",
    "across_sites": "from the spread of members alone, by Student's distribution (Hartung and Knapp)",
}


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Node:
    """A group of results, or a result.

    Attributes
    ----------
    path : tuple of str
        The names from the top to this place.
    estimate : Estimate
        What is estimated there.
    members : int
        How many stand right under it; 0 for a result.
    weights : tuple of (p,) float64
        The weight of each member in each term.
    tau, scatter : (p,) float64
        The standard deviation between members, and Cochran's Q of the members as if there were none; NaN for a result.
    degrees : int
        Of freedom that ``scatter`` has: members less one.
    allowance : (p, p) float64 or None
        ``L``, of what weights of people may do: a part ``L x`` of the error, with the standard normal ``x`` that all
        results have in common. None where nothing is allowed for it.
    """

    path: tuple[str, ...]
    estimate: Estimate
    members: int
    weights: tuple[FloatArray, ...]
    tau: FloatArray
    scatter: FloatArray
    degrees: int
    allowance: Annotated[FloatArray | None, LEFT_OUT] = None

    @property
    def level(self) -> int:
        """How far below the top."""
        return len(self.path) - 1


def leaf(path: tuple[str, ...], estimate: Estimate, *, allowance: FloatArray | None = None) -> Node:
    """Return the node of a result."""
    nothing = np.full(len(estimate.terms), np.nan)
    return Node(
        path=path,
        estimate=estimate,
        members=0,
        weights=(),
        tau=nothing,
        scatter=nothing,
        degrees=0,
        allowance=allowance,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Aggregate(HasCoefficients, Reported, Saved):
    """Estimates of groups of results, of groups of groups, and of all together. `hdpstats.api.aggregate` makes one.

    Attributes
    ----------
    nodes : tuple of Node
        Groups and results, each followed by what is in it; the first is the top.
    between : tuple of str or None
        How the variance between the members of a group was estimated at each level, from the top.
    interval : str
        What intervals of groups rest on.
    facts : ModelFacts
        The model of the first result.
    guarantees : tuple of Guarantee
        What the results, and what they rest on, guarantee to the people in each of them.
    releases : tuple of str
        The SHA-256 of the releases that it rests on, by which one is known that is already counted.
    data_sets : tuple of (tuple of DataSet)
        The data sets that each of the guarantees is for, by which the same people are known.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> import pandas as pd
    >>> def hospital(died):
    ...     people = pd.DataFrame({"died": [i < died for i in range(500)]})
    ...     study = hdp.Study(
    ...         private=people, schema=hdp.Schema(died=hdp.Binary(complete=True)), budget=hdp.Budget(epsilon=2)
    ...     )
    ...     return hdpf.distribution("died ~ 1", study, family="bernoulli").fit(epsilon=2)
    >>> hdp.aggregate({"A": hospital(150), "B": hospital(160)})
    <aggregate of 2 results in 1 group: Distribution>
    """

    _format: ClassVar[int] = 5
    _what: ClassVar[str] = "an aggregate"

    nodes: tuple[Node, ...]
    between: tuple[str | None, ...]
    interval: str
    facts: ModelFacts
    guarantees: tuple[Guarantee, ...]
    releases: tuple[str, ...]
    data_sets: tuple[tuple[DataSet, ...], ...]

    def __post_init__(self) -> None:
        """Refuse intervals of no known kind."""
        choice(self.interval, name="interval", options=_INTERVALS)

    @property
    def estimate(self) -> Estimate:
        """The estimate from all results."""
        return self.nodes[0].estimate

    def at(self, *names: str) -> Estimate:
        """Return the estimate of a group or of a result, named from the level below the top: ``at("North", "Oslo")``.

        Raises
        ------
        ArgumentError
            If there is none of these names.
        """
        for node in self.nodes:
            if node.path[1:] == names:
                return node.estimate
        known = "; ".join(", ".join(map(repr, node.path[1:])) for node in self.nodes[1:])
        raise ArgumentError(f"at must name a group or a result, of {known}", argument="names")

    @property
    def frame(self) -> pd.DataFrame:
        """A row per group or result and term.

        Columns level (0 is the top), path, name, members (0 for a result), term, estimate, std_error, statistic,
        p_value, conf_low, conf_high (95 %), weight (in its group), tau (the standard deviation between members),
        scatter and scatter_p_value (Cochran's Q of the members, and the probability of a larger one where they have the
        same parameters and normal errors).
        """
        return self._rows(0.95)

    def _rows(self, conf_level: float) -> pd.DataFrame:
        shares = {self.nodes[0].path: np.full(len(self.estimate.values), np.nan)}
        for node in self.nodes:
            below = [each.path for each in self.nodes if each.path[:-1] == node.path]
            shares |= dict(zip(below, node.weights, strict=True))
        return pd.concat(
            [_rows(node, weight=shares[node.path], conf_level=conf_level) for node in self.nodes], ignore_index=True
        )

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return the rows of `frame` with limits of a level in [0.001, 0.999]."""
        return self._rows(conf_level)

    def glance(self) -> pd.DataFrame:
        """Return one row: model, results, groups, levels (their numbers), terms."""
        return pd.DataFrame(
            {
                "model": [self.facts.model],
                "results": [self._results],
                "groups": [len(self.nodes) - self._results],
                "levels": [max(node.level for node in self.nodes)],
                "terms": [len(self.estimate.terms)],
            }
        )

    def plot(self, term: str | None = None, *, exponentiate: bool = False, ax: "Axes | None" = None) -> "Axes":
        """Draw a forest plot of one term: a row per group (a diamond) and per result (a square), with 95 % intervals.

        Parameters
        ----------
        term
            The first one that is no intercept and of no baseline, by default.
        exponentiate
            Whether to draw exponentials, on a logarithmic axis.
        ax
            Where to draw; a new figure by default.

        Raises
        ------
        ArgumentError
            If there is no such term.
        HdpError
            If matplotlib is not installed.
        """
        terms, places = self.estimate.terms, self._places()
        first = next((terms[place] for place in places if terms[place] != "Intercept"), terms[0])
        place = tables.place_of(self.estimate, first if term is None else term)
        rows = [
            plots.ForestRow(label=node.path[-1], depth=node.level, estimate=node.estimate, is_group=bool(node.members))
            for node in self.nodes
        ]
        label = f"{self.facts.exponentiated} of {terms[place]}" if exponentiate else terms[place]
        return plots.plot_forest(rows, place, label=label, exponentiate=exponentiate, ax=ax)

    def _report(self, alpha: float = 0.05) -> Report:
        places = self._places()
        few, terms = places[:_TERMS_SHOWN], self.estimate.terms
        first = [terms[place] for place in few]
        rows = [[cell for row in side_by_side([node.estimate], few) for cell in row] for node in self.nodes]
        text, html = ([indent * node.level + node.path[-1] for node in self.nodes] for indent in ("  ", _INDENT))
        return Report(
            title=_TITLE,
            blocks=[
                named_values(self._head()),
                coefficients(self.estimate, places, alpha),
                columns(first, text, rows, only="text"),
                columns(first, html, rows, only="page"),
            ],
            notes=[
                "Combining results is post-processing: it reads released numbers and costs nothing.",
                *self._weights(),
                *(["The other terms of groups are in the aggregate's frame."] if len(terms) > len(few) else []),
            ],
            badges=[f"{self._results} results", "post-processing"],
        )

    def _weights(self) -> list[str]:
        """Say what weights of people may do to all results alike, in a note; nothing without an allowance."""
        allowance = self.nodes[0].allowance
        if allowance is None:
            return []
        largest = float(np.max(np.linalg.norm(allowance, axis=1) / self.estimate.bse.to_numpy(), initial=0.0))
        return [
            "What weights of people may do is taken to be common to all results: the allowance for it does not average "
            f"out, and is up to {largest:.2g} of a standard error of all together. It is in no weight and no scatter."
        ]

    def _places(self) -> list[int]:
        """Return the terms to show, covariates first."""
        return shown_places(self.facts, self.estimate)

    @property
    def _results(self) -> int:
        return sum(not node.members for node in self.nodes)

    def _head(self) -> list[tuple[str, str]]:
        levels = f"{len(self.between)} {'level' if len(self.between) == 1 else 'levels'}"
        rows = [
            ("Model:", f"{self.facts.model}, {self.facts.formula}"),
            ("Combined:", f"{self._results} results in {levels}"),
            ("Intervals:", _INTERVALS[self.interval]),
        ]
        rows += [
            (f"Level {level}:", f"members {BETWEEN_WORDS[method]}")
            for level, method in enumerate(self.between, start=1)
        ]
        rows += stored_rows([each for sets in self.data_sets for each in sets])
        return rows + [("" if place else "Privacy:", words) for place, words in enumerate(self._guarantees())]

    def _guarantees(self) -> list[str]:
        """Say what all results keep together for one person: see `guarantees_in_words`."""
        accounts = [accounts_of(sets) if all(each.account for each in sets) else frozenset() for sets in self.data_sets]
        return guarantees_in_words(list(zip(accounts, self.guarantees, strict=True)))

    def __repr__(self) -> str:
        number = len(self.nodes) - self._results
        groups = "1 group" if number == 1 else f"{number} groups"
        return f"<aggregate of {self._results} results in {groups}: {self.facts.model}>"


def guarantees_in_words(results: Sequence[tuple[frozenset[str], Guarantee]]) -> list[str]:
    """Say what all results keep together for one person, who is in one data set only, relation by relation.

    An epsilon under one relation says nothing about neighbours under another. ``results`` are the accounts of each and
    its guarantee; one of which an account is not known, which has none, may be of the same people as any other.
    """
    by_relation: dict[Relation, list[tuple[frozenset[str], Guarantee]]] = {}
    for known, each in results:
        by_relation.setdefault(each.relation, []).append((known, each))
    guarantees = {relation: over_data_sets(given) for relation, given in by_relation.items()}
    return [
        f"{together.words} at most for one {together.unit} ({relation.value}), whose records are in one data set "
        + "only"
        + (f": at most {together.listed}" if together.parts else "")
        for relation, together in guarantees.items()
    ]


def _rows(node: Node, *, weight: FloatArray, conf_level: float) -> pd.DataFrame:
    tidy = tables.tidy(node.estimate, conf_level=conf_level)
    known = node.degrees > 0
    tidy.insert(0, "level", node.level)
    tidy.insert(1, "path", " / ".join(node.path))
    tidy.insert(2, "name", node.path[-1])
    tidy.insert(3, "members", node.members)
    return tidy.assign(
        weight=weight,
        tau=node.tau,
        scatter=node.scatter,
        scatter_p_value=chdtrc(node.degrees, node.scatter) if known else np.nan,
    )
