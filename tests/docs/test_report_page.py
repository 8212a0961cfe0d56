"""docs/race.html, which the site shows, says what a check says today."""

from docs.support import report_page


def test_the_page_says_what_a_check_says():
    """Else: python docs/support/report_page.py"""
    assert report_page.main(["--check"]) == 0
    assert "OperandOverwritten" in report_page.words(report_page.PAGE.read_text())
