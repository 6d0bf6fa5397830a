"""Pages: a mapping that is never changed, whatever is derived from it."""

from hypothesis import given
from hypothesis import strategies as st

from distui.runs.state.pages import Pages

NUMBERS = st.integers(min_value=-100, max_value=5000)


@given(st.dictionaries(NUMBERS, st.integers()), st.lists(st.tuples(NUMBERS, st.integers())))
def test_it_is_the_dict_that_the_same_changes_make(start: dict[int, int], changes: list[tuple[int, int]]) -> None:
    """Every step equals a plain dict after the same changes, and no step changes an earlier one."""
    plain, pages = dict(start), Pages(start)
    steps = [(dict(plain), pages)]
    for number, value in changes:
        plain[number] = value
        pages = pages.with_entry(number, value)
        steps.append((dict(plain), pages))

    for expected, found in steps:
        assert found == expected
        assert len(found) == len(expected)
        assert sorted(found) == sorted(expected)


@given(st.dictionaries(NUMBERS, st.integers()))
def test_entries_given_in_order_come_in_order(start: dict[int, int]) -> None:
    """Ranks are listed by number, as the reducer puts them in."""
    assert list(Pages(dict(sorted(start.items())))) == sorted(start)


def test_what_is_not_there_is_missing() -> None:
    """As with a dict: `get` gives None, `in` is false."""
    pages = Pages({1: "a"})

    assert pages.get(2) is None
    assert 700 not in pages
    assert 1 in pages
