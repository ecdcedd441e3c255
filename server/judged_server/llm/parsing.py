"""Parses a language model's reply: from a ChatReply to a ParsedReply.

JSON is tried first, then plain text. Nothing here raises, whatever the reply holds, and no message
quotes it.

A structured reply is read strictly. A yes or no may differ in case, spaces and a full stop; a
trailing comma, a code fence, a few polite words around the object, and the rubric's id as a key
around it are accepted. Nothing else is converted, clamped or guessed: a reply that breaks its
schema shows that the schema was not enforced.

In plain text the last line decides, as in `VERDICT: YES`, or the reply is one bare line. A bare YES
or NO may be explained below it, unless the explanation takes it back. Sentences are not
interpreted. Anything else is unclear: an abstention is visible, a wrong guess is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from judged.values.choices import ClaimVerdict, Status

from judged_server.llm.chat import (
    REFUSED,
    ChatReply,
    FinishReason,
    ParsedReply,
    Reason,
    abstained,
    failed,
)
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, Rubric

MAX_CLAIM_CHARACTERS = 2000
"""A longer claim is not a single statement."""

MAX_WHOLE_GRADE = 10**6
"""Larger integers are no grade of any scale; this avoids converting thousands of digits to text."""

_TRIMMED = re.compile(r"\A\s{1,8}|[.!]?\s{0,8}\Z")


class _BreaksRule(ValueError):
    """The reply's JSON breaks the schema; the text says which rule."""


def read_json(text: str, rubric: Rubric) -> ParsedReply:
    """Return the parsed reply of a JSON text; ERROR with the reason SCHEMA when it breaks a rule.

    Takes time linear in the length of `text`. Never raises.
    """
    try:
        reply = _DECODER.decode(text)
        if isinstance(reply, dict) and reply.keys() == {rubric.id} - rubric.properties.keys():
            reply = reply[rubric.id]
        return _parsed(_values(reply, rubric), rubric)
    except _BreaksRule as broken:
        problem = str(broken)
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError:  # not JSON, or an integer of thousands of digits
        problem = "it is not one JSON object"
    return failed(Reason.SCHEMA, f"the model's reply breaks its schema: {problem}")


def _parsed(values: Mapping[str, Any], rubric: Rubric) -> ParsedReply:
    """Return the parsed reply of a schema's values, by the rubric's form."""
    yes, score = False, values.get("score", 0.0)
    if rubric.form == "dimensions":
        named = {name: values[name] for name in values if name != "reasoning"}
        return ParsedReply(Status.OK, reasoning=values["reasoning"], dimensions=named)
    if rubric.form == "extraction":
        return ParsedReply(Status.OK, claims=values["claims"])
    if rubric.form == "verification":
        checked = ClaimVerdict[values["verdict"]]
        return ParsedReply(Status.OK, reasoning=values["evidence"], checked=checked)
    if rubric.form == "verdict":
        yes = values["verdict"] == "yes"
        score = score if rubric.scored else float(yes)
    else:
        if rubric.form == "grade":
            score = rubric.grades.index(values["grade"]) / rubric.max_grade
        yes = rubric.passes(score)
    return ParsedReply(Status.OK, yes=yes, score=score, reasoning=values["reasoning"])


def _values(reply: object, rubric: Rubric) -> dict[str, Any]:
    """Return the value of each key in the schema. Raises _BreaksRule, also for extra keys."""
    rules = rubric.properties
    if not isinstance(reply, dict):
        raise _BreaksRule("it is not an object")
    for key in sorted(rules):
        if key not in reply:
            raise _BreaksRule(f"{key} is missing")
    if len(reply) > len(rules):
        raise _BreaksRule("it has more keys than " + ", ".join(sorted(rules)))
    found: dict[str, Any] = {
        key: _value(key, reply[key], rule, rubric) for key, rule in rules.items()
    }
    reasoning = reply.get("reasoning", "")
    # Only whole numbers: 1.0 is a share. A grade is a text here.
    ones = [key for key in found if found[key] == 1 and isinstance(reply[key], int)]
    if ones and _LOWEST.search(reasoning):
        raise _BreaksRule(f"{ones[0]} is 1, which by its reasoning is the lowest of a scale")
    if rubric.form == "verdict":
        words = _OPENS.match(reasoning), _CLOSES.search(reasoning[-80:])
        if {word.lastgroup for word in words if word} - {found["verdict"]}:
            raise _BreaksRule("its reasoning gives the other verdict")
    if rubric.form == "grade" and _on_other_scale(reasoning, rubric):
        raise _BreaksRule("its reasoning names another scale than the rubric's")
    return found


def _value(key: str, value: object, rule: Mapping[str, Any], rubric: Rubric) -> object:
    """Return the value of a key, checked by its rule. Raises _BreaksRule."""
    if rule["type"] == "array":
        return _claims(value)
    if rule["type"] == "number":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _BreaksRule(f"{key} is not a number")
        if not 0 <= value <= 1:  # NaN fails too
            raise _BreaksRule(f"{key} is outside of 0 to 1")
        return abs(float(value))  # no -0.0
    if "enum" in rule:
        return _word(key, value, rule["enum"], exact=rubric.form == "verification")
    if not isinstance(value, str):
        raise _BreaksRule(f"{key} is not a string")
    if not _is_unicode(value):
        raise _BreaksRule(f"{key} holds a lone surrogate")
    return shortened(value)


def _word(key: str, value: object, words: Sequence[str], *, exact: bool) -> str:
    """Return the one of some words that a value is. Raises _BreaksRule."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_WHOLE_GRADE:
        value = str(value)  # without a schema: 2, not "2"
    if isinstance(value, str) and not exact:
        word = _TRIMMED.sub("", value).lower()
        value = next((each for each in words if each.lower() == word), "")
    if value not in words:
        raise _BreaksRule(f"{key} is none of " + ", ".join(words))
    return str(value)


def _claims(claims: object) -> tuple[str, ...]:
    if not isinstance(claims, list):
        raise _BreaksRule("claims is not a list")
    if len(claims) > MAX_CLAIMS:
        raise _BreaksRule(f"claims has more than {MAX_CLAIMS} entries")
    for claim in claims:
        is_text = isinstance(claim, str) and claim.strip() and _is_unicode(claim)
        if not is_text or len(claim) > MAX_CLAIM_CHARACTERS:
            raise _BreaksRule(f"a claim is no text of 1 to {MAX_CLAIM_CHARACTERS} characters")
    return tuple(dict.fromkeys(claims))  # a model that loops repeats itself


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs; refuses duplicate keys, of which json keeps the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _BreaksRule("a key occurs twice")
    return found


def _constant(_: str) -> float:
    raise _BreaksRule("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
_ANY_JSON = json.JSONDecoder()


_TAG = re.compile(
    r"<(?P<ends>/?)(?:think(?:ing)?|thought|reasoning|reflection)>|\[(?P<closes>/?)think\]",
    re.IGNORECASE | re.ASCII,
)
_MAX_TAGS = 64
_FENCE = re.compile(r"```[A-Za-z0-9_+-]{0,20}[ \t]*\r?\n")
_FENCE_END = re.compile(r"\n[ \t]*```\Z")
_FENCE_BEFORE = re.compile(r"```(?:json)?[ \t]*\r?\n\s*\Z", re.IGNORECASE)
_FENCE_AFTER = re.compile(r"\s*\n[ \t]*```(?!\w)")
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
# As above, but strings, even unterminated ones, are kept as they are.
_STRING_OR_COMMA = re.compile(
    rf'("(?:[^"\\]++|\\.)*+(?:"|\\?\Z))|{_TRAILING_COMMA.pattern}', re.DOTALL
)
# Words that are accepted around an object. Any other word might give another answer, take the
# object back, or say that it is a quotation.
_POLITE = re.compile(
    r"(?:[\s.,:;!*_()\ufeff\U0001f642-]|['\u2019]s\b|\b(?:"
    r"a|after|all|an|analysis|and|answer|any|anything|are|as|asked|assessment|"
    r"based|below|both|careful|carefully|certainly|compared|comparing|comparison|"
    r"complete|conclusion|course|decision|done|else|evaluated|evaluating|evaluation|"
    r"feel|final|following|follows|for|format|free|full|further|given|happy|have|"
    r"help|helpful|helps|here|hope|i|if|in|is|it|its|json|judgement|judgment|"
    r"just|know|let|like|me|more|my|need|now|object|of|ok|okay|on|per|"
    r"provided|questions|ready|requested|required|response|result|so|"
    r"structured|sure|texts|thank|thanks|that|the|then|therefore|these|this|to|"
    r"two|valid|ve|verdict|would|you|your"
    r")\b)*+",
    re.IGNORECASE,
)
_MAX_REMARK = 400
_SPACE = "\ufeff \t\r\n\v\f\x85\xa0\u2028\u2029"


# Small models write "No, it does not." and then "yes": which of them is meant is unclear.
_OPENS = re.compile(
    r"[\s*]{0,8}(?:(?P<yes>yes|ja|oui|sí|sì|sim|да|是的|はい)"
    r"|(?P<no>no|nein|non|nej|nee|não|нет|不|否|いいえ|아니요))"
    r"(?: ?[,:;!，。、]|\.(?! ?\d)|\W{0,8}\Z)",  # noqa: RUF001
    re.IGNORECASE,
)
_CLOSES = re.compile(r"\bverdict(?: is|:) \W{0,4}(?:(?P<yes>yes)|(?P<no>no))\W*\Z", re.IGNORECASE)

MAX_REASONING = 2000
"""Characters of reasoning that are kept; an ellipsis replaces the rest."""


def shortened(text: str) -> str:
    """Return `text` cut to MAX_REASONING characters, with U+FFFD for each lone surrogate."""
    if len(text) > MAX_REASONING:
        text = text[: MAX_REASONING - 1] + "…"
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unwrapped(text: str) -> str:
    """Return `text` without its reasoning and a fence around it; "" if nothing is left."""
    return _without_fence(_after_reasoning(text.strip(_SPACE)))


def only_object(text: str) -> str:
    """Return the one JSON object in `text`, if only a fence and polite words surround it; else "".

    Trailing commas are removed.
    """
    start = text.find("{")
    if start < 0:
        return ""
    before, inside = text[:start], text[start:]
    if _TRAILING_COMMA.search(inside):
        inside = _STRING_OR_COMMA.sub(r"\1", inside)
    try:
        end = _ANY_JSON.raw_decode(inside)[1]
    except (ValueError, RecursionError):
        return ""
    after = inside[end:]
    fence, fence_end = _FENCE_BEFORE.search(before), _FENCE_AFTER.match(after)
    if fence and fence_end:
        before, after = before[: fence.start()], after[fence_end.end() :]
    around = f"{before}\n{after}"
    return inside[:end] if len(around) <= _MAX_REMARK and _POLITE.fullmatch(around) else ""


def has_tags(text: str) -> bool:
    """Return whether `text` still has a reasoning tag."""
    return _TAG.search(text) is not None


def _after_reasoning(text: str) -> str:
    """Return the text after the reasoning, "" if a block of reasoning is never closed.

    A text that begins as JSON or as a fence is returned unchanged: tags are part of its content. So
    is one with more than _MAX_TAGS tags.
    """
    if text.startswith(("{", "```")):
        return text
    tags = list(islice(_TAG.finditer(text), _MAX_TAGS + 1))
    if len(tags) > _MAX_TAGS:
        return text
    start, inside, blocks = 0, False, 0
    for tag in tags:
        closes = bool(tag["ends"] or tag["closes"])
        if inside and closes:
            start, inside, blocks = tag.end(), False, blocks + 1
        elif not inside and not closes and not text[start : tag.start()].strip(" \t\n\r\v\f"):
            inside = True
        elif not inside:
            break
    if inside:
        return ""
    if not blocks and len(tags) == 1 and (tags[0]["ends"] or tags[0]["closes"]):
        # A closing tag without an opening one counts if it is alone on its line.
        before, after = text[: tags[0].start()].rstrip(" \t"), text[tags[0].end() :]
        if before.endswith("\n") and after.lstrip(" \t\r")[:1] in {"", "\n"}:
            return after.strip(_SPACE)
    return text[start:].strip(_SPACE)


def _without_fence(text: str) -> str:
    """Return the content of the one fence around the whole of `text`, or `text` unchanged."""
    opening = _FENCE.match(text)
    closing = _FENCE_END.search(text) if opening else None
    if not opening or not closing or closing.start() < opening.end() - 1:
        return text
    inside = text[opening.end() : closing.start()]
    if any(line.lstrip().startswith("```") for line in inside.splitlines()):
        return text
    return inside.strip(_SPACE)


MAX_CHARACTERS = 1 << 15
"""A longer reply does not answer a question that asks for one line."""

_APPROVING, _REJECTING = "✅✔✓☑👍🟢", "❌✖✗✘❎👎🔴🚫⛔☒"
_QUOTES = "\"'“”„‟‘’‚«»‹›「」『』【】`"  # noqa: RUF001
# No `!` before the word, and no `~`, `≠` or `?` at all: they would reverse the meaning.
_BEFORE = f"[ \\t\xa0*_#>{_QUOTES}（）()\\[\\]|•·▪►→⇒=¡:：,.…\\-–—\ufe0f{_APPROVING}{_REJECTING}]*+"  # noqa: RUF001
_AFTER = _BEFORE[:-3] + "!！。]*+"  # noqa: RUF001
_MARKUP = "[*_`\"' \\t\xa0]{0,8}"
# What a model may call its answer, in the nominative: an accusative is not a label.
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
_SAID = "(?P<said>(?-i:[yY][eE][sS]|[nN][oO]))"  # ignoring case would accept a long s
_LINE = re.compile(
    f"{_BEFORE}(?:{_LABEL}{_BEFORE}){{0,3}}{_SAID}{_AFTER}"
    r"(?:<\|[a-z_]{1,20}\|>|</s>|<eos>|<end_of_turn>)?",  # if a server leaves it in the text
    re.IGNORECASE,
)
_LABELLED = re.compile(f"{_BEFORE}{_LABEL}", re.IGNORECASE)
_HEADING = re.compile(f"{_BEFORE}{_OWN}(?:{_NAME})(?:\\ (?:{_IS})\\b)?{_BEFORE}", re.IGNORECASE)
_LEADING = re.compile(f"{_BEFORE}(?:{_LABEL}{_BEFORE}){{0,3}}{_SAID}(?= ?[.,:;!-])", re.IGNORECASE)
_WORD = re.compile(rf"(?<![^\W_]){_SAID}(?![^\W_])")
# A line that may be quoted: a quotation, a row of a table, code.
_QUOTED = re.compile(f" {{4}}|\\t|\\s*[>|{_QUOTES}]")
# A line that may go on in the next one: "It can't be", above a verdict.
_RUNS_ON = re.compile(r"(?! *(?:[-*•#>]|\d+[.)])).*[^\W_,],?", re.DOTALL)
# A line that introduces an example.
_INTRODUCES = re.compile(
    "(?:[:：]|\\b(?:e\\.g\\.|i\\.e\\.|for example|for instance|such as|like),?)[*_` ]*$",  # noqa: RUF001
    re.IGNORECASE,
)
# An empty check box: the word beside it is a choice, not an answer.
_EMPTY_BOX = re.compile("[\\[(（] *[\\])）]")  # noqa: RUF001
# Part of a prompt or a tag: the model copies a text, or its reasoning was not removed.
_COPIED = re.compile(
    r"</?[a-z!][^<>\n]{0,40}>|<[|\uff5c]|[|\uff5c]>|[\uff1c\uff1e]|\[/?(?:inst|system_prompt)\]"
    r"|<</?sys>>|&[lg]t;|[\x00-\x08\x1b\u202a-\u202e\u2066-\u2069]",
    re.IGNORECASE,
)
# After a bare YES or NO: a label, also within a sentence.
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
        f"|incorrect|nope|nah|{_CORRECTING})\\b|[否不않{_REJECTING}]|いいえ|아니|لا"
        "|(?:^|[:：–—])\\W{0,8}(?:(?:not|nu|ikke|inte|ne|nie|não|nem|ei|όχι|hayır|tidak|bukan"  # noqa: RUF001
        "|nicht|kein\\w*|niet|geen|pas|aucun\\w*|ning[uú]n\\w*|nessun\\w*|nenhum\\w*|ingen|inget|не)\\b"
        "|không|ไม่|नहीं|לא|違)",
        re.IGNORECASE,
    ),
    False: re.compile(
        f"\\b(?:yes|yep|yeah|yup|ja|oui|sí|да|так|{_CORRECTING})\\b|[{_APPROVING}]|是的|はい|네"
        "|(?:^|[:：–—])\\W{0,8}(?:s[iì]|sim|da|tak|ano|igen|kyllä|ναι|evet|ya|vâng|ใช่|हाँ|हां|כן|نعم|예)"  # noqa: RUF001
        "(?:[,.!،、]|$)",
        re.IGNORECASE,
    ),
}
_NOTHING = re.compile(r"0(?:[.,]0*)?(?: ?%| ?/ ?\d+)?")
_LONGEST_WORD = 20
"""A line of one word, or a label with one, is another answer and not an explanation."""

_REFUSAL = re.compile(
    r"\b(?:i|we)(?:'m| am|'re| are)? (?:"
    r"(?:can'?t|cannot|can not|couldn't|could not|won't|will not) (?:\w{1,20} ){0,2}"
    r"(?:help|assist|comply|answer|respond|judge|evaluate|assess|provide|fulfil|fulfill|complete"
    r"|continue|engage|discuss|do|participate|support|process|share|give)"
    r"|(?:unable|not able|not allowed|not permitted|not comfortable)"
    r"|(?:must |have to )?(?:respectfully )?(?:decline|refuse))\b"
)
_REFUSED_WITHIN = 400
# A reasoning that begins like this: a schema forces a model that refuses to write a verdict too.
_DECLINES = re.compile(
    rf"\s*(?:(?:(?:i'm|i am) )?(?:very |so )?sorry|i apologi[sz]e|as an ai\b[^.]{{0,60}}?)\b"
    rf"[^.]{{0,20}}?{_REFUSAL.pattern}"
    r"|\s*i(?: am|'m)? (?:can'?t|cannot|won't|will not|unable to|must decline to|refuse to) "
    r"(?:help|assist|comply|engage|participate)\b"
    r"|\s*(?:(?:es )?tut mir leid\b.{0,40}\bkann|lo siento\b.{0,40}\bno puedo"
    r"|(?:je suis )?désolée?\b.{0,40}\bne peux|mi dispiace\b.{0,40}\bnon posso"
    r"|(?:desculpe|sinto muito)\b.{0,40}\bnão posso|[很非常]*(?:抱歉|对不起).{0,40}(?:无法|不能)"
    r"|申し訳.{0,40}(?:できません|かねます))"
)

# Scores and grades. A model that was asked for 0 to 1 may still grade from 1 to 10 or in percent,
# so a number counts only if nothing suggests another scale.
_BULLET = "[ \\t*_`\"'>#-]{0,8}"
_MARKS = "[ \\t*_`\"']{0,8}"  # no minus: it may be a number's sign
_SCALE = rf"(?:(?:the |my |final |overall ){{0,2}}%s{_MARKS}[:=：]{_MARKS})"  # noqa: RUF001
_NUMBER = r"(?:[01](?!\.)|[01]?\.[0-9]{1,17})"  # "0." may have lost its digits
_SCORE_LINE = re.compile(rf"{_BULLET}{_SCALE % 'score'}(?P<said>{_NUMBER})\.?{_MARKS}")
# A bare 1 might be the lowest of ten grades; with a point it is a share.
_BARE_SCORE = re.compile(rf"{_MARKS}(?P<said>[01]?\.[0-9]{{1,17}}){_MARKS}")
_ELSEWHERE = r"%s[^\w\n.,+-]{0,12}(?:(?:is|of|was)[^\w\n.,+-]{1,4})?"
# Any number labelled as a score, on any scale; any word labelled as a grade.
_SCORES = re.compile(_ELSEWHERE % "score" + "([+-]?[0-9.,]*[0-9])")
# A 1 is the lowest grade of such a scale: "1 to 10", "1-5", "1 = worst".
_OTHER_SCALE = re.compile(r"\b[01] ?(?:[-–=]|to) ?(?:[2-9]|100?|five|ten|worst|poor|bad|low)")  # noqa: RUF001
_LOWEST = re.compile(
    rf"\bscale\b.{{0,12}}?{_OTHER_SCALE.pattern}|{_OTHER_SCALE.pattern}.{{0,12}}?\bscale\b"
    r"|\b1 ?(?:/|out of) ?(?:5|100?|five|ten)\b",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"\bscale\b.{0,12}?\b[01] ?(?:[-–]|to) ?(\w+)|\b[01] ?(?:[-–]|to) ?(\w+).{0,12}?\bscale\b",  # noqa: RUF001
    re.IGNORECASE,
)
_GRADES = re.compile(_ELSEWHERE % "grade" + "([+-]?[a-z0-9.,/]+)")

_WANTED = {
    "verdict": "a bare YES or NO, nor does it end with a line VERDICT: YES or VERDICT: NO",
    "score": "a bare score, nor does it end with a line such as Score: 0.8",
    "grade": "a bare grade of the rubric, nor does it end with a line such as Grade: 2",
}


def read_plain(text: str, rubric: Rubric, *, cut: bool) -> ParsedReply:
    """Return the parsed reply to a rubric that asks for a verdict, a score or a grade.

    A reply of only the answer has no reasoning. One that was `cut` off has no answer: the missing
    part might have taken it back.
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
        return abstained(Reason.UNPARSABLE, f"the model's reply is not {_WANTED[rubric.form]}")
    yes = rubric.passes(score) if rubric.form != "verdict" else score == 1
    reasoning = shortened(text) if len(lines) > 1 else ""
    return ParsedReply(Status.OK, yes=yes, score=score, reasoning=reasoning)


def refuses(text: str) -> bool:
    """Return whether a text begins with a refusal to answer."""
    return _REFUSAL.search(_head(text)) is not None


def _head(text: str) -> str:
    return text[:_REFUSED_WITHIN].lower().replace("’", "'")  # noqa: RUF001


def verdict_in(text: str) -> re.Match[str] | None:
    """Return the match of the yes or no in `text` that decides; None if that is unclear."""
    lines = _lines(text)
    words = list(_WORD.finditer(text)) if lines else []
    if not words:
        return None
    first, last = _answer(lines[0]), _answer(_own_last(lines, text))
    if len(lines) == 1:
        return words[0] if first is not None else None
    if last is not None and _LABELLED.match(lines[-1]):
        answers = {_answer(line) for line in lines if _LABELLED.match(line)} | {first}
        leading = _LEADING.match(lines[0])
        against = leading is not None and (leading["said"].lower() == "yes") is not last
        copied = _COPIED.search(text, 0, words[-1].start())
        return words[-1] if answers <= {last, None} and not against and not copied else None
    if _QUOTED.match(lines[0]):
        return None
    if first is None or _takes_back(lines[1:], first):
        return None
    return words[0]


def _lines(text: str) -> list[str]:
    """Return the lines that are not blank; a heading like `## Verdict` is joined to the next."""
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
    """Return the last line; "" if it may be quoted, an example, or the end of a sentence."""
    if len(lines) == 1:
        return lines[0]
    line, before = lines[-1], lines[-2]
    quoted = _QUOTED.match(line) or sum(map(line.count, _QUOTES)) % 2 or text.count("```") % 2
    joined = f"{before}\n{line}" in text.replace("\r", "") and _RUNS_ON.fullmatch(before)
    return "" if quoted or _INTRODUCES.search(before) or joined else line


def _answer(line: str) -> bool | None:
    """Return the answer of a line with only a yes or no and labels; None for any other line."""
    found = _LINE.fullmatch(line)
    if found is None or _EMPTY_BOX.search(line):
        return None
    yes = found["said"].lower() == "yes"
    return None if any(mark in line for mark in (_REJECTING if yes else _APPROVING)) else yes


def _takes_back(lines: list[str], yes: bool) -> bool:
    """Return whether an explanation has another answer, or a word that corrects one."""
    for line in lines:
        if _answer(line) is yes:
            continue
        if _TAKES_BACK[yes].search(line) or any(
            _answer(named["rest"]) is not yes for named in _NAMED.finditer(line)
        ):
            return True
        value = re.split("[:：=]", line)[-1].strip(" \t*_`#>.!()-")  # noqa: RUF001
        is_word = value[:1].isalpha() and len(value) <= _LONGEST_WORD and len(value.split()) == 1
        is_number = _NOTHING.fullmatch(value) if yes else value == "0"
        if (is_word or is_number or value == "1") and _answer(value) is not yes:
            return True
    return False


def _score(line: str, text: str) -> float | None:
    """Return the number of the last line, unless another score is named before it."""
    said = _said(line, text, _BARE_SCORE, _SCORE_LINE, _SCORES)
    is_lowest = said == "1" and _OTHER_SCALE.search(text)
    return float(said) if said and float(said) <= 1 and not is_lowest else None


def _grade(line: str, text: str, rubric: Rubric) -> float | None:
    """Return the score of the last line's grade, unless another grade is named before it."""
    said = _said(line, text, *_grade_lines(rubric.grades), _GRADES)
    if said is None or _on_other_scale(text, rubric):
        return None
    return [grade.lower() for grade in rubric.grades].index(said) / rubric.max_grade


def _on_other_scale(text: str, rubric: Rubric) -> bool:
    """Return whether `text` names a scale of numbers that ends elsewhere than the rubric's."""
    ends = {first or second for first, second in _ENDS.findall(text)}
    return rubric.grades[-1].isdigit() and not ends <= {rubric.grades[-1]}


def _said(
    line: str, text: str, bare: re.Pattern[str], labelled: re.Pattern[str], named: re.Pattern[str]
) -> str | None:
    """Return the value of a bare text, or of its labelled last line if no other value is named."""
    if (said := bare.fullmatch(text)) is not None:
        return said["said"]
    said = labelled.fullmatch(line)
    if said is None or {word.rstrip(".,") for word in named.findall(text)} != {said["said"]}:
        return None
    return said["said"]


@lru_cache(maxsize=256)
def _grade_lines(grades: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    words = "|".join(re.escape(grade.lower()) for grade in grades)
    said = rf"(?<![>#-])(?P<said>{words})(?![\w,/]|\.\w)\.?{_MARKS}"
    return re.compile(_BULLET + said), re.compile(_BULLET + _SCALE % "grade" + said)


PARSER_VERSION = 16
"""Increased with every change of how a reply is read, which can change a score."""

# A word in brackets is decoration: [YES].
_JSON = re.compile(r"\{|\[(?!\s*\w)")

_STOPPED = abstained(Reason.REFUSED, "the provider's safety filter stopped the answer")
_EMPTY = abstained(Reason.UNPARSABLE, "the model's reply holds no answer")
_NO_JSON = failed(Reason.SCHEMA, "the model's reply holds no JSON object")
_PROSE = abstained(
    Reason.UNPARSABLE,
    "the model answered in prose where JSON was asked for; if it takes no schema, "
    'the server\'s operator should set structured = "none" for it',
)
_NO_OBJECT = abstained(
    Reason.UNPARSABLE,
    "the model answered in prose where the rubric asks for JSON; choose another "
    "model for this rubric",
)
_CUT = failed(Reason.REPLY_TRUNCATED, "the model's reply was cut off; raise max_tokens")
_NO_END = failed(
    Reason.REPLY_TRUNCATED,
    "the provider ended the model's reply with a word that says neither that it is whole "
    "nor that it was cut off, so it may have been; raise max_tokens",
)


def read(reply: ChatReply, rubric: Rubric, *, structured: bool) -> ParsedReply:
    """Return the parsed `reply` to `rubric`; `structured` says whether it was given a schema.

    A reply that is one JSON object, or looks like JSON, is read strictly as JSON, whether or not
    JSON was asked for. Any other reply is read as plain text, if the rubric's form allows that; if
    JSON was asked for, only a bare answer counts. A reply that was cut off counts if it is a whole
    JSON object; one with an unknown finish reason also if it is a bare answer.
    """
    finish = reply.finish_reason
    if finish is FinishReason.SAFETY:
        return _STOPPED
    if reply.refusal or finish is FinishReason.REFUSAL:
        return REFUSED
    cut = finish is FinishReason.LENGTH
    text = unwrapped(reply.text)
    asked_json = structured or rubric.takes_json
    if not text:
        nothing = _NO_JSON if asked_json else _EMPTY
        return _CUT if cut else nothing
    found = only_object(text)
    if found or _JSON.match(text) or (asked_json and text.startswith("[")):
        parsed = read_json(found or text, rubric)
        opening = parsed.claims[0] if len(parsed.claims) == 1 else parsed.reasoning
        # The evidence on a claim quotes the contexts.
        if rubric.form != "verification" and _DECLINES.match(_head(opening)):
            return REFUSED
        return _CUT if cut and parsed.status is Status.ERROR else parsed
    if rubric.takes_json:
        parsed = REFUSED if refuses(text) else _NO_OBJECT
    else:
        parsed = read_plain(text, rubric, cut=cut)
        is_answer = parsed.status is Status.OK and not parsed.reasoning
        if structured and not is_answer and parsed.reason is not Reason.REFUSED:
            parsed = _PROSE
        elif finish is FinishReason.OTHER and parsed.status is Status.OK and not is_answer:
            parsed = _NO_END
    return _CUT if cut and parsed.reason is not Reason.REFUSED else parsed
