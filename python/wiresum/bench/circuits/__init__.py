"""`wiresum bench circuits`: how exactly an emulated optical switch keeps its times, and how fast drivers are."""
