//! How elements become integers. A codec is one file, and one row below; it decides what exponent a fragment has, and what
//! a lane stands for.

mod block;
mod fixed;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::format::FormatError;

/// Every codec. The place of one is its number, which ranks compare.
const ALL: &[Rules] = &[block::RULES, fixed::RULES];

/// What a codec decides. Its functions get its parameter last, 0 where it has none.
struct Rules {
    /// Its name in plans; with a parameter, `name:number`.
    name: &'static str,
    parameter: Option<Parameter>,
    /// Whether ranks agree on an exponent for each fragment before its values flow, the largest that one proposes.
    agrees: bool,
    /// The exponent that a worker proposes for a fragment, of its largest magnitude and that of a lane, or
    /// [`NOT_FINITE`](crate::NOT_FINITE) where the values do not fit.
    propose: fn(f64, f64, f64) -> i32,
    /// The value of a lane of 1, of the exponent with which the sum of all workers just fits the lanes if it is agreed on:
    /// a power of two.
    unit: fn(i32, f64) -> f64,
    /// Lanes per unit of value, likewise: what values are multiplied by.
    scale: fn(i32, f64) -> f64,
}

/// The number that a codec is named with.
struct Parameter {
    /// What it is.
    what: &'static str,
    bounds: RangeInclusive<f64>,
    /// A usual one.
    example: f64,
}

/// How elements become integers; in a plan by its name, as `block` or `fixed:<factor>`.
#[derive(Clone, Copy)]
pub struct Codec {
    number: u8,
    parameter: f64,
}

impl Codec {
    /// One exponent per fragment, agreed before values flow.
    pub const BLOCK: Self = Self { number: 0, parameter: 0.0 };

    /// One factor for all, as in the papers, which take 1e8: so many lanes per unit of value.
    #[must_use]
    pub const fn fixed(factor: f64) -> Self {
        Self { number: 1, parameter: factor }
    }

    /// Whether ranks agree on an exponent for each fragment before its values flow.
    #[must_use]
    pub fn agrees(self) -> bool {
        self.rules().agrees
    }

    /// Which of the codecs it is, whatever its parameter.
    pub(crate) fn number(self) -> u8 {
        self.number
    }

    pub(crate) fn propose(self, largest: f64, limit: f64) -> i32 {
        (self.rules().propose)(largest, limit, self.parameter)
    }

    pub(crate) fn unit(self, exponent: i32) -> f64 {
        (self.rules().unit)(exponent, self.parameter)
    }

    pub(crate) fn scale(self, exponent: i32) -> f64 {
        (self.rules().scale)(exponent, self.parameter)
    }

    fn rules(self) -> &'static Rules {
        &ALL[usize::from(self.number)]
    }
}

impl Default for Codec {
    fn default() -> Self {
        Self::BLOCK
    }
}

impl PartialEq for Codec {
    fn eq(&self, other: &Self) -> bool {
        (self.number, self.parameter.to_bits()) == (other.number, other.parameter.to_bits())
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { name, parameter, .. } = self.rules();
        match parameter {
            None => f.write_str(name),
            Some(_) => write!(f, "{name}:{:e}", self.parameter),
        }
    }
}

impl FromStr for Codec {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let (name, given) =
            text.split_once(':').map_or((text, None), |(name, given)| (name, Some(given)));
        let found = (0..).zip(ALL).find(|(_, rules)| rules.name == name);
        let unknown = || FormatError::Codec(text.to_owned());
        let (number, rules) = found.ok_or_else(unknown)?;
        match (&rules.parameter, given) {
            (None, None) => Ok(Self { number, parameter: 0.0 }),
            (Some(parameter), Some(given)) => {
                Ok(Self { number, parameter: parameter.read(given, rules.name)? })
            }
            _ => Err(unknown()),
        }
    }
}

impl Parameter {
    fn read(&self, text: &str, codec: &'static str) -> Result<f64, FormatError> {
        let read = text.parse().ok().filter(|number| self.bounds.contains(number));
        read.ok_or_else(|| FormatError::Parameter {
            text: text.to_owned(),
            what: self.what,
            codec,
            low: *self.bounds.start(),
            high: *self.bounds.end(),
            example: self.example,
        })
    }
}

/// All codecs, as a plan names them.
pub(crate) fn known() -> String {
    let named = |rules: &Rules| match &rules.parameter {
        None => format!("`{}`", rules.name),
        Some(Parameter { what, example, .. }) => {
            format!("`{0}:<{what}>` such as `{0}:{example:e}`", rules.name)
        }
    };
    ALL.iter().map(named).collect::<Vec<_>>().join(", or ")
}
