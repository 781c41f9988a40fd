"""One scenario, three answers: `answers` asks, `live` runs it, `worker` is one rank, `agreement` judges."""
