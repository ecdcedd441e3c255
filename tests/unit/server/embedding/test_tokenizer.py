"""Windows of token ids: as the tokenizer library itself cuts them, linear, and hard to kill."""

import functools
import itertools
import json
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain import Flag
from judged_server.embedding import tokenizer as module
from judged_server.embedding.base import (
    EMBEDDING_FAILED,
    REJECT,
    TEXT_TOO_LONG,
    TRUNCATE,
    WINDOW_MAX,
)
from judged_server.embedding.tokenizer import WindowTokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.fakes.models import tiny_model
from tests.fakes.models.tiny_model import CAPACITY, VOCABULARY, WINDOW

CLS, SEP = VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")
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


class _Panicking:
    """A tokenizer that panics, as Rust does through PyO3: with a BaseException."""

    class PanicException(BaseException):
        pass

    def __init__(self, library, bad="boom"):
        self._library = library
        self._bad = bad

    def encode_batch_fast(self, texts, **options):
        if any(self._bad in text for text in texts):
            raise self.PanicException("a panic in Rust")
        return self._library.encode_batch_fast(texts, **options)


def _panicking() -> WindowTokenizer:
    tokenizer = WindowTokenizer(tiny_model.tokenizer(), WINDOW)
    tokenizer._tokenizer = _Panicking(tokenizer._tokenizer)
    return tokenizer


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
    assert encoded.fault is None
    return took


class TestWindows:
    @given(st.text(max_size=60))
    def test_truncation_is_what_the_library_does(self, text):
        whole, cut = _library().encode(text).ids, _library(WINDOW).encode(text).ids
        encoded = _encode(text)
        assert [window.tolist() for window in encoded.windows] == [cut]
        assert encoded.flag == (Flag.TRUNCATED if len(whole) > WINDOW else Flag.NONE)

    def test_the_files_own_truncation_and_padding_are_off(self):
        assert len(_encode("abc").windows[0]) == 3 + 2
        assert len(_encode("abcdefghi").windows[0]) == 9 + 2

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

    def test_an_empty_text_is_its_special_tokens(self):
        assert _encode("").windows[0].tolist() == [CLS, SEP]


class TestPrefix:
    """A prefix is set before a text, and stands in each of its windows."""

    @given(st.text(max_size=60))
    def test_a_text_has_the_tokens_of_the_library_for_prefix_and_text(self, text):
        (window,) = PREFIXED.encode([text], TRUNCATE)[0].windows
        assert window.tolist() == _library(2 * WINDOW).encode(PREFIX + text).ids

    @given(st.integers(0, 200))
    def test_every_window_begins_with_it(self, words):
        text = " ".join(string.ascii_lowercase[i % 26] for i in range(words))
        whole = _library().encode(text, add_special_tokens=False).ids
        head = _library().encode(PREFIX, add_special_tokens=False).ids
        windows = [w.tolist() for w in PREFIXED.encode([text], WINDOW_MAX)[0].windows]
        joined: list[int] = []
        for window in windows:
            assert window[: 1 + len(head)] == [CLS, *head]
            inner = window[1 + len(head) : -1]
            joined += inner[PREFIXED.overlap :] if joined else inner
        assert joined == whole
        assert all(len(window) <= 2 * WINDOW for window in windows)

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

    def test_a_prefix_that_fills_the_window_is_a_value_error(self):
        with pytest.raises(ValueError, match="no room"):
            WindowTokenizer(tiny_model.tokenizer(), WINDOW, "p" * CAPACITY)
        with pytest.raises(ValueError, match="prefix"):
            WindowTokenizer(tiny_model.tokenizer(), WINDOW, "\ud800")


PADDING = {
    "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None,
    "pad_id": 3, "pad_type_id": 0, "pad_token": "[PAD]",
}  # fmt: skip
PAD_TOKEN = {
    "id": 1, "content": "<pad>", "special": True,
    "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "pad_id"),
    [
        ({}, 0),
        ({"padding": PADDING}, 3),
        ({"padding": None}, 0),
        ({"padding": None, "added_tokens": [PAD_TOKEN]}, 1),
    ],
)
def test_the_padding_token_is_the_files_own(change, pad_id):
    settings = json.loads(tiny_model.tokenizer()) | change
    assert WindowTokenizer(json.dumps(settings).encode(), WINDOW).pad_id == pad_id


class TestPieces:
    """Long texts are cut before they are tokenised, and nobody can tell."""

    ALPHABET = st.sampled_from("ab1 \t\n!?[]-中文é\u0301\u0327\u200b\u202e\0ﬁİ각😀")

    @given(st.one_of(st.text(max_size=80), st.text(ALPHABET, max_size=80)))
    def test_pieces_give_the_tokens_of_the_whole(self, text):
        whole = _library().encode(text, add_special_tokens=False).ids
        pieces = self._in_pieces_of(4, text)
        ids = [
            token
            for piece in pieces
            for token in _library().encode(piece, add_special_tokens=False).ids
        ]
        assert "".join(pieces) == text
        assert ids == whole

    @given(st.text(ALPHABET, max_size=120), st.sampled_from([TRUNCATE, REJECT, WINDOW_MAX]))
    def test_a_text_in_pieces_has_the_windows_of_the_whole(self, text, long_text):
        expected = _encode(text, long_text)
        original = module.PIECE_CHARS
        module.PIECE_CHARS = 5
        try:
            actual = _encode(text, long_text)
        finally:
            module.PIECE_CHARS = original
        assert [w.tolist() for w in actual.windows] == [w.tolist() for w in expected.windows]
        assert (actual.flag, actual.fault) == (expected.flag, expected.fault)

    @pytest.mark.parametrize(
        ("part", "change"),
        [
            ("pre_tokenizer", {"type": "Whitespace"}),
            ("normalizer", {"type": "NFC"}),
            ("normalizer", None),
        ],
    )
    def test_other_tokenizers_are_never_cut(self, part, change):
        settings = json.loads(tiny_model.tokenizer())
        settings[part] = change
        assert TINY._can_cut
        assert not WindowTokenizer(json.dumps(settings).encode(), WINDOW)._can_cut

    def test_a_special_token_that_could_be_cut_forbids_cutting(self):
        settings = json.loads(tiny_model.tokenizer())
        settings["added_tokens"][4]["content"] = "<< mask"
        settings["model"]["vocab"]["<< mask"] = settings["model"]["vocab"].pop("[MASK]")
        assert not WindowTokenizer(json.dumps(settings).encode(), WINDOW)._can_cut

    def _in_pieces_of(self, size, text):
        original = module.PIECE_CHARS
        module.PIECE_CHARS = size
        try:
            return list(module._pieces(text))
        finally:
            module.PIECE_CHARS = original


class TestLinear:
    """Work grows with the text, counted in characters handed to the library, not in seconds."""

    MIB = 1 << 20
    TIMED = 1 << 14

    @pytest.mark.parametrize(
        "text",
        ["x" * MIB, "!" * MIB, "a " * (MIB // 2), "中" * (MIB // 3), "\0" * MIB, "é" * (MIB // 2)],
        ids=["one word", "marks", "letters", "ideographs", "NUL", "accents"],
    )
    def test_each_character_is_handed_over_at_most_once(self, text):
        tokenizer = WindowTokenizer(tiny_model.tokenizer(), WINDOW)
        seen: list[int] = []
        library = tokenizer._tokenizer

        class Counting:
            def encode_batch_fast(self, texts, **options):
                seen.extend(len(text) for text in texts)
                return library.encode_batch_fast(texts, **options)

        tokenizer._tokenizer = Counting()
        (encoded,) = tokenizer.encode([text], TRUNCATE)
        assert encoded.fault is None
        assert len(encoded.windows) == 1
        assert sum(seen) <= len(text)

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
        tokenizer = _panicking()
        text = "a " * module.PIECE_CHARS + "boom"
        assert tokenizer.encode([text], TRUNCATE)[0].flag == Flag.TRUNCATED
        assert tokenizer.encode([text], WINDOW_MAX)[0].fault[0] == EMBEDDING_FAILED


class TestFaults:
    def test_a_panic_is_the_fault_of_its_text_alone(self):
        texts = ["good", "boom", "fine"]
        good, bad, fine = _panicking().encode(texts, TRUNCATE)
        assert bad.fault[0] == EMBEDDING_FAILED
        assert "boom" not in bad.fault[1]
        for text, encoded in (("good", good), ("fine", fine)):
            assert encoded.windows[0].tolist() == _encode(text).windows[0].tolist()

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_what_asks_the_thread_to_stop_is_let_through(self, error):
        tokenizer = WindowTokenizer(tiny_model.tokenizer(), WINDOW)

        class Stopping:
            def encode_batch_fast(self, texts, **options):
                raise error

        tokenizer._tokenizer = Stopping()
        with pytest.raises(error):
            tokenizer.encode(["text"], TRUNCATE)

    def test_a_lone_surrogate_is_the_fault_of_its_text(self):
        bad, good = TINY.encode(["\ud800", "good"], TRUNCATE)
        assert bad.fault[0] == EMBEDDING_FAILED
        assert good.fault is None

    @pytest.mark.parametrize("text", ["a\0b", "\u202eabc", "a\u200bb", "\ufeff", "e\u0301"])
    def test_odd_characters_are_taken(self, text):
        assert _encode(text).fault is None

    @pytest.mark.parametrize("raw", [b"", b"{}", b"\xff", b'{"version": "1.0"}'])
    def test_a_file_that_is_no_tokenizer_is_a_value_error(self, raw):
        with pytest.raises(ValueError, match="not a tokenizer"):
            WindowTokenizer(raw, WINDOW)

    def test_a_window_without_room_is_a_value_error(self):
        with pytest.raises(ValueError, match="no room"):
            WindowTokenizer(tiny_model.tokenizer(), 2)
