"""Client of language models: cache keys, reply cache, shared calls, budgets and providers.

`rubrics` hold the prompts; `caller` asks, using `reply_cache` and `budgets`; `models` call a
provider in its dialect (`providers`) over `transport`; `parsing` reads the reply. aiohttp is used
as a client only here.
"""
