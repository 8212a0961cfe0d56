"""docs/race.html, which the site shows, is what a check writes today."""

from docs.support import report_page


def test_the_page_is_what_a_check_writes():
    """Else: python docs/support/report_page.py"""
    assert report_page.main(["--check"]) == 0
