"""Pages of studies with several sites: public facts and accounts, every text escaped."""

import pandas as pd

import hdpstats.api as hdp
from hdpstats.jupyter import Accounts
from hdpstats.ledger.export import accounts_html
from hdpstats.sites.study import sites_html

SCHEMA = hdp.Schema(age=hdp.Continuous(20, 90, complete=True))


def study_of(names, sizes, **options):
    frames = {name: pd.DataFrame({"age": [61.25] * size}) for name, size in zip(names, sizes, strict=True)}
    return hdp.Study(private=frames, schema=SCHEMA, budget=hdp.Budget(epsilon=3), **options)


def test_sites_are_named_with_their_public_numbers_and_protected_ones_with_what_is_declared():
    page = study_of(["<Oslo>", "Bergen"], [11, 13])._repr_html_()
    for words in ("&lt;Oslo&gt;", ">11<", ">13<", "in this process", "Privacy spent at &lt;Oslo&gt;"):
        assert words in page
    assert "<Oslo>" not in page
    protected = study_of(["Oslo", "Bergen"], [11, 13], relation="add_or_remove_one", n_max={"Oslo": 500, "Bergen": 700})
    shown = sites_html(protected.sites)
    assert "protected, at most 700" in shown
    assert ">11<" not in shown
    assert ">13<" not in shown


def test_bars_of_many_accounts_open_on_a_click():
    few, many = (study_of([f"site {k}" for k in range(count)], [3] * count) for count in (5, 6))
    assert "<details>" not in accounts_html(few.ledgers)
    folded = accounts_html(many.ledgers)
    assert "<details><summary>Privacy spent at 6 sites</summary>" in folded
    assert folded.count('class="hdp-bar"') == 6


def test_accounts_that_are_kept_elsewhere_are_counted():
    ledgers = study_of(["Oslo", "Bergen"], [3, 3]).ledgers
    some = Accounts(ledgers=ledgers, elsewhere=2)
    assert "2 sites keep their accounts themselves" in some._repr_html_()
    assert repr(some).endswith(
        "2 sites keep their accounts themselves: study.sites[name].account() asks for your part."
    )
    one, none = Accounts(ledgers=ledgers, elsewhere=1), Accounts(ledgers=ledgers, elsewhere=0)
    assert "1 site keeps its account itself" in repr(one)
    assert "account itself" not in repr(none)
    assert "Oslo: Ledger of dataset 'Oslo'" in repr(none)
