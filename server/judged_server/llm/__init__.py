"""A client of language models: key, cache, one call for equal questions, budget, provider.

The way down: `rubrics` write the prompt; `caller` asks, with `cache` and `budget`;
`models` speak to a provider through its dialect in `providers` and over `transport`; `parsing`
reads what came back. aiohttp appears here and nowhere else.
"""
