"""All-reduces of sparse tensors through PyTorch beside rivals and each one's limit: `worker` is one rank."""
