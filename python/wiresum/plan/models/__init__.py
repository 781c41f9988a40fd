"""Models by name: the shapes of their parameters, computed from the architecture.

Example:
    >>> from wiresum.plan.models import MODELS, count, sub_models
    >>> count(MODELS["resnet50"]())
    25557032
    >>> [(one.name, one.bytes) for one in sub_models(MODELS["alexnet"](), 64_000_000)][-3:]
    [('fc2/1', 33562624), ('fc2/2', 33562624), ('fc3', 16388000)]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from wiresum.plan.models import recommendation
from wiresum.plan.models.densenet import BLOCKS, densenet
from wiresum.plan.models.inception import inception_v3
from wiresum.plan.models.parameters import HasParameters, Parameter, count, from_module
from wiresum.plan.models.partition import equal_parts, sub_models
from wiresum.plan.models.resnet import FORMS, resnet
from wiresum.plan.models.transformer import BERT_FORMS, GPT2_FORMS, bert, gpt2
from wiresum.plan.models.vgg import VGG_DEPTHS, alexnet, vgg

if TYPE_CHECKING:
    from wiresum.plan.tables import Tables

MODELS: dict[str, Callable[[], list[Parameter]]] = {
    "alexnet": alexnet,
    "inception-v3": inception_v3,
    **{name: partial(resnet, form) for name, form in FORMS.items()},
    **{name: partial(densenet, blocks) for name, blocks in BLOCKS.items()},
    **{name: partial(vgg, depths) for name, depths in VGG_DEPTHS.items()},
    **{name: partial(bert, form) for name, form in BERT_FORMS.items()},
    **{name: partial(gpt2, form) for name, form in GPT2_FORMS.items()},
    "dlrm": recommendation.dlrm,
    "deepfm": recommendation.deepfm,
    "ncf": recommendation.ncf,
    "lr": recommendation.lr,
    "fm": recommendation.lr,
}
"""Dense parameters by the name that a command line takes."""
TABLES: dict[str, Callable[[], Tables]] = {
    "dlrm": recommendation.dlrm_tables,
    "deepfm": recommendation.deepfm_tables,
    "ncf": recommendation.ncf_tables,
    "lr": recommendation.lr_tables,
    "fm": recommendation.fm_tables,
}
"""Tables of the models that have some."""

__all__ = ["MODELS", "TABLES", "HasParameters", "Parameter", "count", "equal_parts", "from_module", "sub_models"]
