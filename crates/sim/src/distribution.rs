//! Samples of the scenario's distributions.

use std::f64::consts::TAU;

use wiresum_netem::Rng;

use crate::scenario::Distribution;

impl Distribution {
    /// The next number of seconds.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        let seconds = match *self {
            Self::Constant { seconds } => seconds,
            Self::Uniform { least_s, most_s } => least_s + (most_s - least_s) * uniform(rng),
            Self::Normal { mean_s, deviation_s } => mean_s + deviation_s * normal(rng),
            Self::Exponential { least_s, mean_s } => least_s - mean_s * uniform(rng).ln(),
            Self::Lognormal { median_s, sigma } => median_s * (sigma * normal(rng)).exp(),
        };
        seconds.max(0.0)
    }
}

/// Above 0, up to 1.
fn uniform(rng: &mut Rng) -> f64 {
    ((rng.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Standard normal (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * uniform(rng).ln()).sqrt() * (TAU * uniform(rng)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples for each check; the standard error of a mean is 1 % of a standard deviation.
    const SAMPLES: u32 = 10_000;

    fn mean_and_deviation(distribution: Distribution) -> (f64, f64) {
        let mut rng = Rng::new(1);
        let samples: Vec<f64> = (0..SAMPLES).map(|_| distribution.sample(&mut rng)).collect();
        let mean = samples.iter().sum::<f64>() / f64::from(SAMPLES);
        let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / f64::from(SAMPLES);
        (mean, variance.sqrt())
    }

    fn assert_near(distribution: Distribution, mean: f64, deviation: f64) {
        let found = mean_and_deviation(distribution);
        let is_near = |a: f64, b: f64| (a - b).abs() <= 0.05 * deviation.max(1e-9);
        assert!(
            is_near(found.0, mean) && is_near(found.1, deviation),
            "{distribution:?}: {found:?}"
        );
    }

    #[test]
    fn samples_have_the_mean_and_the_deviation_that_they_should() {
        assert_near(Distribution::Constant { seconds: 2.0 }, 2.0, 0.0);
        assert_near(Distribution::Uniform { least_s: 1.0, most_s: 3.0 }, 2.0, 2.0 / 12f64.sqrt());
        assert_near(Distribution::Normal { mean_s: 10.0, deviation_s: 2.0 }, 10.0, 2.0);
        assert_near(Distribution::Exponential { least_s: 1.0, mean_s: 2.0 }, 3.0, 2.0);
        let (mean, deviation) = (0.02f64.exp(), (0.04f64.exp_m1() * 0.04f64.exp()).sqrt());
        assert_near(Distribution::Lognormal { median_s: 1.0, sigma: 0.2 }, mean, deviation);
    }

    #[test]
    fn no_time_is_negative() {
        let distribution = Distribution::Normal { mean_s: 0.0, deviation_s: 1.0 };
        let mut rng = Rng::new(1);
        assert!((0..100).all(|_| distribution.sample(&mut rng) >= 0.0));
    }
}
