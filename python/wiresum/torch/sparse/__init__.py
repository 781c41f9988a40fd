"""Embeddings whose rows live at servers: `shard_embeddings`, in place like `fully_shard`.

`docs/sparse.md` is the guide. Models whose tables fit every rank need nothing of this: their sparse gradients are
summed by the backend.
"""

from wiresum.torch.sparse.checkpoint import sharded_state_dict, steps_of
from wiresum.torch.sparse.jagged import prefetch
from wiresum.torch.sparse.job import job_tables
from wiresum.torch.sparse.modules import ShardedEmbedding, ShardedEmbeddingBag
from wiresum.torch.sparse.rows import Rows
from wiresum.torch.sparse.shard import shard_embeddings

__all__ = [
    "Rows",
    "ShardedEmbedding",
    "ShardedEmbeddingBag",
    "job_tables",
    "prefetch",
    "shard_embeddings",
    "sharded_state_dict",
    "steps_of",
]
