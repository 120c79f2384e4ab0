"""What buying weights of public rows needs of a study: one site with people of one row each, and public rows."""

from hdpstats._base.errors import ArgumentError
from hdpstats.models.model_spec import checked_study
from hdpstats.privacy.relation import Relation
from hdpstats.schema.public import PublicTable
from hdpstats.sites import Site


def both_sides(study: object) -> tuple[Site, PublicTable]:
    """Return the site and the public rows of a study, or say what it lacks."""
    study = checked_study(study, argument="study")
    if study.site is None or study.public is None:
        message = "study must have private records and public ones: hdp.Study(private=..., public=...)"
        raise ArgumentError(message, argument="study")
    if study.unit is not None:
        raise ArgumentError("study must have one row per person; this one has unit=", argument="study")
    if study.relation is Relation.REPLACE_ONE and not study.site.records:
        raise ArgumentError("study must have private records to stand for; it has none", argument="study")
    return study.site, study.public
