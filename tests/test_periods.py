"""Which time does a head or a label speak of?"""

from __future__ import annotations

import pytest

from refdesk.periods import TablePeriod, period_from, read_period, spoken_periods

READ = [
    ("Three Months Ended June 25, 2022", "P3M/2022-06-25"),
    ("Nine months ended June 25, 2022", "P9M/2022-06-25"),
    ("Twenty-six weeks ended July 1, 2023", "P6M/2023-07-01"),
    ("53 Weeks Ended January 30, 2021", "P1Y/2021-01-30"),
    ("Years Ended September 30, 2019", "P1Y/2019-09-30"),
    ("Year ended December 31, 2017", "P1Y/2017-12-31"),
    ("2017 Year Ended December 31,", "P1Y/2017-12-31"),
    ("Quarter ended Mar. 31, 2020", "P3M/2020-03-31"),
    ("June 25, 2022", "2022-06-25"),
    ("At December 31, 2019", "2019-12-31"),
    ("Balance at 31 December 2018", "2018-12-31"),
    ("2019", "2019"),
    ("2019(1)", "2019"),
    ("FY 2019", "2019"),
    ("Fiscal 2019", "2019"),
    ("FY19", "2019"),
    ("Q3 2022", "2022-Q3"),
    ("3Q22", "2022-Q3"),
    ("Third Quarter", "Q3"),
    ("June 2022", "2022-06"),
    ("Net sales", ""),
    ("2019 compared with 2018", ""),
    ("Years Ended September 30,", ""),
    ("Change", ""),
    ("12", ""),
]


@pytest.mark.parametrize("said, wanted", READ, ids=[said for said, _ in READ])
def test_a_period_is_read(said: str, wanted: str) -> None:
    found = read_period(said)
    assert str(found) == wanted
    assert period_from(wanted) == found, "its text is all there is to it"


def test_what_a_row_and_a_column_say_together() -> None:
    first, year, day = TablePeriod(quarter=1), TablePeriod(2019), read_period("June 25, 2022")
    assert str(first.within(year)) == str(year.within(first)) == "2019-Q1"
    assert day.within(year) == day and TablePeriod().within(day) == day
    assert not TablePeriod() and year


def test_what_is_no_period() -> None:
    with pytest.raises(ValueError, match="'soon' is no period"):
        period_from("soon")


def test_a_month_is_not_a_day_of_another_month() -> None:
    assert not read_period("Spent by October 2025").is_of(read_period("15.09.2025"))
    assert read_period("September 2025").is_of(read_period("15.09.2025"))
    assert read_period("2025").is_of(read_period("15.09.2025")) and read_period("October 2025").is_of(
        read_period("2025")
    )


def test_the_first_months_of_a_year_are_one_time() -> None:
    text = "paid in the first nine months of 2023"
    assert "first nine months of" in [text[start:end] for start, end in spoken_periods(text)]
    assert str(read_period(text)) == "P9M/2023"
