"""Requests that are as much work for a site as its limits permit, to every address."""

from fractions import Fraction

from hdpstats.custodian.app import MOST_DUMMY, MOST_DUMMY_CELLS
from hdpstats.custodian.settings import Limits
from hdpstats.formulas.compiler import compile_one_sided
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.mechanisms.hybrid_weights import DistanceQuery, NeighboursQuery
from hdpstats.mechanisms.importance_weights import ColumnBox, DensityRatioModel, ImportanceWeightsQuery
from hdpstats.records.geometry import PointColumn, PointSpace
from hdpstats.records.limits import MOST_PUBLIC_NUMBERS
from hdpstats.schema.public import PublicTable
from hdpstats.sites.messages import public_to_bytes
from tests.custodian.people import SCHEMA, people
from tests.custodian.test_refusals import histogram


def filled(unit, size, *, first="[", last="1]"):
    """Return a text of about so many bytes that repeats a unit."""
    return (first + unit * ((size - len(first) - len(last)) // len(unit)) + last).encode()


def worst(size):
    """Return texts of about so many bytes that take long to read, by what they are made of."""
    query = histogram().to_json()
    replicate = query.partition('"replicate":')[0] + '"replicate":'
    return {
        "lists": filled("[],", size),
        "lists in a query": filled("[],", size, first=f"{replicate}["),
        "lists in lists": filled("[" * 500 + "]" * 500 + ",", size),
        "objects": filled("{},", size),
        "names": ("{" + ",".join(f'"{number:x}":1' for number in range(size // 11)) + "}").encode(),
        "whole numbers": filled("1,", size),
        "long whole numbers": filled("9" * 4299 + ",", size),
        "numbers": filled("2.2250738585072011e-308,", size),
        "texts": filled('"a",', size),
        "depth": b"[" * size,
    }


def valid(size):
    """Return a query that is one, and about as long as may be."""
    cuts = tuple(number / 7 for number in range(1, size // 20))
    axis = Axis(name="secret", cuts=cuts)
    text = HistogramQuery(axes=(axis,), epsilon=histogram().epsilon, schema_sha256=SCHEMA.sha256).to_json().encode()
    assert size // 2 < len(text) <= size
    return text


def about(table):
    """Return questions about as many public rows as may be handed over."""
    names = ("x", "k", "time", "secret")
    bounds = {name: (float(table.numbers[name].min()), float(table.numbers[name].max())) for name in names}
    numbers = [PointColumn(name=name, lower=lower, upper=upper) for name, (lower, upper) in bounds.items()]
    space = PointSpace(columns=(*numbers, PointColumn(name="g", levels=3)))
    common = {"epsilon": Fraction(1), "schema_sha256": SCHEMA.sha256, "public_sha256": table.sha256}
    formula = f"~ ns(x, df={MOST_PUBLIC_NUMBERS // table.rows - 1})"
    columns = tuple(name for name in compile_one_sided(formula, SCHEMA).names if name != "Intercept")
    D = len(columns)
    coding = ColumnBox(location=(0.0,) * D, scale=(1.0,) * D, lower=(-1.0,) * D, upper=(1.0,) * D, intercept=True)
    model = DensityRatioModel(formula=formula, columns=columns, coding=coding)
    return [
        NeighboursQuery(space=space, support=None, **common),
        NeighboursQuery(space=PointSpace(columns=(space.columns[-1],)), support=None, **common),
        DistanceQuery(space=space, support=None, reach=2.0, **common),
        ImportanceWeightsQuery(
            model=model, perturbs="output", centre=(0.0,) * (D + 1), ridge=Fraction(10**6), **common
        ),
    ]


def requests():
    """Return requests to every address, as hard as the limits permit, without a question that is charged."""
    public = PublicTable.from_frame(people(200_000, seed=2), SCHEMA, ())
    table = public_to_bytes(public)
    limits = Limits()
    assert limits.public / 2 < len(table) <= limits.public
    found = [("GET", "/v1/facts", None), ("GET", "/v1/ledger", None), ("PUT", "/v1/public", table)]
    most = min(MOST_DUMMY, MOST_DUMMY_CELLS // (len(SCHEMA) + 1))
    found.append(("GET", f"/v1/dummy?rows={most}&seed=1", None))
    bodies = [*worst(limits.query).values(), histogram().to_json().encode()]
    found += [("POST", f"/v1/{name}", body) for name in ("cost", "answer") for body in bodies]
    found.append(("POST", "/v1/cost", valid(limits.query)))
    found += [("POST", "/v1/cost", query.to_json().encode()) for query in about(public)]
    found += [("PUT", "/v1/public", body) for body in worst(limits.public).values()]
    found += [("POST", "/v1/answer", filled("[],", 16_000_000)), ("GET", "/v1/nothing", None)]
    return found
