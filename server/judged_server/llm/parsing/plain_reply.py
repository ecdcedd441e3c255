"""A reply in plain words: its last line decides, as in `VERDICT: YES`, or it is one bare line.

A bare YES or NO may be explained below it, unless the explanation takes it back. Sentences are not
interpreted. Whatever else a reply says is unclear: a judge that abstains is seen, one that guesses
is not.
"""

from __future__ import annotations

import re
from functools import lru_cache

from judged.values.choices import Status

from judged_server.llm.chat import REFUSED, ParsedReply, Reason, abstained, failed
from judged_server.llm.parsing.json_reply import has_tags, shortened
from judged_server.llm.rubrics.rubric import Rubric

MAX_CHARACTERS = 1 << 15
"""A longer reply is no answer to a question that asks for one line."""

_APPROVING, _REJECTING = "✅✔✓☑👍🟢", "❌✖✗✘❎👎🔴"
_QUOTES = "\"'“”„‟‘’‚«»‹›「」『』【】`"  # noqa: RUF001
# No `!` before the word, and no `~`, `≠` or `?` at all: they would turn the meaning around.
_BEFORE = f"[ \\t\xa0*_#>{_QUOTES}（）()\\[\\]|•·▪►→⇒=¡:：,.…\\-–—\ufe0f{_APPROVING}{_REJECTING}]*+"  # noqa: RUF001
_AFTER = _BEFORE[:-3] + "!！。]*+"  # noqa: RUF001
_MARKUP = "[*_`\"' \\t\xa0]{0,8}"
# What a model may call its answer; the accusative of a language is not its name for it.
_NAME = (
    "answer|verdict|decision|judge?ment|result|response|output|conclusion|assessment|assistant"
    "|evaluation|outcome|ruling|final|correction"
    "|antwort|urteil|ergebnis|fazit|entscheidung|bewertung|korrektur|réponse|résultat|décision"
    "|respuesta|veredicto|resultado|conclusión|decisión|corrección|risposta|verdetto|risultato"
    "|conclusione|correzione|resposta|veredito|conclusão|decisão|correção|antwoord|oordeel|resultaat"
    "|conclusie|svar|slutsats|konklusion|resultat|vastaus|tulos|odpowiedź|werdykt|wynik|wniosek"
    "|odpověď|verdikt|výsledek|závěr|răspuns|concluzie|válasz|eredmény|cevap|yanıt|sonuç|karar"  # noqa: RUF001
    "|jawaban|kesimpulan|hasil|kết luận|đáp án|câu trả lời|ответ|вердикт|вывод|итог|результат"
    "|заключение|исправление|відповідь|висновок|απάντηση|συμπέρασμα|答案|回答|答え|结论|結論|结果"
    "|結果|判定|判断|判決|更正|訂正|결론|답변|답|판정|결과|정정|उत्तर|निष्कर्ष|الجواب|الإجابة|النتيجة|الحكم"
    "|תשובה|מסקנה"
)
_OWN = "(?:(?:the|my|final|overall|is) ){0,3}(?:最终|最終|最后|最後)?"
_IS = r"is|are|was|should be|ist|lautet|est|es|è|é|är|er|jest|on"
_LABEL = (
    f"{_OWN}(?:(?:{_NAME})(?:{_MARKUP}[:：=–—-]|\\ (?:{_IS})\\b)"  # noqa: RUF001
    f"|(?:relevant|relevance|match|matches|retrieval_match){_MARKUP}[:：=–—-])"  # noqa: RUF001
)
_SAID = "(?P<said>(?-i:[yY][eE][sS]|[nN][oO]))"  # a long s is another letter
_LINE = re.compile(
    f"{_BEFORE}(?:{_LABEL}{_BEFORE}){{0,3}}{_SAID}{_AFTER}"
    r"(?:<\|[a-z_]{1,20}\|>|</s>|<eos>|<end_of_turn>)?",  # where a server leaves it in the text
    re.IGNORECASE,
)
_LABELLED = re.compile(f"{_BEFORE}{_LABEL}", re.IGNORECASE)
_HEADING = re.compile(f"{_BEFORE}{_OWN}(?:{_NAME})(?:\\ (?:{_IS})\\b)?{_BEFORE}", re.IGNORECASE)
_LEADING = re.compile(f"{_BEFORE}(?:{_LABEL}{_BEFORE}){{0,3}}{_SAID}(?= ?[.,:;!-])", re.IGNORECASE)
_WORD = re.compile(rf"(?<![^\W_]){_SAID}(?![^\W_])")
# A line that may be somebody else's words: a quotation, a row of a table, a piece of code.
_QUOTED = re.compile(f" {{4}}|\\t|\\s*[>|{_QUOTES}]")
# A line that the next one may belong to: "It can't be", above a verdict.
_RUNS_ON = re.compile(r"(?! *(?:[-*•#>]|\d+[.)])).*[^\W_,],?", re.DOTALL)
# A line above an example.
_INTRODUCES = re.compile(
    "(?:[:：]|\\b(?:e\\.g\\.|i\\.e\\.|for example|for instance|such as|like),?)[*_` ]*$",  # noqa: RUF001
    re.IGNORECASE,
)
# A box to be ticked: what stands beside it is a choice, not an answer.
_EMPTY_BOX = re.compile("[\\[(（] *[\\])）]")  # noqa: RUF001
# A piece of a prompt or a tag: the model copies a text, or what it thinks is not taken off.
_COPIED = re.compile(
    r"</?[a-z!][^<>\n]{0,40}>|<[|\uff5c]|[|\uff5c]>|[\uff1c\uff1e]|\[/?(?:inst|system_prompt)\]"
    r"|<</?sys>>|&[lg]t;|[\x00-\x08\x1b\u202a-\u202e\u2066-\u2069]",
    re.IGNORECASE,
)
# Behind a bare YES or NO: a label, with what it may be called in running text.
_NAMED = re.compile(
    f"(?:{_NAME}){_MARKUP}(?:[:：=→]|\\ [–—-]\\ |\\b(?:{_IS})\\b|[是为為はが])(?P<rest>.*)",  # noqa: RUF001
    re.IGNORECASE,
)
_CORRECTING = (
    "wait|actually|however|(?-i:But)|correct(?:ion|ed)|mistaken?|reflection|reconsider\\w*"
    "|second thoughts?|(?:take|took) (?:it|that) back|(?:scratch|strike) that|misread|oops|sorry"
    "|my bad|apolog\\w+|instead|retract\\w*|(?:was|that is|that['’]s) wrong"  # noqa: RUF001
)
_TAKES_BACK = {
    True: re.compile(
        "\\b(?:no|nein|non|nej|nee|нет|ні|irrelevant|unrelated|contradict\\w*|mismatch\\w*|wrong"
        f"|incorrect|{_CORRECTING})\\b|[否不{_REJECTING}]|いいえ|아니|لا",
        re.IGNORECASE,
    ),
    False: re.compile(
        f"\\b(?:yes|ja|oui|sí|да|так|{_CORRECTING})\\b|[{_APPROVING}]|是的|はい|네", re.IGNORECASE
    ),
}
_LONGEST_WORD = 20
"""A line of one word, or a label with one, is another answer and no explanation."""

_REFUSAL = re.compile(
    r"\b(?:i|we)(?:'m| am|'re| are)? (?:"
    r"(?:can'?t|cannot|can not|couldn't|could not|won't|will not) (?:\w{1,20} ){0,2}"
    r"(?:help|assist|comply|answer|respond|judge|evaluate|assess|provide|fulfil|fulfill|complete"
    r"|continue|engage|discuss|do|participate|support|process|share|give)"
    r"|(?:unable|not able|not allowed|not permitted|not comfortable)"
    r"|(?:must |have to )?(?:respectfully )?(?:decline|refuse))\b"
)
_REFUSED_WITHIN = 400

# Scores and grades. A model that was asked for 0 to 1 may still grade from 1 to 10 or in percent,
# so a number counts only where nothing suggests another scale.
_BULLET = "[ \\t*_`\"'>#-]{0,8}"
_MARKS = "[ \\t*_`\"']{0,8}"  # no minus: it would be a number's
_SCALE = rf"(?:(?:the |my |final |overall ){{0,2}}%s{_MARKS}[:=：]{_MARKS})"  # noqa: RUF001
_NUMBER = r"(?:[01](?!\.)|[01]?\.[0-9]{1,17})"  # "0." may have lost its digits
_SCORE_LINE = re.compile(rf"{_BULLET}{_SCALE % 'score'}(?P<said>{_NUMBER})\.?{_MARKS}")
# A bare 1 might be the lowest of ten grades; with a point it is a share.
_BARE_SCORE = re.compile(rf"{_MARKS}(?P<said>[01]?\.[0-9]{{1,17}}){_MARKS}")
_ELSEWHERE = r"%s[^\w\n.,+-]{0,12}(?:(?:is|of|was)[^\w\n.,+-]{1,4})?"
# Any number that is said to be a score, in whatever scale; any word that is said to be a grade.
_SCORES = re.compile(_ELSEWHERE % "score" + "([+-]?[0-9.,]*[0-9])")
_GRADES = re.compile(_ELSEWHERE % "grade" + "([+-]?[a-z0-9.,/]+)")

_WANTED = {
    "verdict": "a bare YES or NO, nor does it end with a line VERDICT: YES or VERDICT: NO",
    "score": "a bare score, nor does it end with a line such as Score: 0.8",
    "grade": "a bare grade of the rubric, nor does it end with a line such as Grade: 2",
}


def read(text: str, rubric: Rubric, *, cut: bool) -> ParsedReply:
    """Return the parsed reply to a rubric that asks for a verdict, a score or a grade.

    A reply that is nothing but the answer has no reasoning. One that was `cut` off has no answer:
    what is missing might have taken it back.
    """
    if refuses(text):
        return REFUSED
    if cut:
        return failed(
            Reason.REPLY_TRUNCATED,
            f"the model's reply was cut off before its {rubric.form}; raise max_tokens",
        )
    score = None
    lines = _lines(text) if len(text) <= MAX_CHARACTERS and not has_tags(text) else []
    if lines and rubric.form == "verdict":
        said = verdict_in(text)
        score = None if said is None else float(said[0].lower() == "yes")
    elif lines:
        line, lower = _own_last(lines, text).lower(), text.lower()
        score = _score(line, lower) if rubric.form == "score" else _grade(line, lower, rubric)
    if score is None:
        return abstained(
            Reason.UNPARSABLE,
            f"the model's reply is not {_WANTED[rubric.form]}",
        )
    yes = rubric.passes(score) if rubric.form != "verdict" else score == 1
    reasoning = shortened(text) if len(lines) > 1 else ""
    return ParsedReply(Status.OK, yes=yes, score=score, reasoning=reasoning)


def refuses(text: str) -> bool:
    """Say whether a text begins with a refusal to answer."""
    head = text[:_REFUSED_WITHIN].lower().replace("’", "'")  # noqa: RUF001
    return _REFUSAL.search(head) is not None


def verdict_in(text: str) -> re.Match[str] | None:
    """Return the yes or no that decides, where it stands in `text`; None when that is unclear."""
    lines = _lines(text)
    words = list(_WORD.finditer(text)) if lines else []
    if not words:
        return None
    first, last = _answer(lines[0]), _answer(_own_last(lines, text))
    if len(lines) == 1:
        return words[0] if first is not None else None
    if last is not None and _LABELLED.match(lines[-1]):
        said = {_answer(line) for line in lines if _LABELLED.match(line)} | {first}
        leading = _LEADING.match(lines[0])
        against = leading is not None and (leading["said"].lower() == "yes") is not last
        copied = _COPIED.search(text, 0, words[-1].start())
        return words[-1] if said <= {last, None} and not against and not copied else None
    if _QUOTED.match(lines[0]):
        return None
    if first is None or _takes_back(lines[1:], first):
        return None
    return words[0]


def _lines(text: str) -> list[str]:
    """Return the lines that are not blank, a heading like `## Verdict` with what is below it."""
    lines: list[str] = []
    heading = ""
    for line in text.splitlines():
        if heading and line.strip():
            lines.append(f"{heading}: {line}")
            heading = ""
        elif _HEADING.fullmatch(line):
            heading = line.rstrip()
        elif line.strip():
            lines.append(line)
    return [*lines, heading] if heading else lines


def _own_last(lines: list[str], text: str) -> str:
    """Return the last line; "" where it may be quoted: from a text, or as what not to say."""
    if len(lines) == 1:
        return lines[0]
    line, before = lines[-1], lines[-2]
    quoted = _QUOTED.match(line) or sum(map(line.count, _QUOTES)) % 2 or text.count("```") % 2
    joined = f"{before}\n{line}" in text.replace("\r", "") and _RUNS_ON.fullmatch(before)
    return "" if quoted or _INTRODUCES.search(before) or joined else line


def _answer(line: str) -> bool | None:
    """Return what a line says that holds a yes or a no and nothing else, but for labels."""
    found = _LINE.fullmatch(line)
    if found is None or _EMPTY_BOX.search(line):
        return None
    yes = found["said"].lower() == "yes"
    return None if any(mark in line for mark in (_REJECTING if yes else _APPROVING)) else yes


def _takes_back(lines: list[str], yes: bool) -> bool:
    """Say whether an explanation has an answer of its own, or a word that corrects one."""
    for line in lines:
        if _answer(line) is yes:
            continue
        if _TAKES_BACK[yes].search(line) or any(
            _answer(named["rest"]) is not yes for named in _NAMED.finditer(line)
        ):
            return True
        value = re.split("[:：]", line)[-1].strip(" \t*_`#>.!-")  # noqa: RUF001
        is_word = value[:1].isalpha() and len(value) <= _LONGEST_WORD and len(value.split()) == 1
        if (is_word or value in {"0", "1"}) and _answer(value) is not yes:
            return True
    return False


def _score(line: str, text: str) -> float | None:
    """Return the number of the last line, unless another score is named before it."""
    said = _said(line, text, _BARE_SCORE, _SCORE_LINE, _SCORES)
    return float(said) if said is not None and float(said) <= 1 else None


def _grade(line: str, text: str, rubric: Rubric) -> float | None:
    """Return the share of the grade of the last line, unless another one is named before it."""
    said = _said(line, text, *_grade_lines(rubric.grades), _GRADES)
    if said is None:
        return None
    return [grade.lower() for grade in rubric.grades].index(said) / rubric.max_grade


def _said(
    line: str, text: str, bare: re.Pattern[str], labelled: re.Pattern[str], named: re.Pattern[str]
) -> str | None:
    """Return what a whole text says, or its last line behind a label if nothing else is named."""
    if (said := bare.fullmatch(text)) is not None:
        return said["said"]
    said = labelled.fullmatch(line)
    if said is None or {word.rstrip(".,") for word in named.findall(text)} != {said["said"]}:
        return None
    return said["said"]


@lru_cache(maxsize=256)
def _grade_lines(grades: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    words = "|".join(re.escape(grade.lower()) for grade in grades)
    said = rf"(?P<said>{words})(?![\w,/]|\.\w)\.?{_MARKS}"
    return re.compile(_BULLET + said), re.compile(_BULLET + _SCALE % "grade" + said)
