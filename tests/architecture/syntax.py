"""The syntax of modules, read once by all tests of their rules."""

import ast
import functools


@functools.cache
def nodes_of(source):
    """Return all nodes of a source, its tree first."""
    return tuple(ast.walk(ast.parse(source)))


def dotted(node):
    """Return a name such as ``np.random.default_rng``, or ``.rvs`` where it is that of a computed value."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
