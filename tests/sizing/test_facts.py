from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.model.hub import Hub
from modelctl.model.safetensors import read_header
from modelctl.sizing.facts import facts_of_folder, facts_of_hub
from tests.support.hub import LocalHub
from tests.support.models import tiny_llama

REPO = "org/tiny"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LocalHub:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return LocalHub()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_bytes_of_a_folder_are_those_of_its_tensors(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "m", shards=2)
    found = facts_of_folder(folder, name="m")
    tensors = [tensor for path in folder.glob("*.safetensors") for tensor in read_header(path).tensors]
    assert found.weight_bytes == sum(tensor.size_bytes for tensor in tensors)
    assert found.dtype_bytes == {"BF16": found.weight_bytes}


def test_a_second_copy_and_what_the_index_does_not_name_are_not_loaded(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "m")
    alone = facts_of_folder(folder, name="m").weight_bytes
    (folder / "consolidated.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert facts_of_folder(folder, name="m").weight_bytes == alone
    sharded = tiny_llama(tmp_path / "s", shards=2)
    (sharded / "extra.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert facts_of_folder(sharded, name="s").weight_bytes == alone


def test_of_the_hub_only_config_and_index_are_fetched(tmp_path: Path, hub: LocalHub) -> None:
    folder = tiny_llama(tmp_path / "m", shards=2)
    with hub:
        hub.push(REPO, files_of(folder))
        client = Hub(endpoint=hub.url)
        found = facts_of_hub(client, client.listing(REPO, "main"))
        fetched = {line.split("/")[-1] for line in hub.requests if "/resolve/" in line}
    assert found.weight_bytes == sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert found.config.num_layers == 2
    assert fetched == {"config.json", "model.safetensors.index.json"}


def test_a_changed_config_is_refused(tmp_path: Path, hub: LocalHub) -> None:
    with hub:
        hub.push(REPO, files_of(tiny_llama(tmp_path / "m")))
        hub.faults.flipped.add("config.json")
        client = Hub(endpoint=hub.url)
        with pytest.raises(RefusedError, match=r"config\.json"):
            facts_of_hub(client, client.listing(REPO, "main"))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "m", shards=2)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(InputError, match="model-00002"):
        facts_of_folder(folder, name="m")
    other = tiny_llama(tmp_path / "o")
    (other / "model.safetensors").rename(other / "pytorch_model.bin")
    with pytest.raises(CannotDecideError, match=r"pytorch_model\.bin"):
        facts_of_folder(other, name="o")
    (other / "config.json").unlink()
    with pytest.raises(InputError, match=r"no config\.json"):
        facts_of_folder(other, name="o")


def test_config_and_index_alone_are_enough_where_no_weights_are(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "m", shards=2)
    whole = facts_of_folder(folder, name="m").weight_bytes
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"metadata": {"total_size": whole}}))
    for shard in folder.glob("*.safetensors"):
        shard.unlink()
    found = facts_of_folder(folder, name="m")
    assert found.weight_bytes == whole
    assert found.measured == "total_size of the index; no weights are here"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"metadata": {"total_size": "much"}}))
    with pytest.raises(InputError, match="model-00001"):
        facts_of_folder(folder, name="m")


def test_a_broken_header_is_named(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(InputError, match=r"model\.safetensors"):
        facts_of_folder(folder, name="m")
