"""A tiny cross-encoder, exported as real ones are: it counts the words that both texts share."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "bike", "shed", "cat", "red", "tea", "rain")
BIAS = -1.5


def export(
    folder: Path, *, outputs: int = 1, types: bool = True, place: str = "model.onnx"
) -> None:
    """Writes model.onnx and tokenizer.json.

    The model's logit is the number of known words that question and passage share, minus 1.5; with
    two outputs it is the second minus the first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.enable_padding(length=64)  # as some exports have it
    tokenizer.save(str(folder / "tokenizer.json"))

    known = np.eye(len(WORDS), dtype=np.float32)
    known[:4] = 0  # special tokens mean nothing
    nodes = [
        helper.make_node("Gather", ["known", "input_ids"], ["hot"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["mask", "second"], ["passage"]),
        helper.make_node("Sub", ["mask", "passage"], ["question"]),
        *(
            node
            for side in ("question", "passage")
            for node in (
                helper.make_node("Unsqueeze", [side, "last"], [f"{side}_wide"]),
                helper.make_node("Mul", ["hot", f"{side}_wide"], [f"{side}_hot"]),
                helper.make_node(
                    "ReduceMax", [f"{side}_hot", "middle"], [f"{side}_words"], keepdims=0
                ),
            )
        ),
        helper.make_node("Mul", ["question_words", "passage_words"], ["shared"]),
        helper.make_node("ReduceSum", ["shared", "middle"], ["count"], keepdims=1),
        helper.make_node("Add", ["count", "bias"], ["told"]),
        helper.make_node("MatMul", ["told", "heads"], ["logits"]),
    ]
    heads = np.zeros((1, outputs), np.float32)
    heads[0, -1] = 1
    constants = [
        numpy_helper.from_array(known, "known"),
        numpy_helper.from_array(np.array([2], np.int64), "last"),
        numpy_helper.from_array(np.array([1], np.int64), "middle"),
        numpy_helper.from_array(np.array([BIAS], np.float32), "bias"),
        numpy_helper.from_array(heads, "heads"),
    ]
    names = ["input_ids", "attention_mask", "token_type_ids"]
    if not types:  # without them nothing tells the texts apart: every word is the question's
        nodes.insert(
            0, helper.make_node("Sub", ["attention_mask", "attention_mask"], [names.pop()])
        )
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "m"]) for name in names]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", outputs])
    graph = helper.make_graph(nodes, "overlap", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / place)
