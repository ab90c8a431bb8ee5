"""A tiny sentence encoder, exported as real ones are: a text's vector is the sum of its words'."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ("[UNK]", "[CLS]", "[SEP]", "query", "passage", "bike", "shed", "tea", "rain", ":")
DIMENSIONS = len(WORDS)


def export(
    folder: Path,
    *,
    place: str = "onnx/model.onnx",
    pooling: dict[str, Any] | None = None,
    pooled: bool = False,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    **files: Any,
) -> None:
    """Writes the model, its tokenizer and what is said of it.

    The vector of a token is the unit vector of its word.

    Args:
      folder: Where.
      place: The model's file in it.
      pooling: What 1_Pooling/config.json holds; None writes none.
      pooled: Whether the model gives a sentence_embedding too, of the last word alone.
      inputs: What the model reads.
      files: What else is said, by a file's name without its ending.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(
        models.WordLevel(vocab={word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_padding(length=64)  # as some exports have it
    tokenizer.save(str(folder / "tokenizer.json"))
    if pooling is not None:
        files["1_Pooling/config"] = {"word_embedding_dimension": DIMENSIONS} | pooling
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(content))

    outputs: dict[str, list[str | int | None]] = {"last_hidden_state": ["n", "m", DIMENSIONS]}
    nodes = [
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.INT64),
        helper.make_node("Mul", ["mask", "input_ids"], ["read"]),
        helper.make_node("Gather", ["known", "read"], ["last_hidden_state"]),
    ]
    if pooled:
        outputs["sentence_embedding"] = ["n", DIMENSIONS]
        nodes += [
            helper.make_node("ReduceSum", ["mask", "axis"], ["count"], keepdims=1),
            helper.make_node("Sub", ["count", "two"], ["last"]),
            helper.make_node("GatherElements", ["read", "last"], ["word"], axis=1),
            helper.make_node("Gather", ["known", "word"], ["words"]),
            helper.make_node("Squeeze", ["words", "axis"], ["sentence_embedding"]),
        ]
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info(each, TensorProto.INT64, ["n", "m"]) for each in inputs],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in outputs.items()
        ],
        [
            numpy_helper.from_array(np.eye(DIMENSIONS, dtype=np.float32), "known"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
            numpy_helper.from_array(np.array([[2]], np.int64), "two"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / place)
