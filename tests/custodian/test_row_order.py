"""The order of rows in a site's settings."""

import pytest
import yaml

import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings, open_site
from tests.custodian.people import PRIVATE, SCHEMA


@pytest.fixture
def path(institution):
    return institution.write("row-order", PRIVATE, SCHEMA)


def opened(path, persons):
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"persons": persons}))
    return open_site(SiteSettings.from_yaml(path))


@pytest.mark.parametrize("persons", [{}, {"row_order": "arbitrary"}, {"row_order": "undeclared"}])
def test_the_custodian_declares_the_order_or_leaves_it_undeclared(path, persons):
    assert opened(path, persons).terms.row_order == persons.get("row_order", "undeclared")


def test_another_word_is_refused(path):
    with pytest.raises(hdp.ArgumentError, match="row_order"):
        opened(path, {"row_order": "sorted"})
