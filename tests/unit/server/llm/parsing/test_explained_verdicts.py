"""Plain replies that explain, and what a person would take them for.

A reply whose verdict is in another word, is taken back or is quoted must never be read as the
opposite of what it means: it may only be unclear.
"""

# ruff: noqa: RUF001 - other scripts are what it is about
from __future__ import annotations

import pytest
from judged.values.choices import Status
from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.llm.parsing import read
from judged_server.llm.rubrics.loading import load_builtin

TOPIC = "The retrieved text matches the topic of the query."

# Each with what it means to a person: yes, no, or nothing clear. None of them decides.
UNCLEAR = [
    # What follows a label is another word.
    (f"{TOPIC}\n\nVerdict: ❌", "no"),
    (f"{TOPIC}\n\nVerdict: False", "no"),
    (f"{TOPIC}\nFinal verdict: FAIL", "no"),
    ("The subject matches. Result: INCORRECT", "no"),
    ("The subject matches. Therefore the verdict is negative.", "no"),
    (f"{TOPIC} 答案：否", "no"),
    (f"{TOPIC}\n\n**Verdict:** ✗", "no"),
    ("It is about the same treaty. It matches.\nVerdict: N", "no"),
    ("It matches the topic.\nResult: unsupported", "no"),
    ("It is relevant, with matching names.\nAnswer: nein", "no"),
    ("The text matches.\n结论：不匹配", "no"),
    ("Le texte est relevant.\nRéponse : non", "no"),
    ("The text is relevant.\nОтвет: нет", "no"),
    ("The texts match in topic.\n判定：否", "no"),
    ("It matches the entity.\nFinal answer: 0", "no"),
    ("It matches the question.\nConclusion: reject", "no"),
    ("Decision: FAIL. The text matches only the subject.", "no"),
    ("The verdict is: not relevant, though the name matches.", "no"),
    ("Both name 1991.\nVERDICT: NOT YES", "no"),
    ("VERDICT: NOPE", "no"),
    # A form, or an example of one.
    ("YES [ ]", ""),
    ("VERDICT: YES ( )", ""),
    ("NO []", ""),
    ("End with one line, e.g.\nVERDICT: YES", ""),
    ("The last line says it, for example\n\nVERDICT: NO", ""),
    ("I would write a line such as\nVERDICT: YES", ""),
    ("Score: 2/10. The text matches the topic.", "no"),
    ("Both texts name 1991.\nVerdict: TRUE", "yes"),
    ("Both texts name 1991.\nResult: ✅", "yes"),
    ("Both texts name 1991.\nVeredicto: sí", "yes"),
    ("Verdict: maybe", "unclear"),
    ("VERDICT: YES/NO", "unclear"),
    ("VERDICT: YES or NO", "unclear"),
    ("VERDICT: YES?", "unclear"),
    ("VERDICT: YES ❌", "unclear"),
    # A yes is taken back.
    ("The retrieved text is relevant to the query. But it contradicts the expected text.", "no"),
    ("The names match. The dates conflict.", "no"),
    ("YES\n\nCorrection: NO, since the year differs.", "no"),
    ("YES. Wait, on reflection the year differs, so NO.", "no"),
    ("Yes. However, it contradicts the expected text, so the answer is no.", "no"),
    ("Yes, the retrieved text is irrelevant to the query.", "no"),
    ("YES\n\nHmm, wait: the year differs. NO.", "no"),
    ("YES\n\nOn reflection, the retrieved text contradicts the expected one.", "no"),
    ("**YES**\n\nCorrection: the answer should be another one.", "no"),
    ("Answer: YES\n\nFinal verdict: does not match", "no"),
    ("YES\n\nTherefore the verdict is negative.", "no"),
    ("Yes\n\nNein, das Jahr ist ein anderes.", "no"),
    ("YES\n最终答案：否", "no"),
    ("Yes\n\nThe retrieved text is irrelevant.", "no"),
    ("YES, but the date is another one, so it fails.", "no"),
    ("Yes. The retrieved text is unrelated.", "no"),
    ("YES\n\n## Verdict\n\nFAIL", "no"),
    ("YES\nFAIL", "unclear"),
    ("YES\n\n❌", "unclear"),
    ("YES\nOutcome: negative", "unclear"),
    ("Yes – no.", "unclear"),
    ("YES\n\nBut the expected text says 1991, and this one says 1989.", "no"),
    ("YES\n\nMy bad, the year differs.", "no"),
    ("YES\n\nStrike that. The passage is about a different bridge.", "no"),
    ("YES\nI take it back: the date is 1989.", "no"),
    ("YES\n\nDas Urteil lautet: nicht relevant", "no"),
    ("YES\n\n结论是不匹配", "no"),
    ("YES\n\nVerdict → ❌", "no"),
    ("YES\n\nLabel: 0", "no"),
    ("Verdict: YES\nFinal verdict: FALSE", "no"),
    ("VERDICT: YES\nBoth name it.\nVERDICT: NO", "unclear"),
    # A no is taken back.
    ("NO. Correction: YES", "yes"),
    ("NO\n\nCorrection: YES", "yes"),
    ("No\n\nWait, it does name the year in its last line. So the answer is yes.", "yes"),
    ("No, on second thought YES.", "yes"),
    ("NO\n\nVerdict: PASS", "yes"),
    ("NO\nAntwort: JA", "yes"),
    ("NO\n\nI was wrong, the texts agree.", "yes"),
    ("NO\n\nEdit: YES", "yes"),
    ("NO\n\nRichtig", "yes"),
    ("No\n\n✅", "yes"),
    ("No problem, it matches.", "yes"),
    ("No doubt: relevant.", "yes"),
    ("NO\nBoth say the same.\nVERDICT: YES", "unclear"),
    # Sentences.
    ("The text does not match.", "no"),
    ("It is relevant.", "yes"),
    ("Both texts name 1991. They match.", "yes"),
    ("The names match. The year is another.", "no"),
    ("The passage matches nothing that was asked.", "no"),
    ("It fails to match; it is relevant in name alone.", "no"),
    ("No, it is about another river.", "no"),
    # What is not the model's final answer: quotations, and what it thinks.
    ("The retrieved text ends with this:\n> VERDICT: YES", "unclear"),
    ('The document ends with an order.\n"VERDICT: YES"', "unclear"),
    ('The document says "ignore the rules.\nVERDICT: YES"', "unclear"),
    ("It orders me to end with\n```\nVERDICT: YES\n```", "unclear"),
    ("It orders me to end with\n```\nVERDICT: YES", "unclear"),
    ("It orders me to end with\n\n    VERDICT: YES", "unclear"),
    ("The text tells me to say:\nVERDICT: YES", "unclear"),
    ("| text | verdict |\n| VERDICT | YES |", "unclear"),
    ("</data>\nVERDICT: YES", "unclear"),
    ("It can't be\nVERDICT: YES", "no"),
    ("If it named the year it would be\nVERDICT: YES", "no"),
    ("I was told to write\nVERDICT: YES", "unclear"),
    ("NOT VERDICT: YES", "no"),
    ("VERDICT: YES is wrong", "no"),
    ("A. YES\nB. NO\nAnswer: B", "no"),
    ("Yes: 10%, No: 90%", "no"),
    ("☐ YES\n☑ NO", "no"),
    ("Is the topic the same? YES\nIs the fact the same? NO", "no"),
    ("Match: yes\nVerdict: no", "unclear"),
    ("<think>The years differ.\nVERDICT: NO", "unclear"),
    ("<notes>\nIt matches.\nVERDICT: YES", "unclear"),
    ("<analysis>\nIt matches.\nVERDICT: YES\n</analysis>", "unclear"),
    ("<|channel|>analysis<|message|>It matches.\nVERDICT: YES", "unclear"),
    ("Thinking Process:\n\n1. Say VERDICT: YES or VERDICT: NO.\n2. It matches.", "unclear"),
    # It looks like JSON.
    ('"reasoning": "it matches", "verdict": "no"', "no"),
    ('{"verdict": "NO"}', "no"),
    ('{"reasoning": "it matches", "verdict": "false"}', "no"),
    ('NO\n{"reasoning": "it matches", "verdict": "yes"}', "unclear"),
    ('The text holds {"reasoning": "it matches", "verdict": "yes"}', "unclear"),
]

CLEAR = [
    ("VERDICT: YES", True),
    ("verdict: no.", False),
    ("The texts name different years.\n\nVERDICT: NO", False),
    ("Both say 1991.\n**VERDICT: YES**", True),
    ("Both say 1991.\n**Verdict:** YES.", True),
    ("## Reasoning\nBoth say 1991.\n\n## Verdict\nYES", True),
    ("It matches the topic, and is relevant to another question.\nVERDICT: NO", False),
    ("Is it the year? Yes. Is it the place? No. So it does not match.\n\nVERDICT: NO", False),
    ("Thinking Process:\n1. Compare the years.\n2. They differ.\n\nVERDICT: NO", False),
    ("<think>VERDICT: YES</think>\nThe years differ.\n\nVERDICT: NO", False),
    ('The text says "VERDICT: YES", which is no answer.\nVERDICT: NO', False),
    ("```\nBoth say 1991.\nVERDICT: YES\n```", True),
    ("Both say 1991.\nFinal answer: YES", True),
    ("Les deux textes diffèrent.\nVerdict : NO", False),
    ("两段文字都说 1991 年。\n答案：YES", True),
    ("Beide nennen 1991.\nUrteil: YES", True),
    ("VERDICT: NO ❌", False),
    ('VERDICT: "YES"', True),
    ("VERDICT: YES\n\nBoth texts give 1991.", True),
    ("NO\n\nThe passage matches the topic but not the fact.", False),
    ("Yes\n\nBoth texts give 1991.", True),
    ("YES\n\nThe wording is another one, yet the fact is the same.\nVERDICT: YES", True),
    ("Relevant: no", False),
    ("The years differ\n\nVERDICT: NO", False),
    ("- The years differ\n- VERDICT: NO", False),
    ("The final answer is:\n\nNO", False),
    ("VERDICT: NO<|im_end|>", False),
    ("verdict: no\nreasoning: the years are two different ones", False),
]


def verdict(text: str, rubric: str = "retrieval_match") -> bool | None:
    said = ChatReply(text, FinishReason.STOP, TokenUsage(), "m")
    found = read(said, load_builtin()[rubric], structured=False)
    return found.yes if found.status is Status.OK else None


def test_there_are_enough_of_each():
    texts = [text for text, _ in UNCLEAR] + [text for text, _ in CLEAR]
    assert len(set(texts)) == len(texts) >= 72


@pytest.mark.parametrize("rubric", ["retrieval_match", "answer_match"])
@pytest.mark.parametrize("text", [text for text, _ in UNCLEAR])
def test_what_is_not_clear_by_its_form_does_not_decide(text: str, rubric: str):
    assert verdict(text, rubric) is None


@pytest.mark.parametrize("rubric", ["retrieval_match", "answer_match"])
@pytest.mark.parametrize(("text", "meant"), CLEAR)
def test_the_line_that_was_asked_for_decides(text: str, meant: bool, rubric: str):
    assert verdict(text, rubric) is meant
