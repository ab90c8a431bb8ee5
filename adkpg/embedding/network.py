"""Networks in ONNX files, each with its tokenizer, on the CPU."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adkpg.errors import ModelUnavailable

_PLACES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_TOKENIZERS = ("tokenizer.json", "vocab.txt")


class Network:
    """A loaded network with its tokenizer; its methods block, and threads may share it.

    Args:
      name: What the network is, for errors.
      model: The file, or its bytes.
      tokenizer: The file.
      max_tokens: What is read of a text, or of a pair together.
      threads: Threads that one run may use; None is one for each core.
      output: What is asked of it, if it gives that; else its first output.

    Attributes:
      rank: How many axes its output has.

    Raises:
      ModelUnavailable: A package of ``adkpg[local]`` is missing, or a file is broken.
    """

    def __init__(
        self,
        name: str,
        model: Path | bytes,
        tokenizer: Path,
        *,
        max_tokens: int,
        threads: int | None,
        output: str = "",
    ) -> None:
        # Since 1.29 onnxruntime reports to its maker from the import on, and keeps a device id in
        # HOME.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        try:
            import numpy  # noqa: F401, PLC0415 - of the extra adkpg[local], needed at the first run
            import onnxruntime  # noqa: PLC0415 - of the extra adkpg[local]
            import tokenizers  # noqa: F401, PLC0415 - of the extra adkpg[local]
        except ImportError as exc:
            raise ModelUnavailable(
                f"{name} needs the package {exc.name}; run: pip install 'adkpg[local]'"
            ) from exc
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self._tokenizer = _tokenizer(tokenizer)
            self._tokenizer.no_padding()
            self._tokenizer.enable_truncation(max_tokens)
            self._session = onnxruntime.InferenceSession(
                model if isinstance(model, bytes) else str(model),
                options,
                providers=["CPUExecutionProvider"],
            )
        except Exception as exc:
            raise ModelUnavailable(
                f"{name} cannot be loaded ({type(exc).__name__}); export it again, its error is "
                "the cause of this one."
            ) from exc
        self._inputs = {each.name for each in self._session.get_inputs()}
        unknown = self._inputs - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ModelUnavailable(
                f"{name} wants {', '.join(sorted(unknown))}; give one that reads input_ids, "
                "attention_mask and token_type_ids."
            )
        ranks = {each.name: len(each.shape) for each in self._session.get_outputs()}
        self._output = output if output in ranks else next(iter(ranks))
        self.rank = ranks[self._output]

    def encode(self, text: str, other: str | None = None) -> Any:
        """Returns the tokens of a text or a pair, as `tokenizers.Encoding`."""
        # One by one: encode_batch starts a thread pool, which does not survive a fork.
        return self._tokenizer.encode(text, other)

    def run(self, encodings: Sequence[Any]) -> tuple[Any, Any]:
        """Returns the output as an array ``[n, ...]``, and the mask ``[n, m]`` of the tokens."""
        import numpy as np  # noqa: PLC0415 - of the extra adkpg[local]

        shape = len(encodings), max(len(each.ids) for each in encodings)
        ids, mask, types = (np.zeros(shape, np.int64) for _ in range(3))
        for row, each in enumerate(encodings):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
            types[row, : len(each.ids)] = each.type_ids
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        given = {name: feed for name, feed in feeds.items() if name in self._inputs}
        return self._session.run([self._output], given)[0], mask


def files_of(name: str, path: Path) -> tuple[Path, Path]:
    """Returns the network and its tokenizer in the folder of an exported model.

    Args:
      name: What the network is, for errors.
      path: The folder; or the network, with the tokenizer beside or above it.

    Raises:
      ModelUnavailable: One is missing.
    """
    networks = [path] if path.is_file() else [path / place for place in _PLACES]
    folders = [path.parent, path.parent.parent] if path.is_file() else [path]
    network = next((each for each in networks if each.is_file()), None)
    tokenizer = next(
        (found for each in folders for file in _TOKENIZERS if (found := each / file).is_file()),
        None,
    )
    if network is None or tokenizer is None:
        missing = _PLACES[0] if network is None else _TOKENIZERS[0]
        raise ModelUnavailable(
            f"{name} finds no {missing} in {path}; give the folder of an exported model."
        )
    return network, tokenizer


def _tokenizer(path: Path) -> Any:
    from tokenizers import BertWordPieceTokenizer, Tokenizer  # noqa: PLC0415 - of the extra

    if path.suffix == ".json":
        return Tokenizer.from_file(str(path))
    words = path.read_text(encoding="utf-8").splitlines()
    config = path.with_name("tokenizer_config.json")
    told = json.loads(config.read_bytes()) if config.is_file() else {}
    return BertWordPieceTokenizer(
        {word: number for number, word in enumerate(words)},
        lowercase=bool(told.get("do_lower_case", True)),
    )
