"""Hooks are found in every object of a configuration, and say what is loaded and from where."""

from __future__ import annotations

import json

import pytest

from modelctl.scan.configs import parse, parse_yaml
from modelctl.scan.hooks import Hook, hooks


def found(document: object, path: str = "config.json", files: frozenset[str] = frozenset()) -> list[Hook]:
    return list(hooks(parse(json.dumps(document).encode()), path=path, files=files))


def test_auto_map_says_what_it_loads_and_from_where() -> None:
    (other,) = found({"auto_map": {"AutoModel": "other/repo--mod.Cls"}})
    assert (other.rule, other.own) == ("auto-map", False)
    assert other.detail.endswith("loads other/repo--mod.Cls from another repository (other/repo)")
    (own,) = found({"text_config": [{"auto_map": {"AutoModel": "mod.Cls"}}]}, files=frozenset({"mod.py"}))
    assert own.own
    assert own.detail.endswith("from this repository")
    assert len(found({"auto_map": {"AutoTokenizer": ["a.B", None, "c--d.E"]}})) == 2


@pytest.mark.parametrize("target", ["gone.Cls", "../up.Cls", "/tmp/x.Cls", "other--mod.Cls", "from this repository", 5])
def test_only_a_file_that_is_here_is_the_repositorys_own(target: object) -> None:
    hook, *_ = found({"auto_map": {"AutoModel": target}}, files=frozenset({"mod.py", "up.py"}))
    assert not hook.own


def test_own_code_lies_beside_the_configuration_or_at_the_root() -> None:
    document = {"auto_map": {"AutoModel": "mod.Cls"}}
    assert found(document, "part/config.json", frozenset({"part/mod.py"}))[0].own
    assert not found(document, "config.json", frozenset({"part/mod.py"}))[0].own


def test_the_first_of_two_equal_keys_counts_too() -> None:
    document = parse(b'{"auto_map": {"AutoModel": "a.B"}, "auto_map": {}}')
    assert len(list(hooks(document, path="config.json"))) == 1


def test_a_key_spelt_with_escapes_is_the_same_key() -> None:
    assert len(list(hooks(parse(b'{"\\u0061uto_map": "a.B"}'), path="x.json"))) == 1
    assert len(list(hooks(parse_yaml(b'"\\x5ftarget_": os.system'), path="x.yaml"))) == 1


@pytest.mark.parametrize(
    ("rule", "document", "path"),
    [
        ("custom-pipeline", {"custom_pipeline": "me/mine"}, "model_index.json"),
        ("custom-pipeline", {"custom_pipelines": {"x": {"impl": "mod.Cls", "pt": ["AutoModel"]}}}, "config.json"),
        ("custom-pipeline", {"_class_name": ["pipeline", "Mine"]}, "model_index.json"),
        ("custom-pipeline", {"unet": ["my_unet", "Net"]}, "model_index.json"),
        ("custom-pipeline", {"unet": ["torchevil", "Net"]}, "model_index.json"),
        ("custom-pipeline", {"_target_": "os.system"}, "config.json"),
        ("custom-pipeline", {"loader_module": "mine"}, "MLmodel.json"),
        ("custom-pipeline", [{"type": "custom_st.Transformer"}], "modules.json"),
        ("custom-pipeline", [{"type": "sentence_transformers_evil.Transformer"}], "modules.json"),
        ("custom-pipeline", {"types": {"query": "mine.Net"}}, "router_config.json"),
        ("custom-pipeline", {"auto_mapping": {"parent_library": "mine.py"}}, "adapter_config.json"),
        ("custom-pipeline", {"auto_mapping": {"parent_library": "transformers_evil"}}, "adapter_config.json"),
        ("custom-pipeline", {"megatron_core": "os"}, "adapter_config.json"),
        ("custom-pipeline", {"activation_function": "os.abort"}, "2_Dense/config.json"),
        ("custom-pipeline", {"sentence_transformers": {"activation_fn": "mine.Act"}}, "config.json"),
        ("custom-pipeline", {"sbert_ce_default_activation_function": "builtins.exit"}, "config.json"),
        ("custom-pipeline", {"quantization_config": {"format": "x/evil.py:Codec"}}, "config.json"),
        ("custom-pipeline", {"module": "os.path", "class_name": "x"}, "config.json"),
        ("custom-pipeline", {"custom_generate": "org/decoding"}, "generation_config.json"),
        ("trust-remote-code", {"model_args": {"trust_remote_code": True}}, "sentence_bert_config.json"),
        ("trust-remote-code", {"trust_remote_code": "true"}, "config.json"),
        ("hub-kernel", {"_attn_implementation": "org/kernel"}, "config.json"),
        ("hub-kernel", {"attn_implementation": {"text_config": "paged|org/kernel@v1:fn"}}, "config.json"),
        ("hub-kernel", {"experts_implementation": "org/kernel"}, "config.json"),
        ("hub-kernel", {"use_kernels": True}, "config.json"),
        ("hub-kernel", [{"repo_id": "org/kernel"}], "kernels.lock"),
        ("auto-map", {"processor_class": "org/repo--mod.Cls"}, "processor_config.json"),
    ],
)
def test_what_makes_a_loader_import_or_fetch_code(rule: str, document: object, path: str) -> None:
    assert [hook.rule for hook in found(document, path)] == [rule]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"unet": ["diffusers", "UNet"], "scheduler": [None, None], "_class_name": "P"}, "model_index.json"),
        ({"safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"]}, "model_index.json"),
        ([{"type": "sentence_transformers.models.Pooling"}], "modules.json"),
        ({"trust_remote_code": False, "architectures": ["LlamaForCausalLM"], "auto_map": None}, "config.json"),
        ({"_attn_implementation": "flash_attention_2", "attn_implementation": {"": "sdpa"}}, "config.json"),
        ({"activation_function": "gelu_new"}, "config.json"),
        ({"activation_function": "torch.nn.modules.activation.Tanh"}, "2_Dense/config.json"),
        ({"_name_or_path": "org/model", "base_model_name_or_path": "org/base"}, "adapter_config.json"),
        ({"auto_mapping": {"parent_library": "transformers.models.llama"}, "megatron_core": "megatron.core"}, "a.json"),
        ({"module": "keras.layers", "class_name": "Dense"}, "config.json"),
        ({"vocab": {"a--b.c": 1}, "merges": ["a b"]}, "tokenizer.json"),
        ({"use_kernels": False, "custom_generate": None}, "config.json"),
    ],
)
def test_plain_files_have_no_hooks(document: object, path: str) -> None:
    assert found(document, path) == []


def test_a_part_that_shadows_a_pipeline_of_the_library_is_the_repositorys_own() -> None:
    document = {"safety_checker": ["stable_diffusion", "Checker"]}
    assert found(document, "model_index.json", frozenset({"safety_checker/stable_diffusion.py"}))
