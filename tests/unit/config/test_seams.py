"""What ``JQ_SEAMS`` may say (see ``jobqueue.config.seams``)."""

import pytest

from jobqueue.config.load import load_settings
from jobqueue.config.seams import Seam, read_seams
from jobqueue.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "seam", "accident"),
    [
        ("claim_jobs.after=kill", "claim_jobs.after", Seam("kill", 1)),
        ("claim_jobs.before=stop@12", "claim_jobs.before", Seam("stop", 12)),
        ("settle_leases.open=cut%0.01", "settle_leases.open", Seam("cut", None, 0.01)),
        ("settle_leases.open=cut%.5", "settle_leases.open", Seam("cut", None, 0.5)),
        ("settle_leases.open=cut%1", "settle_leases.open", Seam("cut", None, 1.0)),
        ("a.after[rows]=kill@2", "a.after", Seam("kill", 2, only="rows")),
        ("a.before[NOT_FOUND]=cut%.5", "a.before", Seam("cut", None, 0.5, "NOT_FOUND")),
    ],
)
def test_a_seam_names_a_statement_a_moment_and_an_accident(
    text: str, seam: str, accident: Seam
) -> None:
    assert read_seams(text) == {seam: accident}


def test_there_may_be_several_or_none() -> None:
    assert list(read_seams(" a.after=kill , b.before=cut@2,")) == ["a.after", "b.before"]
    assert read_seams("") == {}


@pytest.mark.parametrize(
    "text",
    [
        *("x", "x=kill", "x.during=kill", "x.after=boom", "x.after=kill@0", "x.after=kill%2"),
        *("a=b,c", "x.after[]=kill", "x.after[none]=kill", "x[rows].after=kill"),
    ],
)
def test_anything_else_is_a_bad_setting(text: str) -> None:
    with pytest.raises(SettingsError, match=r"JQ_SEAMS: .*is no accident"):
        load_settings(flags={}, env={"JQ_SEAMS": text}, path=None)


def test_an_armed_program_says_so() -> None:
    loaded = load_settings(flags={}, env={"JQ_SEAMS": "x.after=kill"}, path=None)
    assert any("JQ_SEAMS is set" in warning for warning in loaded.warnings)


def test_production_has_no_accidents_on_purpose() -> None:
    env = {"JQ_SEAMS": "x.after=kill", "JQ_ENV": "production"}
    with pytest.raises(SettingsError, match="JQ_SEAMS: is for tests"):
        load_settings(flags={}, env=env, path=None)
