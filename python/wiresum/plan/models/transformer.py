"""BERT (Devlin et al., 2019; the encoder with its pooler) and GPT-2 (Radford et al., 2019; tied embeddings)."""

from __future__ import annotations

from typing import NamedTuple

from wiresum.plan.models.parameters import Parameter, linear, norm

BERT_WORDS, BERT_POSITIONS, BERT_SEGMENTS = 30522, 512, 2
GPT2_WORDS, GPT2_POSITIONS = 50257, 1024
FEED_FORWARD = 4
"""Width of a block's inner layer, in widths of the model."""


class Form(NamedTuple):
    """Blocks, and the width of what flows through them."""

    blocks: int
    width: int


BERT_FORMS = {"bert-base": Form(12, 768), "bert-large": Form(24, 1024)}
GPT2_FORMS = {
    "gpt2": Form(12, 768),
    "gpt2-medium": Form(24, 1024),
    "gpt2-large": Form(36, 1280),
    "gpt2-xl": Form(48, 1600),
}


def bert(form: Form) -> list[Parameter]:
    """The parameters of a BERT encoder."""
    width = form.width
    made = [
        Parameter("embeddings.words.weight", (BERT_WORDS, width)),
        Parameter("embeddings.positions.weight", (BERT_POSITIONS, width)),
        Parameter("embeddings.segments.weight", (BERT_SEGMENTS, width)),
        *norm("embeddings.norm", width),
    ]
    for block in (f"block{index}" for index in range(form.blocks)):
        made += [one for part in ("query", "key", "value", "output") for one in linear(f"{block}.{part}", width, width)]
        made += [*norm(f"{block}.norm1", width), *_feed_forward(block, width), *norm(f"{block}.norm2", width)]
    return [*made, *linear("pooler", width, width)]


def gpt2(form: Form) -> list[Parameter]:
    """The parameters of a GPT-2 model."""
    width = form.width
    made = [
        Parameter("words.weight", (GPT2_WORDS, width)),
        Parameter("positions.weight", (GPT2_POSITIONS, width)),
    ]
    for block in (f"block{index}" for index in range(form.blocks)):
        made += [*norm(f"{block}.norm1", width), *linear(f"{block}.attention", width, 3 * width)]
        made += [*linear(f"{block}.output", width, width), *norm(f"{block}.norm2", width)]
        made += _feed_forward(block, width)
    return [*made, *norm("norm", width)]


def _feed_forward(block: str, width: int) -> list[Parameter]:
    inner = FEED_FORWARD * width
    return [*linear(f"{block}.wide", width, inner), *linear(f"{block}.narrow", inner, width)]
