"""Request files that somebody altered: their bytes, their JSON, and what their fields say."""

import json

import numpy as np

from hdpstats.records import codec

VALUES = (
    *(None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e-300, 1e14, 1e300, 2**53 + 1, -(10**30), 10**400),
    *("", "x", "y", "g", "secret", "nobody", "1", "0.5", "é", "\u202e", "\ud800", "\x1b[2J", "\n", "a" * 3000, "y ~ x"),
    *("Surv(time, event) ~ g", "within", "auto", "../..", "NaN"),
    *([], [1], [0.5, 1], [[1]], ["x"], ["x", "x"], ["x", "g", "k"], [6], [6, 12], [None], {}, {"a": 1}),
)
"""What a field may be exchanged for."""

KEYS = ("", "a", "epsilon", "Epsilon", "epsilon ", "еpsilon", "delta", "by", "times", "quantiles", "replicate", "kind")
"""What a key may be exchanged for; one has a letter of another alphabet."""

BYTES = tuple(
    bytes([number]) for number in (0, 9, 10, 13, 32, 34, 39, 44, 45, 46, 48, 57, 58, 91, 92, 93, 101, 123, 125)
)


def places(value, path=()):
    """Yield the way to each value within a JSON value."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in parts:
        of_cells = name == "columns" and path == ("public",) and isinstance(each, dict)
        if not (
            of_cells and all(isinstance(cells, list) for cells in each.values())
        ):  # of cells the first few are enough
            yield from places(each, (*path, name))
        else:
            yield from ((*path, "columns"), *((*path, "columns", column) for column in each))
            yield from (
                (*path, "columns", column, row) for column, cells in each.items() for row in range(min(len(cells), 3))
            )


def _chosen(rng, options):
    return options[int(rng.integers(len(options)))]


def _parent(fields, path):
    for name in path[:-1]:
        fields = fields[name]
    return fields


def _deeper(value, depth):
    for _ in range(depth):
        value = [value]
    return value


def of_fields(rng, text):
    """Return canonical JSON in which one or two fields are others."""
    fields = json.loads(text)
    for _ in range(1 + int(rng.integers(2))):
        ways = [path for path in places(fields) if path]
        if not ways:
            break
        path = _chosen(rng, ways)
        parent, name = _parent(fields, path), path[-1]
        match int(rng.integers(8)):
            case 0 | 1 | 2:
                parent[name] = _chosen(rng, VALUES)
            case 3:
                del parent[name]
            case 4 if isinstance(parent, dict):
                parent[_chosen(rng, KEYS)] = _chosen(rng, VALUES)
            case 5 if isinstance(parent, dict):
                parent[_chosen(rng, KEYS)] = parent.pop(name)
            case 6:
                parent[name] = _deeper(parent[name], int(rng.integers(1, 900)))
            case _:
                other = _chosen(rng, [each for each in ways if each[:-1] == path[:-1]])[-1]
                parent[name], parent[other] = parent[other], parent[name]
    try:
        return codec.dumps(fields).encode()
    except (ValueError, TypeError):  # a NaN, keys of several kinds
        return json.dumps(fields, separators=(",", ":")).encode()


def of_amounts(rng, text):
    """Return canonical JSON of a request that spends something else: often another valid request."""
    fields = json.loads(text)
    spending = fields["question"]["spending"]
    amounts = (0.5, 0.25, 0.1, 1, 2, 3, 1e-4, 1e-6, 1e-7, 49.9, 50, 50.1, 1 / 3, 0.1 + 0.2, 0, -1, 1e15, 7e-5)
    spending["epsilon"] = _chosen(rng, amounts)
    if rng.random() < 0.3:
        fields["question"]["options"]["replicate"] = int(rng.integers(1, 10**6))
    if rng.random() < 0.3:
        fields["question"]["options"]["delta"] = _chosen(rng, (0, 1e-6, 1e-9, 0.5, 1e-31, 1, -1))
    return codec.dumps(fields).encode()


def of_text(rng, text):
    """Return JSON of the same meaning, or of none, that is written otherwise."""
    number = '"epsilon":'
    others = ("NaN", "Infinity", "-Infinity", "1e400", "1E0", "+1", "01", "1.", "0x1", "9" * 400, "9" * 5000, "1e-400")
    match int(rng.integers(9)):
        case 0:
            new = text.replace(number, f"{number}{_chosen(rng, others)},{number}", 1)
        case 1:
            new = text.replace(number, f"{number}{_chosen(rng, others)}", 1)
        case 2:
            new = text.replace("epsilon", "\\u0065psilon", 1)
        case 3:
            new = _chosen(rng, ("\ufeff", " ", "\n", "[", "{}", "\x00")) + text
        case 4:
            new = text + _chosen(rng, (text, "\n\n", " ", "]", "\x00", "\r\n"))
        case 5:
            new = text.replace(",", ", ", int(rng.integers(1, 4)))
        case 6:
            new = text.replace('"kind"', '"kind":"logit","kind"', 1)
        case 7:
            new = json.dumps(dict(reversed(list(json.loads(text).items()))), separators=(",", ":"))
        case _:
            new = text.replace("}", ",}", 1)
    return new.encode("utf-8", "surrogatepass")


def of_bytes(rng, text):
    """Return a text with a few bytes changed, left out or repeated, or its beginning."""
    content = text.encode()
    start, size = int(rng.integers(min(len(content), 600))), int(rng.integers(1, 4))
    match int(rng.integers(4)):
        case 0:
            return content[:start]
        case 1:
            return content[:start] + content[start + size :]
        case 2:
            return content[:start] + content[start : start + size] * 2 + content[start + size :]
        case _:
            return content[:start] + _chosen(rng, BYTES) + content[start + 1 :]


def mutants(texts, number, *, seed):
    """Yield altered request files: of each text in turn, in each way in turn."""
    rng = np.random.default_rng(seed)
    ways = (of_fields, of_amounts, of_text, of_bytes, of_fields, of_amounts)
    for each in range(number):
        yield ways[each % len(ways)](rng, texts[(each // len(ways)) % len(texts)])
