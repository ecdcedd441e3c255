"""Language models as judges: from a prompt to an opinion, over any provider.

The way down: `rubrics` say what is asked and write the prompt; `models` ask a provider, through its
dialect in `providers` and over `transport`; `parsing` reads what came back; `voting` makes one
verdict of several samples. aiohttp appears here and nowhere else.
"""
