//! What the program takes of a switch, in the parts in which Zebra reports it (§V-F).

use serde::Serialize;
use wiresum_codec::f16;
use wiresum_codec::netfc::Netfc;
use wiresum_netem::Rng;
use wiresum_switch::keyed::{Arrangement, HotTable, KeyedError, KeyedSpec, KeyedSwitch};
use wiresum_switch::rmt::{Misfit, Profile};
use wiresum_wire::JobId;

/// Bytes of an entry of the map of hot keys: a key of 64 bits, a register and a cell in 32.
const KEY_ENTRY_BYTES: u64 = 12;
/// Bytes of a register cell: a tag and a sum.
const CELL_BYTES: u64 = 8;
/// Sums that the accuracy of 16-bit floats is the mean of.
const SUMS: u32 = 100_000;
const SEED: u64 = 2021;

/// A switch's setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Hot keys.
    pub hot: u32,
    /// Registers and pairs of the program.
    pub spec: KeyedSpec,
    /// Workers.
    pub workers: u8,
    /// Most packets of a worker in an iteration.
    pub packets: u32,
}

/// What a setting takes. The first four are what the model of a pipeline counts, the rest is beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KeyedReport {
    /// Stages, of 12.
    pub stages: u32,
    /// Register arrays, of 48.
    pub arrays: u32,
    /// Bytes of the registers for sums.
    pub sum_bytes: u64,
    /// Bytes of registers for what has come and who is done.
    pub control_bytes: u64,
    /// Bytes of the map of hot keys, in one copy; a match table.
    pub key_bytes: u64,
    /// Bytes of the tables of 16-bit floats, their values alone.
    pub float_bytes: u64,
    /// Bytes of these tables with the keys that look-ups match.
    pub matched_float_bytes: u64,
    /// Mean over sums of two positive floats of 1 less the relative error.
    pub float_accuracy: f64,
}

/// A setting that cannot be.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReportError {
    /// The tables cannot be arranged.
    #[error(transparent)]
    Tables(#[from] KeyedError),
    /// The switch has no room.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

impl KeyedReport {
    /// What a Tofino 1 would give for it.
    ///
    /// # Errors
    /// [`ReportError`] if that has no room, or the setting cannot be.
    pub fn of(setting: Setting) -> Result<Self, ReportError> {
        let Setting { hot, spec, workers, packets } = setting;
        let keys = (0..u64::from(hot)).collect();
        let table = HotTable { job: JobId(0), table: 0, workers, packets, keys };
        let arrangement = Arrangement::of(spec, &[table])?;
        let sum_bytes = CELL_BYTES * u64::from(spec.registers) * u64::from(arrangement.cells);
        let switch = KeyedSwitch::new(arrangement, &Profile::TOFINO_1)?;
        let (report, floats) = (switch.report(), Netfc::new());
        Ok(Self {
            stages: report.stage_count(),
            arrays: report.array_count(),
            sum_bytes,
            control_bytes: report.sram_bytes() - sum_bytes,
            key_bytes: KEY_ENTRY_BYTES * u64::from(hot),
            float_bytes: floats.value_bytes() as u64,
            matched_float_bytes: floats.matched_bytes() as u64,
            float_accuracy: accuracy(&floats),
        })
    }
}

/// Over numbers of all sizes that have a normal sum.
fn accuracy(floats: &Netfc) -> f64 {
    let mut rng = Rng::new(SEED);
    let normal = f16::MIN_POSITIVE.to_bits()..f16::from_f32(30_000.0).to_bits();
    let count = u64::from(normal.end - normal.start);
    let mut number = || f16::from_bits(normal.start + rng.below(count) as u16);
    let one = |_| {
        let (a, b) = (number(), number());
        let exact = f64::from(a) + f64::from(b);
        1.0 - (f64::from(floats.add(a, b)) - exact).abs() / exact
    };
    (0..SUMS).map(one).sum::<f64>() / f64::from(SUMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_setting() {
        let spec = KeyedSpec { registers: 24, pairs: 10, recirculations: 1 };
        let setting = Setting { hot: 30_000, spec, workers: 32, packets: 3_000 };
        let report = KeyedReport::of(setting).expect("room");
        assert_eq!((report.stages, report.sum_bytes, report.key_bytes), (9, 240_000, 360_000));
        assert!(report.float_accuracy > 0.9994, "{}", report.float_accuracy);
        let wide = KeyedSpec { registers: 40, ..spec };
        assert!(KeyedReport::of(Setting { spec: wide, ..setting }).is_err());
    }
}
