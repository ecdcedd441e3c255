"""What asks a server is there twice, to be called and to be awaited: the same names, arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest
from judged import AsyncClient, Client, evaluation
from judged.evaluation import AsyncEvaluator, Evaluator, aio

CLASSES = [(Client, AsyncClient), (Evaluator, AsyncEvaluator)]


def public(kind: type) -> list[str]:
    """Return the names of a class in their order, those of its bases first."""
    names = [name for base in reversed(kind.__mro__[:-1]) for name in vars(base)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def arguments(function: Callable[..., object]) -> list[str]:
    """Return the parameters of a function in their order, with annotations and defaults."""
    told = [str(each) for each in inspect.signature(function).parameters.values()]
    return [re.sub(r"\bgrpc\.aio\.", "grpc.", text.replace("Async", "")) for text in told]


def result(function: Callable[..., object]) -> str:
    """Return what a function's result is annotated with, a generator's as that of one."""
    told = str(inspect.signature(function).return_annotation)
    return re.sub(r"AsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]", told)


@pytest.mark.parametrize(("plain", "awaited"), CLASSES)
def test_classes_have_the_same_names_in_the_same_order(plain: type, awaited: type) -> None:
    assert public(plain) == public(awaited)
    assert len(public(plain)) > 2


@pytest.mark.parametrize(("plain", "awaited"), CLASSES)
def test_their_methods_take_and_return_the_same(plain: type, awaited: type) -> None:
    for name in ["__init__", *public(plain)]:
        one, other = getattr(plain, name), getattr(awaited, name)
        if not inspect.isfunction(one):
            assert type(one) is type(other), name
            continue
        assert arguments(one) == arguments(other), name
        assert result(one) == result(other), name


def test_functions_over_a_client_are_there_for_both() -> None:
    over_a_client = [
        name
        for name in evaluation.__all__
        if inspect.isfunction(getattr(evaluation, name))
        and "client" in inspect.signature(getattr(evaluation, name)).parameters
    ]
    assert over_a_client == sorted(aio.__all__)
    for name in over_a_client:
        one, other = getattr(evaluation, name), getattr(aio, name)
        assert inspect.iscoroutinefunction(other), name
        assert arguments(one) == arguments(other), name
        assert result(one) == result(other), name
