"""The cache of replies: memory within its bound, the store behind it, and time."""

from __future__ import annotations

from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.llm.reply_cache import ReplyCache
from judged_server.store.kept_rows import DAY_S, Row


class FakeStore:
    def __init__(self):
        self.rows: dict[bytes, Row] = {}
        self.asked = 0
        self.closed = False

    async def get(self, keys):
        self.asked += 1
        return {key: self.rows[key] for key in keys if key in self.rows}

    async def keep(self, reply, within_s):
        self.rows[reply.key] = reply

    def close(self):
        self.closed = True


class FakeTime:
    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


def reply(text="yes"):
    return ChatReply(text, FinishReason.STOP, TokenUsage(3, 4), "gpt-1", None, "fp")


def key(number):
    return number.to_bytes(32, "big")


async def keep(cache, number, text="yes"):
    await cache.keep(key(number), reply(text), 60)


async def test_what_was_kept_is_held_and_stored_with_its_time():
    store = FakeStore()
    cache = ReplyCache(1 << 20, store=store, now=FakeTime())
    await keep(cache, 1)
    assert cache.held(key(1)) == reply()
    assert store.rows[key(1)].created == 1_700_000_000
    again = ReplyCache(1 << 20, store=store, now=FakeTime())
    assert again.held(key(1)) is None
    assert await again.stored(key(1)) == reply()
    assert again.held(key(1)) == reply()
    assert store.asked == 1
    assert await again.stored(key(2)) is None


async def test_memory_holds_what_was_used_last_within_its_bytes():
    cache = ReplyCache(10_000)
    for number in range(100):
        await keep(cache, number, "x" * 500)
        assert cache.held(key(0)) is not None
    held = [number for number in range(100) if cache.held(key(number))]
    assert held[0] == 0
    assert held[1:] == list(range(100 - len(held) + 1, 100))
    assert 5 < len(held) < 20


async def test_a_reply_counts_until_its_time_is_over_wherever_it_is():
    time, store = FakeTime(), FakeStore()
    cache = ReplyCache(1 << 20, 100, store, time)
    await keep(cache, 1)
    time.now += 99
    assert cache.held(key(1)) == reply()
    assert await ReplyCache(1 << 20, 100, store, time).stored(key(1)) == reply()
    time.now += 1
    assert cache.held(key(1)) is None
    assert await cache.stored(key(1)) is None
    assert await ReplyCache(1 << 20, 100, store, time).stored(key(1)) is None


async def test_a_reply_from_far_in_the_future_does_not_count():
    time = FakeTime()
    cache = ReplyCache(1 << 20, now=time)
    await keep(cache, 1)
    time.now -= DAY_S + 1
    assert cache.held(key(1)) is None
