"""What ``policy=`` and ``workers=`` mean."""

from __future__ import annotations

import pytest

from skewless import partitioners, planners
from skewless.errors import ParameterError
from skewless.histogram import Histogram
from skewless.partitioners import PKG, Hash, Shuffle
from skewless.planners import WrapAround
from skewless.policy import policy_name
from skewless.routing import Routing
from skewless.spark.batch import fixed_routing
from skewless.spark.policies import AUTO, LOCAL, SPARK, resolve_policy

CLASSES = (*partitioners.ALL, *planners.ALL)


@pytest.mark.parametrize("cls", CLASSES, ids=policy_name)
def test_a_name_makes_the_policy_with_the_given_number_of_workers(cls: type) -> None:
    policy = resolve_policy("verb", policy_name(cls), 6, 4)
    assert type(policy) is cls
    assert policy.n_workers == 6


@pytest.mark.parametrize("cls", CLASSES, ids=policy_name)
def test_a_name_without_workers_takes_the_default(cls: type) -> None:
    policy = resolve_policy("verb", policy_name(cls), None, 4)
    assert not isinstance(policy, str)
    assert policy.n_workers == 4


def test_names_are_distinct_and_none_is_reserved() -> None:
    names = [policy_name(cls) for cls in CLASSES]
    assert len(set(names)) == len(names)
    assert not {AUTO, LOCAL, SPARK} & set(names)


@pytest.mark.parametrize("word", [AUTO, LOCAL, SPARK])
def test_the_three_words_stay_words(word: str) -> None:
    assert resolve_policy("verb", word, None, 4) == word
    assert resolve_policy("verb", word, 9, 4) == word


@pytest.mark.parametrize("policy", [PKG(5, d=3), WrapAround(5), Routing.hashing(5)])
@pytest.mark.parametrize("workers", [None, 5])
def test_an_object_is_taken_as_it_is(policy: PKG | WrapAround | Routing, workers: int) -> None:
    assert resolve_policy("verb", policy, workers, 4) is policy


def test_two_numbers_of_workers_must_agree() -> None:
    with pytest.raises(
        ParameterError,
        match=r"^verb: workers=6 but the policy has 5 workers; give one of the two, or the same",
    ):
        resolve_policy("verb", PKG(5), 6, 4)


@pytest.mark.parametrize("workers", [0, -1, 1.5, "8", True])
@pytest.mark.parametrize("policy", ["pkg", "auto", PKG(4)])
def test_bad_numbers_of_workers(policy: str | PKG, workers: object) -> None:
    with pytest.raises(ParameterError, match=r"^verb: workers must be an int of at least 1, got "):
        resolve_policy("verb", policy, workers, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (
            "wrap_arround",
            r"'wrap_arround' is not known \(did you mean 'wrap_around'\?\); there is .*pkg.*local",
        ),
        ("PKG", r"'PKG' is not known \(did you mean 'pkg'\?\)"),
        ("", "'' is not known"),
        (None, "must be a policy object or a name, got NoneType"),
        (PKG, "must be a policy object or a name, got"),
        (["pkg"], "must be a policy object or a name, got list"),
    ],
)
def test_unknown_policies(policy: object, sentence: str) -> None:
    with pytest.raises(ParameterError, match=f"^verb: policy {sentence}"):
        resolve_policy("verb", policy, None, 4)  # type: ignore[arg-type]


# -- policies that learn nothing -----------------------------------------------------------------


def test_fixed_routings() -> None:
    routing = Routing(3, {7: {0: 1.0, 2: 1.0}})
    assert fixed_routing(routing) is routing
    assert fixed_routing(Hash(6, seed=4)) == Routing.hashing(6, seed=4)
    assert fixed_routing(Shuffle(6)) == Routing.shuffling(6)


@pytest.mark.parametrize("cls", CLASSES, ids=policy_name)
def test_a_policy_without_a_fixed_routing_learns(cls: type) -> None:
    policy = resolve_policy("verb", policy_name(cls), 4, 4)
    assert not isinstance(policy, str | Routing)
    fixed = fixed_routing(policy)
    learned = policy.learn(Histogram([1, 2, 3, 4], [700, 100, 100, 100]))
    if fixed is None:
        assert isinstance(learned, Routing)
        assert learned.n_workers == 4
    else:
        histogram = Histogram([1, 2, 3, 4], [700, 100, 100, 100])
        assert learned.loads(histogram).tolist() == fixed.loads(histogram).tolist()
