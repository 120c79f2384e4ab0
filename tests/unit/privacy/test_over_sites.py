"""The guarantee of several sites together: the largest of each number, as everybody is at one of them."""

from fractions import Fraction

from hdpstats.privacy.budget import Guarantee, over_sites
from hdpstats.privacy.sensitivity import Relation


def asked_for(epsilon, delta, most_rows=1):
    return Guarantee(
        epsilon=Fraction(epsilon), delta=Fraction(delta), relation=Relation.REPLACE_ONE, unit="person",
        most_rows=most_rows,
    )  # fmt: skip


def test_the_guarantee_is_the_largest_epsilon_and_the_largest_delta_of_any_site():
    # One site may be pure where another uses its delta. Fails for sums, least numbers, and for the first site's own.
    sites = [asked_for(1, 0, 3), asked_for("1/2", "1/1000000"), asked_for(2, 0), asked_for("1/4", "1/1000")]
    for order in (sites, sites[::-1]):
        found = over_sites(order)
        assert (found.epsilon, found.delta, found.most_rows, found.sites) == (2, Fraction(1, 1000), 3, 4)


def test_one_site_has_its_own_guarantee():
    assert over_sites([asked_for(1, "1/10")]) == asked_for(1, "1/10")
