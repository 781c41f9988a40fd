"""Steps of an FSDP2 training, with and without `overlap`, beside Gloo's."""
