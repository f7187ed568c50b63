"""Every page of a site can be reached from its home page, and every path leads to one page."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.testing.farm.graph import Graph, Paged, Tree, article_path, page_of

graphs = st.one_of(
    st.builds(Tree, st.integers(1, 30)),
    st.builds(Paged, st.integers(1, 30)),
)


@given(graph=graphs, count=st.integers(1, 400))
def test_every_page_has_exactly_one_parent_and_the_home_page_none(graph: Graph, count: int) -> None:
    parents = Counter(child for page in range(count) for child in graph.children(page, count))
    assert parents == Counter(range(1, count))


@given(graph=graphs, count=st.integers(1, 400))
def test_every_path_is_that_of_its_own_page(graph: Graph, count: int) -> None:
    paths = [graph.path(page, count) for page in range(count)]
    assert [page_of(path, graph, count) for path in paths] == list(range(count))
    assert all(graph.path(page, count) == article_path(page) for page in graph.articles(count))


@pytest.mark.parametrize(
    "target",
    ["", "/x", "/stories/quiet-river-0.html", "/stories/wrong-words-6.html", "/list?page=99", "/stories/-5.html", "/5"],
)
@pytest.mark.parametrize("graph", [Tree(), Paged()], ids=repr)
def test_other_paths_are_no_page(graph: Graph, target: str) -> None:
    assert page_of(target, graph, 50) is None


def test_a_list_names_its_articles_and_the_next_page_of_the_list() -> None:
    graph = Paged(2)
    assert [graph.path(page, 8) for page in range(4)] == ["/", "/list?page=1", "/list?page=2", "/list?page=3"]
    assert [list(graph.children(page, 8)) for page in range(5)] == [[1], [4, 5, 2], [6, 7, 3], [], []]
