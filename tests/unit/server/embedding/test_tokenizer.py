"""Windows of token ids: as the tokenizer library itself cuts them, linear, and hard to kill."""

import functools
import itertools
import json
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Flag
from judged_server.domain import plain_form
from judged_server.embedding.base import (
    EMBEDDING_FAILED,
    REJECT,
    TEXT_TOO_LONG,
    TRUNCATE,
    UNSUPPORTED_TEXT,
    WINDOW_MAX,
)
from judged_server.embedding.tokenizer import PIECE_CHARS, WindowTokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.fakes.models import tiny_model
from tests.fakes.models.tiny_model import CAPACITY, VOCABULARY, WINDOW

CLS, SEP, UNK = (VOCABULARY.index(name) for name in ("[CLS]", "[SEP]", "[UNK]"))
TINY = WindowTokenizer(tiny_model.tokenizer(), WINDOW)
PREFIX = "ab: "
PREFIXED = WindowTokenizer(tiny_model.tokenizer(), 2 * WINDOW, PREFIX)


def _library(max_tokens: int | None = None) -> Tokenizer:
    library = Tokenizer.from_buffer(tiny_model.tokenizer())
    library.no_padding()
    library.no_truncation()
    if max_tokens:
        library.enable_truncation(max_tokens)
    return library


def _encode(text, long_text=TRUNCATE, tokenizer=TINY):
    return tokenizer.encode([text], long_text)[0]


def _panicking() -> WindowTokenizer:
    """A tokenizer.json whose pattern makes the library panic, with a BaseException, on x's."""
    pattern = {"Regex": "(x+x+)+y"}  # the regex engine gives up after ten million tries
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return WindowTokenizer(_changed(pre_tokenizer=split), WINDOW)


def _changed(**parts: object) -> bytes:
    return json.dumps(json.loads(tiny_model.tokenizer()) | parts).encode()


@functools.cache
def _tokenizers() -> dict[str, bytes]:
    """A tokenizer.json of each kind that embedding models come with."""
    units = [*string.ascii_lowercase, *string.punctuation, "▁", "aa", "xx", "xxxx", "é", "中"]
    special = ["<s>", "</s>", "<pad>", "<unk>"]
    unigram = Tokenizer(models.Unigram([(unit, -1.0) for unit in special + units], unk_id=3))
    vocabulary = {unit: i for i, unit in enumerate(special + units)}
    bpe = Tokenizer(
        models.BPE(vocabulary, [("a", "a"), ("x", "x"), ("xx", "xx")], unk_token="<unk>")  # noqa: S106
    )
    made = {"WordPiece": tiny_model.tokenizer()}
    for name, library in (("Unigram", unigram), ("BPE", bpe)):
        library.pre_tokenizer = pre_tokenizers.Metaspace()
        library.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
        )
        made[name] = library.to_str().encode()
    return made


def _cpu_s(tokenizer: WindowTokenizer, text: str) -> float:
    begun = time.process_time()
    (encoded,) = tokenizer.encode([text], WINDOW_MAX)
    took = time.process_time() - begun
    assert encoded.fault is None or encoded.fault[0] == UNSUPPORTED_TEXT
    return took


class TestWindows:
    @pytest.mark.parametrize(
        ("tokenizer", "window", "prefix"), [(TINY, WINDOW, ""), (PREFIXED, 2 * WINDOW, PREFIX)]
    )
    @given(text=st.text(max_size=60))
    def test_truncation_is_what_the_library_does(self, tokenizer, window, prefix, text):
        form = prefix + plain_form(text)
        whole, cut = _library().encode(form).ids, _library(window).encode(form).ids
        encoded = _encode(text, tokenizer=tokenizer)
        if encoded.fault is not None:
            assert encoded.fault[0] == UNSUPPORTED_TEXT
            assert UNK in cut or cut == _library(window).encode(prefix).ids
            return
        assert [one.tolist() for one in encoded.windows] == [cut]
        flag = Flag.TRUNCATED if len(whole) > window else Flag.NONE
        assert encoded.flag & ~Flag.UNKNOWN_TOKENS == flag

    @pytest.mark.parametrize(("letters", "fits"), [(CAPACITY, True), (CAPACITY + 1, False)])
    def test_reject_names_both_figures_to_change(self, letters, fits):
        encoded = _encode("a" * letters, REJECT)
        if fits:
            assert encoded.fault is None
            return
        assert encoded.windows == ()
        assert encoded.fault[0] == TEXT_TOO_LONG
        assert f"more than {WINDOW} tokens" in encoded.fault[1]

    @given(st.integers(0, 200))
    def test_windows_cover_every_token_and_overlap(self, words):
        text = " ".join(string.ascii_lowercase[i % 26] for i in range(words))
        whole = _library().encode(text, add_special_tokens=False).ids
        encoded = _encode(text, WINDOW_MAX)
        windows = [window.tolist() for window in encoded.windows]
        assert all(window[0] == CLS and window[-1] == SEP for window in windows)
        inner = [window[1:-1] for window in windows]
        joined = inner[0]
        for before, after in itertools.pairwise(inner):
            assert before[-TINY.overlap :] == after[: TINY.overlap]
            joined += after[TINY.overlap :]
        assert joined == whole
        assert all(len(window) == WINDOW for window in windows[:-1])
        assert encoded.flag == (Flag.WINDOWED if len(windows) > 1 else Flag.NONE)


@functools.cache
def _words(window: int = 16, prefix: str = "") -> WindowTokenizer:
    """A tokenizer of words and of pieces of them, as BERT's."""
    words = ["deploy", "status", "build", "account", "the", "is", "open", ":", ".", "?", "query"]
    letters = [*string.ascii_lowercase, *"абвгдежзиклмнопрстуя", "的"]
    vocabulary = [*tiny_model.VOCABULARY[:5], *words, *letters, *(f"##{i}" for i in letters)]
    vocabulary += ["##ing", "##ed"]
    model = json.loads(tiny_model.tokenizer())["model"]
    model["vocab"] = {token: number for number, token in enumerate(vocabulary)}
    return WindowTokenizer(_changed(model=model), window, prefix)


class TestUnknownTokens:
    """Of a text that the vocabulary does not know little is read, and texts seem to be equal."""

    @pytest.mark.parametrize(
        "text",
        [
            "👍",
            "婚礼",
            "如何重置密码?",
            "ราคาห้องพัก",
            "አዲስ አበባ.",
            "x" * 120,
            "🟢 🔴!",
            "ភ្នំពេញ ជារាជធានី",
            "\ue000\ue001",
            "\U000f0001 \ue002",
            "\x00\x01",
        ],
    )
    def test_a_text_without_a_known_word_has_a_fault(self, text):
        for prefix in ("", "query: "):
            encoded = _encode(text, tokenizer=_words(prefix=prefix))
            assert encoded.windows == ()
            assert encoded.fault[0] == UNSUPPORTED_TEXT
            assert text not in encoded.fault[1]

    @pytest.mark.parametrize(
        ("text", "flagged"),
        [
            ("deploy status: ✅", True),
            ("build 🟢", True),
            (f"the account is {'x' * 101}", True),
            ("москва", True),
            ("да", True),  # every letter is known, and no longer piece
            ("the 的 账户 is open", True),
            ("the account is open. the build is open. status: open 👍", False),
            ("opened building", False),
            ("...?", False),
            ("", False),
        ],
    )
    def test_a_text_with_many_unknown_words_is_flagged(self, text, flagged):
        for prefix in ("", "query: "):
            encoded = _encode(text, tokenizer=_words(24, prefix))
            assert encoded.fault is None
            assert encoded.flag == (Flag.UNKNOWN_TOKENS if flagged else Flag.NONE)

    def test_windows_without_a_known_word_are_left_out(self):
        tokenizer = _words(8)
        encoded = _encode("the account is open. " * 3 + "👍 " * 20, WINDOW_MAX, tokenizer)
        assert encoded.flag == Flag.WINDOWED | Flag.UNKNOWN_TOKENS
        whole = _encode("the account is open. " * 3 + "open " * 20, WINDOW_MAX, tokenizer)
        assert whole.flag == Flag.WINDOWED
        assert 2 <= len(encoded.windows) < len(whole.windows)

    @pytest.mark.parametrize(
        "text",
        [
            "the ac\u00adcount is open",
            "the\u200baccount is\ufeff open",
            "\uff54\uff48\uff45\u3000account is open",
        ],
    )
    def test_a_text_in_another_form_has_the_same_tokens(self, text):
        (window,) = _encode(text, tokenizer=_words()).windows
        (same,) = _encode("the account is open", tokenizer=_words()).windows
        assert window.tolist() == same.tolist()

    def test_only_what_is_judged_counts(self):
        encoded = _encode("the account is open. " * 3 + "👍 " * 20, TRUNCATE, _words(8))
        assert encoded.flag == Flag.TRUNCATED

    def test_a_vocabulary_of_bytes_knows_all(self):
        library = Tokenizer(models.BPE({"a": 0, "Ġ": 1, "b": 2, "Ð": 3, "Ł": 4}, []))
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer = WindowTokenizer(library.to_str().encode(), 8)
        assert _encode("\u041aaa", tokenizer=tokenizer).fault is None


class TestPrefix:
    """A prefix is set before a text, and stands in each of its windows."""

    def test_a_prefix_whose_end_grows_into_the_text_is_cut_there(self):
        raw = _tokenizers()["BPE"]
        library = Tokenizer.from_buffer(raw)
        whole = library.encode("b x" + "x" * 60, add_special_tokens=False).ids
        *head, last = library.encode("b x", add_special_tokens=False).ids
        assert whole[: len(head)] == head
        assert whole[len(head)] != last
        (text,) = WindowTokenizer(raw, WINDOW, "b x").encode(["x" * 60], WINDOW_MAX)
        inner = [window.tolist()[1:-1] for window in text.windows]
        assert len(inner) > 1
        assert all(window[: len(head)] == head for window in inner)
        assert head + [i for window in inner for i in window[len(head) :]] == whole


class TestPieces:
    """Long texts are cut before they are tokenised, and nobody can tell."""

    UNITS = st.sampled_from(
        ["abab", "b1", "!?[", "]--", "中文中", *"a \t\n\u0301\u0327\u200b\u202e\0éﬁİ각😀"]
    )

    @given(
        st.one_of(st.text(max_size=80), st.lists(UNITS, min_size=4, max_size=40).map("".join)),
        st.sampled_from([TRUNCATE, REJECT, WINDOW_MAX]),
        st.integers(1, 6),
    )
    def test_a_text_in_pieces_has_the_windows_of_the_whole(self, text, long_text, chars):
        in_pieces = WindowTokenizer(tiny_model.tokenizer(), WINDOW, piece_chars=chars)
        expected, actual = _encode(text, long_text), _encode(text, long_text, in_pieces)
        assert [w.tolist() for w in actual.windows] == [w.tolist() for w in expected.windows]
        assert (actual.flag, actual.fault) == (expected.flag, expected.fault)

    @pytest.mark.parametrize(
        ("part", "change", "text"),
        [
            ("pre_tokenizer", {"type": "Whitespace"}, "!" * 60),  # one word there
            ("normalizer", {"type": "NFC"}, "中" * 60),
            ("normalizer", None, "中" * 60),
        ],
        ids=["words", "NFC", "no normalizer"],
    )
    def test_other_tokenizers_are_never_cut(self, part, change, text):
        raw = _changed(**{part: change})
        assert self._ids(raw, text, piece_chars=4) == self._ids(raw, text, piece_chars=1000)

    def test_a_special_token_that_could_be_cut_forbids_cutting(self):
        settings = json.loads(tiny_model.tokenizer())
        settings["added_tokens"][4]["content"] = "<< mask"
        settings["model"]["vocab"]["<< mask"] = settings["model"]["vocab"].pop("[MASK]")
        raw, text = json.dumps(settings).encode(), "<< mask" * 20
        assert self._ids(raw, text, piece_chars=4) == self._ids(raw, text, piece_chars=1000)

    def _ids(self, raw: bytes, text: str, piece_chars: int) -> list[list[int]]:
        tokenizer = WindowTokenizer(raw, WINDOW, piece_chars=piece_chars)
        return [window.tolist() for window in _encode(text, WINDOW_MAX, tokenizer).windows]


class TestLinear:
    """Work grows with the text, and ends where the window does."""

    TIMED = 1 << 13

    @pytest.mark.parametrize("kind", ["WordPiece", "Unigram", "BPE"])
    @pytest.mark.parametrize(
        "unit",
        [
            "x",
            "!",
            "a ",
            "中",
            "\0",
            "é",
            "e\u0301",
            "\u200b",
            "\u202e",
            "😀",
            "[CLS]",
            "1a!",
            "\n\t ",
        ],
        ids=ascii,
    )
    def test_work_is_not_quadratic_in_the_text(self, kind, unit):
        """Sixteen times the text, in CPU seconds: linear work takes 16-25 times, quadratic 256."""
        tokenizer = WindowTokenizer(_tokenizers()[kind], WINDOW)
        once = unit * (self.TIMED // len(unit))
        short, long = (min(_cpu_s(tokenizer, text) for _ in range(3)) for text in (once, once * 16))
        assert long < 80 * short

    def test_a_long_text_is_read_no_further_than_its_window(self):
        text = "a " * PIECE_CHARS + "\ud800"  # which the library takes in no piece
        assert _encode(text, TRUNCATE).flag == Flag.TRUNCATED
        assert _encode(text, WINDOW_MAX).fault[0] == EMBEDDING_FAILED


class TestFaults:
    def test_a_panic_is_the_fault_of_its_text_alone(self):
        texts = ["good", "x" * 40, "fine"]
        good, bad, fine = _panicking().encode(texts, TRUNCATE)
        assert bad.fault[0] == EMBEDDING_FAILED
        assert "xx" not in bad.fault[1]
        for text, encoded in (("good", good), ("fine", fine)):
            assert encoded.windows[0].tolist() == _encode(text).windows[0].tolist()

    def test_a_window_without_room_is_a_value_error(self):
        with pytest.raises(ValueError, match="no room"):
            WindowTokenizer(tiny_model.tokenizer(), 2)
