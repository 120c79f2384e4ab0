"""What several sites promise together: the largest of each number, as everybody is at one of them."""

from fractions import Fraction

from hdpstats.privacy.budget import Guarantee, over_sites
from hdpstats.privacy.sensitivity import Relation


def promise(epsilon, delta, most_rows=1):
    return Guarantee(
        epsilon=Fraction(epsilon), delta=Fraction(delta), relation=Relation.REPLACE_ONE, unit="person",
        most_rows=most_rows,
    )  # fmt: skip


def test_the_promise_is_the_largest_epsilon_and_the_largest_delta_of_any_site():
    # One site may be pure where another uses its delta. Fails for sums, least numbers, and for the first site's own.
    sites = [promise(1, 0, 3), promise("1/2", "1/1000000"), promise(2, 0), promise("1/4", "1/1000")]
    for order in (sites, sites[::-1]):
        found = over_sites(order)
        assert (found.epsilon, found.delta, found.most_rows, found.sites) == (2, Fraction(1, 1000), 3, 4)


def test_one_site_promises_what_it_promises():
    assert over_sites([promise(1, "1/10")]) == promise(1, "1/10")
