"""How many rounds a training takes if each sums K of n gradients (GOAT, Eq. (28) and (34) to (36))."""

import math

from wiresum.document import Amount, Document, PositiveAmount


class Convergence(Document):
    """What is known of a training. Gradients of n workers on data of one distribution, learning rate √(n/T).

    Attributes:
        loss_gap: F(x₀) − F(x*), of the first loss and the least; without knowledge of the latter, the first loss.
        variance: σ², of one worker's gradient about the mean one, summed over its elements:
            `wiresum.torch.gradient_variance` measures it.
        target: ε, what the mean square of the gradient's norm shall come down to.
    """

    loss_gap: PositiveAmount
    variance: Amount
    target: PositiveAmount

    def admits(self, k: int) -> bool:
        """Whether K gradients a round can reach the target: K > σ²/ε. The square in Eq. (36) hides the sign."""
        return k * self.target > self.variance

    def rounds(self, k: int, workers: int) -> float:
        """ψ(K), Eq. (36): rounds until the bound is at the target; infinite where it never is.

        Example:
            >>> Convergence(loss_gap=3.0, variance=1.0, target=0.5).rounds(4, workers=4)
            144.0
        """
        if not self.admits(k):
            return math.inf
        return 4 * k**2 * self.loss_gap**2 / (workers * (self.target * k - self.variance) ** 2)

    def bound(self, k: int, workers: int, rounds: float) -> float:
        """Eq. (34), left side: what the mean square of the gradient's norm is below after so many rounds."""
        return 2 * self.loss_gap / math.sqrt(workers * rounds) + self.variance / k
