//! Exponents for values that flow before the ranks have agreed on any.
//!
//! Agreement takes every rank, so without a forecast nothing but the preamble can flow until the last rank has come.
//! With the codec `fixed` there is nothing to agree on. With `block` the exponents of the last collective of the same
//! shape, and a margin, are used; the preamble then says whether they were right. Whether a round is forecast, and
//! how, follows from the rounds before it alone, so that every rank decides alike.

use std::collections::BTreeMap;

use wiresum_protocol::Plan;
use wiresum_protocol::plan::Exponents;

use super::shape::Shape;

/// Bits by which values may grow between two collectives of a shape. Each costs a bit of resolution.
const GROWTH_BITS: i32 = 2;
/// Bits by which they may have shrunk before the forecast's resolution is too coarse: with `GROWTH_BITS`, and 32-bit
/// lanes of eight workers, 20 bits are left below the largest value of a fragment.
const SHRINKAGE_BITS: i32 = 6;
/// Bits by which a right forecast may be above what was agreed on.
pub(super) const SLACK_BITS: i32 = GROWTH_BITS + SHRINKAGE_BITS;
/// Shapes whose exponents are kept. A job that has more gets no forecasts for the rest.
const MAX_SHAPES: usize = 4096;
/// Collectives of a shape without forecasts after several wrong ones in a row, at most.
const MAX_PAUSE: u32 = 64;
/// A fragment of zeros, or of what rounds to them: exact with any exponent.
pub(super) const ZERO: i32 = i8::MIN as i32;

/// What is known of a shape.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// Those that the ranks agreed on last, by value fragment.
    exponents: Vec<i32>,
    /// Collectives until the next forecast.
    pause: u32,
    /// Length of the next pause.
    penalty: u32,
}

#[derive(Debug)]
pub(super) enum Forecaster {
    /// Every round waits for its agreement.
    Never,
    /// All exponents are 0.
    Fixed,
    /// From the collectives before.
    FromThePast(BTreeMap<Shape, Past>),
}

impl Forecaster {
    pub fn new(plan: &Plan) -> Self {
        if !plan.job.agrees() {
            return Self::Fixed;
        }
        match plan.job.exponents {
            Exponents::Agreed => Self::Never,
            Exponents::Expected => Self::FromThePast(BTreeMap::new()),
        }
    }

    /// Exponents for a round of so many value fragments; `None` if it has to wait for its agreement.
    pub fn forecast(&self, shape: Shape, fragments: u32) -> Option<Vec<i8>> {
        match self {
            Self::Never => None,
            Self::Fixed => Some(vec![0; fragments as usize]),
            Self::FromThePast(shapes) => {
                let past = shapes.get(&shape).filter(|past| past.pause == 0)?;
                let is_known = past.exponents.len() == fragments as usize;
                let grown = |e: &i32| (e + GROWTH_BITS).min(i8::MAX.into()) as i8;
                is_known.then(|| past.exponents.iter().map(grown).collect())
            }
        }
    }

    /// Whether the agreements of a shape's rounds matter for its next ones.
    pub fn learns(&self) -> bool {
        matches!(self, Self::FromThePast(_))
    }

    /// Notes that there are collectives of this shape, in the order of submission, which is everyone's.
    pub fn expect(&mut self, shape: Shape) {
        // Short numbers have no bits to spare for growth.
        if let Self::FromThePast(shapes) = self
            && shapes.len() < MAX_SHAPES
            && shape.width() == 4
        {
            shapes.entry(shape).or_default();
        }
    }

    /// Notes what the ranks agreed on in a round; those of a shape come in their order. Without numbers there is
    /// nothing to note.
    pub fn learn(&mut self, shape: Shape, agreed: &[i32], forecast: Option<&[i8]>) {
        let Self::FromThePast(shapes) = self else { return };
        let Some(past) = shapes.get_mut(&shape) else { return };
        if !agreed.iter().all(|exponent| i8::try_from(*exponent).is_ok()) {
            return;
        }
        past.exponents.clear();
        past.exponents.extend_from_slice(agreed);
        match forecast {
            Some(forecast) if is_right(forecast, agreed) => past.penalty /= 2,
            Some(_) => {
                past.penalty = (2 * past.penalty + 1).min(MAX_PAUSE);
                past.pause = past.penalty;
            }
            None => past.pause = past.pause.saturating_sub(1),
        }
    }
}

/// Whether values with the agreed exponents fit the forecast ones, and lose little by them.
pub(super) fn is_right(forecast: &[i8], agreed: &[i32]) -> bool {
    forecast.iter().zip(agreed).all(|(forecast, agreed)| {
        let slack = i32::from(*forecast) - agreed;
        *agreed == ZERO || (0..=SLACK_BITS).contains(&slack)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { elements: 100, signature: 3 };

    fn of_the_past() -> Forecaster {
        Forecaster::FromThePast(BTreeMap::new())
    }

    #[test]
    fn the_first_collective_of_a_shape_is_not_forecast() {
        let mut forecaster = of_the_past();
        forecaster.expect(SHAPE);
        assert_eq!(forecaster.forecast(SHAPE, 2), None);
        forecaster.learn(SHAPE, &[3, -7], None);
        assert_eq!(forecaster.forecast(SHAPE, 2), Some(vec![5, -5]));
        assert_eq!(forecaster.forecast(Shape { elements: 101, ..SHAPE }, 2), None);
        assert_eq!(forecaster.forecast(Shape { signature: 4, ..SHAPE }, 2), None);
    }

    #[test]
    fn what_grows_or_shrinks_too_much_was_not_forecast() {
        assert!(is_right(&[5], &[5]), "grown by the margin");
        assert!(!is_right(&[5], &[6]), "grown beyond it");
        assert!(is_right(&[5], &[5 - GROWTH_BITS - SHRINKAGE_BITS]));
        assert!(!is_right(&[5], &[4 - GROWTH_BITS - SHRINKAGE_BITS]));
        assert!(is_right(&[5], &[ZERO]), "zeros are exact");
        assert!(!is_right(&[0], &[crate::collective::NOT_FINITE]));
    }

    #[test]
    fn wrong_forecasts_pause_longer_and_longer_and_right_ones_forgive() {
        let mut forecaster = of_the_past();
        let mut pauses = Vec::new();
        forecaster.expect(SHAPE);
        forecaster.learn(SHAPE, &[0], None);
        for _ in 0..3 {
            let wrong = forecaster.forecast(SHAPE, 1).expect("a forecast");
            forecaster.learn(SHAPE, &[100], Some(&wrong));
            let mut pause = 0;
            while forecaster.forecast(SHAPE, 1).is_none() {
                forecaster.learn(SHAPE, &[0], None);
                pause += 1;
            }
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 3, 7]);
        for _ in 0..4 {
            let right = forecaster.forecast(SHAPE, 1).expect("a forecast");
            forecaster.learn(SHAPE, &[0], Some(&right));
        }
        let wrong = forecaster.forecast(SHAPE, 1).expect("a forecast");
        forecaster.learn(SHAPE, &[100], Some(&wrong));
        forecaster.learn(SHAPE, &[0], None);
        assert!(forecaster.forecast(SHAPE, 1).is_some(), "the penalty has been forgiven");
    }

    #[test]
    fn exponents_at_the_end_of_their_range_stay_in_it() {
        let mut forecaster = of_the_past();
        forecaster.expect(SHAPE);
        forecaster.learn(SHAPE, &[127, ZERO], None);
        assert_eq!(forecaster.forecast(SHAPE, 2), Some(vec![127, -126]));
    }
}
