"""Whether a rubric can be asked: its templates, and the words that say how to answer.

A rubric whose words ask for another reply than the one that is read would fail on every item, so it
is refused at the start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from judged.values.choices import ClaimVerdict

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

_EITHER = tuple(dict.fromkeys(CONTEXT_FIELDS + ANSWER_FIELDS))
_FIELDS: dict[Form, tuple[str, ...]] = {
    **dict.fromkeys(("verdict", "score", "grade"), _EITHER),
    "dimensions": ANSWER_FIELDS,
    "extraction": ANSWER_FIELDS,
    "verification": (*ANSWER_FIELDS, CLAIM),
}
_SINGLE = re.compile(r"\{([^{}]*)\}")
_OF_CONTEXTS = set(CONTEXT_FIELDS) - set(ANSWER_FIELDS)
_OF_ANSWERS = set(ANSWER_FIELDS) - set(CONTEXT_FIELDS)


def check(rubric: Rubric) -> None:
    """Raise ValueError, which names the key, when `rubric` can't be asked."""
    if len(_placeholders(rubric.system, "system", [ANSWER])) != 1:
        raise ValueError("system must hold {{answer}} once, where it says how to answer")
    _check_user(rubric)
    answer, plain = rubric.structured_answer, rubric.plain_answer
    for key in rubric.properties:
        if f'"{key}"' not in answer:
            raise ValueError(f'structured_answer must name the key "{key}" in double quotes')
    if rubric.form == "verdict" and not rubric.scored and '"score"' in answer:
        raise ValueError('structured_answer must not ask for "score" without scored = true')
    if rubric.form == "score" and '"verdict"' in answer:
        raise ValueError('structured_answer must not ask for "verdict" beside the score')
    grades = ", ".join(rubric.grades)
    claims = [verdict.name for verdict in ClaimVerdict] if rubric.form == "verification" else []
    _check_words(answer, rubric.grades, f"structured_answer must name each of the grades: {grades}")
    _check_words(answer, claims, f"structured_answer must name {', '.join(claims)}, in capitals")
    if rubric.form == "verdict":
        _check_words(plain, ["YES", "NO"], "plain_answer must ask for YES or NO, in capitals")
    line = {"score": "Score:", "grade": "Grade:"}.get(rubric.form, "")
    if line not in plain:
        raise ValueError(f"plain_answer must ask for a line that begins with {line}")
    for key in ("structured_answer", "plain_answer"):
        if "{{" in getattr(rubric, key):
            raise ValueError(f"{key} can't hold double braces")


def _check_words(prose: str, words: Sequence[str], says: str) -> None:
    if not all(re.search(rf"\b{re.escape(word)}\b", prose) for word in words):
        raise ValueError(says)


def _check_user(rubric: Rubric) -> None:
    known = _FIELDS[rubric.form]
    names = _placeholders(rubric.user, "user", [NONCE, *known])
    if NONCE not in names:
        raise ValueError("user must hold {{nonce}}, where it says how the texts are marked")
    fields = [name for name in names if name != NONCE]
    if not fields:
        raise ValueError(f"user must show one or more of {_listed(known)}")
    if len(set(fields)) < len(fields):
        raise ValueError("user must show each text once")
    if not _OF_CONTEXTS.isdisjoint(fields) and not _OF_ANSWERS.isdisjoint(fields):
        raise ValueError(
            "user shows texts of a context (expected_text, retrieved_text) beside texts of an "
            "answer; a rubric is for the one or for the other"
        )
    if rubric.judges_contexts and RETRIEVED_TEXT not in fields:
        raise ValueError(
            "user must show {{retrieved_text}}, the text of a context that is judged; a rubric for "
            "answers shows {{answer}}, {{reference}}, {{references}} or {{contexts}}"
        )
    if rubric.form == "verification" and CLAIM not in fields:
        raise ValueError("user must show {{claim}}, the one that is checked")
    if rubric.need_contexts and "contexts" not in fields:
        raise ValueError("user must show {{contexts}}, which some of the dimensions need")


def _placeholders(template: str, key: str, known: Sequence[str]) -> list[str]:
    """Return the names in double braces; a template has none but `known`, so all are filled."""
    names: list[str] = PLACEHOLDER.findall(template)
    rest = PLACEHOLDER.sub("", template)
    if "{{" in rest or "}}" in rest:
        raise ValueError(f"{key} has double braces that are not around a name")
    for name in _SINGLE.findall(rest):
        if name.strip() in known:  # any other may be meant as it stands: {} is in much prose
            raise ValueError(
                f"{key} holds {{{name}}}, which nothing takes the place of; write "
                f"{_listed([name.strip()])}"
            )
    for name in names:
        if name not in known:
            hint = f"write {_listed([name.strip()])}, without spaces"
            hint = hint if name.strip() in known else f"it may hold {_listed(known)}"
            # As it stands, unless it is whole lines of the template.
            shown = re.fullmatch(r"[^\n]{0,60}", name)
            what = _listed([name]) if shown else "lines in double braces"
            raise ValueError(f"{key} holds {what}, which is not known here; {hint}")
    return names


def _listed(names: Sequence[str]) -> str:
    return ", ".join("{{" + name + "}}" for name in names)
