"""Whether a rubric can be asked: its templates, and the words that say how to answer.

A rubric whose words ask for another reply than the one that is read would fail on every item, so it
is refused at the start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from judged.values.choices import ClaimVerdict

from judged_server.llm.config.file_tables import Place
from judged_server.llm.rubrics.rubric import (
    ANSWER,
    ANSWER_FIELDS,
    CLAIM,
    CONTEXT_FIELDS,
    NONCE,
    PLACEHOLDER,
    RETRIEVED_TEXT,
    Form,
    Rubric,
)

_FIELDS: dict[Form, tuple[str, ...]] = {
    "verdict": tuple(dict.fromkeys(CONTEXT_FIELDS + ANSWER_FIELDS)),
    "score": tuple(dict.fromkeys(CONTEXT_FIELDS + ANSWER_FIELDS)),
    "grade": tuple(dict.fromkeys(CONTEXT_FIELDS + ANSWER_FIELDS)),
    "dimensions": ANSWER_FIELDS,
    "extraction": ANSWER_FIELDS,
    "verification": (*ANSWER_FIELDS, CLAIM),
}
_SINGLE = re.compile(r"\{([^{}]*)\}")
_OF_CONTEXTS = set(CONTEXT_FIELDS) - set(ANSWER_FIELDS)
_OF_ANSWERS = set(ANSWER_FIELDS) - set(CONTEXT_FIELDS)


def check(rubric: Rubric, place: Place) -> None:
    """Raise SettingsError, by `place` and the key, when `rubric` can't be asked."""
    _check_system(rubric, place)
    _check_user(rubric, place)
    _check_answers(rubric, place)


def _check_system(rubric: Rubric, place: Place) -> None:
    names = _placeholders(rubric.system, "system", [ANSWER], place)
    if len(names) != 1:
        raise place.fault("system", "must hold {{answer}} once, where it says how to answer")


def _check_user(rubric: Rubric, place: Place) -> None:
    known = _FIELDS[rubric.form]
    names = _placeholders(rubric.user, "user", [NONCE, *known], place)
    if NONCE not in names:
        raise place.fault("user", "must hold {{nonce}}, where it says how the texts are marked")
    fields = [name for name in names if name != NONCE]
    if not fields:
        raise place.fault("user", f"must show one or more of {_listed(known)}")
    if len(set(fields)) < len(fields):
        raise place.fault("user", "must show each text once")
    if not _OF_CONTEXTS.isdisjoint(fields) and not _OF_ANSWERS.isdisjoint(fields):
        raise place.fault(
            "user",
            "shows texts of a context (expected_text, retrieved_text) beside texts of an answer; "
            "a rubric is for the one or for the other",
        )
    if rubric.judges_contexts and RETRIEVED_TEXT not in fields:
        raise place.fault(
            "user",
            "must show {{retrieved_text}}, the text of a context that is judged; a rubric for "
            "answers shows {{answer}}, {{reference}}, {{references}} or {{contexts}}",
        )
    if rubric.form == "verification" and CLAIM not in fields:
        raise place.fault("user", "must show {{claim}}, the one that is checked")
    if rubric.need_contexts and "contexts" not in fields:
        raise place.fault("user", "must show {{contexts}}, which some of the dimensions need")


def _check_answers(rubric: Rubric, place: Place) -> None:
    """Refuse words on how to answer that fit another form of reply than the one that is read."""
    for key in rubric.properties:
        if f'"{key}"' not in rubric.structured_answer:
            raise place.fault("structured_answer", f'must name the key "{key}" in double quotes')
    if rubric.form == "verdict":
        _check_verdict(rubric, place)
    elif rubric.form == "score":
        _check_score(rubric, place)
    elif rubric.form == "grade":
        _check_grade(rubric, place)
    elif rubric.form == "verification":
        words = [verdict.name for verdict in ClaimVerdict]
        rule = "must name " + ", ".join(words) + ", in capitals"
        _check_words(rubric.structured_answer, "structured_answer", words, rule, place)
    for key in ("structured_answer", "plain_answer"):
        if "{{" in getattr(rubric, key):
            raise place.fault(key, "can't hold double braces")


def _check_verdict(rubric: Rubric, place: Place) -> None:
    if not rubric.scored and '"score"' in rubric.structured_answer:
        raise place.fault("structured_answer", 'must not ask for "score" without scored = true')
    rule = "must ask for YES or NO, in capitals"
    _check_words(rubric.plain_answer, "plain_answer", ["YES", "NO"], rule, place)


def _check_score(rubric: Rubric, place: Place) -> None:
    if '"verdict"' in rubric.structured_answer:
        raise place.fault("structured_answer", 'must not ask for "verdict" beside the score')
    if "Score:" not in rubric.plain_answer:
        raise place.fault("plain_answer", "must ask for a line that begins with Score:")


def _check_grade(rubric: Rubric, place: Place) -> None:
    words = [re.escape(word) for word in rubric.grades]
    rule = "must name each of the grades: " + ", ".join(rubric.grades)
    _check_words(rubric.structured_answer, "structured_answer", words, rule, place)
    if "Grade:" not in rubric.plain_answer:
        raise place.fault("plain_answer", "must ask for a line that begins with Grade:")


def _check_words(prose: str, key: str, words: list[str], rule: str, place: Place) -> None:
    if not all(re.search(rf"\b{word}\b", prose) for word in words):
        raise place.fault(key, rule)


def _placeholders(template: str, key: str, known: Sequence[str], place: Place) -> list[str]:
    """Return the names in double braces; a template has none but `known`, so all are filled."""
    names: list[str] = PLACEHOLDER.findall(template)
    rest = PLACEHOLDER.sub("", template)
    if "{{" in rest or "}}" in rest:
        raise place.fault(key, "has double braces that are not around a name")
    for name in _SINGLE.findall(rest):
        if name.strip() in known:  # any other may be meant as it stands: {} is in much prose
            raise place.fault(
                key, f"holds {{{name}}}, which nothing takes the place of; {_write(name.strip())}"
            )
    for name in names:
        if name not in known:
            hint = f"{_write(name.strip())}, without spaces" if name.strip() in known else ""
            hint = hint or f"it may hold {_listed(known)}"
            raise place.fault(key, f"holds {_quoted(name)}, which is not known here; {hint}")
    return names


def _write(name: str) -> str:
    return f"write {_listed([name])}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join("{{" + name + "}}" for name in names)


def _quoted(name: str) -> str:
    """Return an unknown placeholder as it stands, unless it is whole lines of the template."""
    return _listed([name]) if re.fullmatch(r"[^\n]{0,60}", name) else "lines in double braces"
