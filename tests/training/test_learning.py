"""A training in one process: the same each time, and it learns."""

from wiresum.training.learning import Learned, Training, learn

SHORT = Training(workers=2, batch_size=32, learning_rate=0.2, rounds=40)


def test_it_learns_and_does_so_the_same_way_again():
    told = []
    learned = learn(SHORT, told.append)
    assert told == list(range(1, SHORT.rounds + 1))
    assert learned.losses[-1] < learned.losses[0]
    assert learned.accuracies[-1] > 0.5 > learned.accuracies[0]
    assert learn(SHORT) == learned


def test_rounds_to_an_accuracy_are_counted_from_one():
    learned = Learned([2.0, 1.0, 0.5], [0.5, 0.9, 0.8])
    assert [learned.rounds_to(accuracy) for accuracy in (0.5, 0.9, 0.95)] == [1, 2, None]
