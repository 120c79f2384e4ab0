import json

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf


@pytest.fixture(scope="module")
def study():
    schema = hdp.Schema(age=hdp.Continuous(20, 90), event=hdp.Binary(), time=hdp.Duration(2557), hormon=hdp.Binary())
    return hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)


def test_a_file_of_another_format_says_how_it_is_read(study, tmp_path):
    document = json.loads(hdpf.logit("event ~ age", data=study).fit_public().to_json())
    path = tmp_path / "older.json"
    path.write_text(json.dumps(document | {"format": document["format"] - 1}))
    with pytest.raises(hdp.ArgumentError) as error:
        hdp.Result.from_json(path)
    said = str(error.value)
    assert f"it reads format {document['format']}, not {document['format'] - 1}" in said
    assert "read it with the version that wrote it" in said
    assert "make it anew" in said


def test_a_file_of_something_else_names_what_reads_it(study):
    curves = hdpf.survfit("Surv(time, event) ~ hormon", study).fit_public().to_json()
    assert hdp.SurvivalCurves.from_json(curves).to_json() == curves
    with pytest.raises(hdp.ArgumentError, match=r"it is survival curves: hdp\.SurvivalCurves\.from_json reads it"):
        hdp.Result.from_json(curves)
    result = hdpf.logit("event ~ age", data=study).fit_public().to_json()
    with pytest.raises(hdp.ArgumentError, match=r"it is a result: hdp\.Result\.from_json reads it"):
        hdp.SurvivalCurves.from_json(result)
    with pytest.raises(hdp.ArgumentError, match=r"that hdpstats wrote$"):
        hdp.Result.from_json("{}")
