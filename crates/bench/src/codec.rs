//! Measures the codec's loops and, in the same run, what they are judged by: copying memory, and the loop that one would
//! write first.
//!
//! The lanes lie in packets, one behind the other, where the header leaves them aligned to two bytes. Speeds count the
//! bytes of the elements alone, whichever way they go. The clock is the caller's.

use std::hint::black_box;
use std::time::Duration;

use wiresum_codec::{Codec, Element, Format, Instructions, Operation, Rounding, bf16, f16};
use wiresum_wire::{HEADER_LEN, LaneType, PAGE_PACKET, PAGE_PAYLOAD};

/// Elements that stay in a core's own cache, with their lanes.
pub const IN_CACHE: usize = 64 << 10;
/// Elements that no cache holds.
pub const OUT_OF_CACHE: usize = 64 << 20;
/// Bytes that one run goes through at least, so that it takes much longer than reading the clock.
const BYTES_PER_RUN: usize = 64 << 20;
/// Workers that the format is made for.
const WORKERS: u32 = 4;
/// Any exponent that suits the test's values, which lie within ±2.
const EXPONENT: i8 = 0;

/// The speed of one loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// `exponent`, `encode`, `encode and keep` (what numbers of 8 bits leave), `check` (the sum of received lanes),
    /// `decode`, or the rivals `memcpy`, `naive encode`, `naive decode`.
    pub step: &'static str,
    /// As PyTorch calls it.
    pub element: &'static str,
    /// What elements become: lanes as plans call them, or `int8 in` such.
    pub lanes: &'static str,
    /// Bytes of elements gone through repeatedly.
    pub working_set: usize,
    /// Instruction set of the codec's loop; the codec chooses the fastest.
    pub instructions: &'static str,
    /// Speed of each run, in 10⁹ bytes of elements per second, ascending.
    pub gigabytes_per_second: Vec<f64>,
}

impl Measurement {
    /// The run in the middle, the upper one of two.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.gigabytes_per_second[self.gigabytes_per_second.len() / 2]
    }

    /// The slowest run.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.gigabytes_per_second[0]
    }

    /// The fastest run.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.gigabytes_per_second[self.gigabytes_per_second.len() - 1]
    }
}

/// Measures every element type and lane type with elements of `working_set` bytes, `runs` times each; float32 on int32
/// also with the slower instruction sets of this processor.
///
/// `clock` tells the time since any moment.
///
/// # Panics
/// If `runs` is zero.
#[must_use]
pub fn run(working_set: usize, runs: usize, clock: &dyn Fn() -> Duration) -> Vec<Measurement> {
    assert!(runs > 0, "a measurement takes at least one run");
    let mut out = Vec::new();
    for set in Instructions::available() {
        let bench = Bench { set, working_set, runs, clock };
        if set == Instructions::best() {
            bench.elements(&mut out);
        } else {
            bench.element::<f32>("float32", whole(LaneType::I32Le), &mut out);
        }
    }
    out.extend(Bench { set: Instructions::best(), working_set, runs, clock }.rivals());
    out
}

struct Bench<'a> {
    set: Instructions,
    working_set: usize,
    runs: usize,
    clock: &'a dyn Fn() -> Duration,
}

impl Bench<'_> {
    fn elements(&self, out: &mut Vec<Measurement>) {
        let lanes = [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be];
        for form in lanes.map(whole).into_iter().chain([packed()]) {
            self.element::<f32>("float32", form, out);
            self.element::<f16>("float16", form, out);
            self.element::<bf16>("bfloat16", form, out);
        }
    }

    fn element<T: Element>(
        &self,
        element: &'static str,
        (lanes, format): (&'static str, Format),
        out: &mut Vec<Measurement>,
    ) {
        let mut values = values::<T>(self.working_set / size_of::<T>());
        let per_packet = PAGE_PAYLOAD / format.width();
        let mut packets = vec![[0; PAGE_PACKET]; values.len().div_ceil(per_packet)];
        let mut measure = |step, pass: &mut dyn FnMut()| {
            out.push(self.measure(step, element, lanes, pass));
        };
        measure("exponent", &mut || {
            for fragment in values.chunks(per_packet) {
                black_box(format.exponent_with(self.set, fragment));
            }
        });
        measure("encode", &mut || {
            for (fragment, packet) in values.chunks(per_packet).zip(&mut packets) {
                black_box(format.encode_with(
                    self.set,
                    fragment,
                    EXPONENT,
                    &mut packet[HEADER_LEN..],
                ));
            }
        });
        measure("check", &mut || {
            for packet in &packets {
                black_box(format.lanes().sum(&packet[HEADER_LEN..]));
            }
        });
        if format.is_packed() && self.set == Instructions::best() {
            let mut kept = vec![0f32; per_packet];
            measure("encode and keep", &mut || {
                for (fragment, packet) in values.chunks(per_packet).zip(&mut packets) {
                    let kept = Rounding::Kept(&mut kept);
                    let payload = &mut packet[HEADER_LEN..];
                    black_box(format.encode_rounded(fragment, EXPONENT, kept, payload));
                }
            });
        }
        measure("decode", &mut || {
            for (fragment, packet) in values.chunks_mut(per_packet).zip(&packets) {
                format.decode_with(
                    self.set,
                    &packet[HEADER_LEN..],
                    EXPONENT,
                    Operation::Sum,
                    black_box(fragment),
                );
            }
        });
    }

    /// Copying the same bytes, and float32 to little-endian int32 as in a first draft.
    fn rivals(&self) -> [Measurement; 3] {
        let mut values = values::<f32>(self.working_set / size_of::<f32>());
        let source = vec![1u8; self.working_set];
        let mut target = vec![0u8; self.working_set];
        let lanes = LaneType::I32Le.name();
        let copied = self.measure("memcpy", "float32", lanes, &mut || {
            target.copy_from_slice(black_box(&source));
            black_box(&target);
        });
        let encoded = self.measure("naive encode", "float32", lanes, &mut || {
            for (value, lane) in values.iter().zip(target.as_chunks_mut().0) {
                *lane = ((value * black_box(1e8)).round() as i32).to_le_bytes();
            }
        });
        let decoded = self.measure("naive decode", "float32", lanes, &mut || {
            for (value, lane) in values.iter_mut().zip(target.as_chunks().0) {
                *value = i32::from_le_bytes(*lane) as f32 / black_box(1e8);
            }
        });
        [copied, encoded, decoded]
    }

    fn measure(
        &self,
        step: &'static str,
        element: &'static str,
        lanes: &'static str,
        pass: &mut dyn FnMut(),
    ) -> Measurement {
        pass();
        let mut gigabytes_per_second: Vec<f64> = (0..self.runs).map(|_| self.speed(pass)).collect();
        gigabytes_per_second.sort_by(f64::total_cmp);
        Measurement {
            step,
            element,
            lanes,
            working_set: self.working_set,
            instructions: self.set.name(),
            gigabytes_per_second,
        }
    }

    fn speed(&self, pass: &mut dyn FnMut()) -> f64 {
        let passes = BYTES_PER_RUN.div_ceil(self.working_set);
        let start = (self.clock)();
        for _ in 0..passes {
            pass();
        }
        let elapsed = (self.clock)() - start;
        (passes * self.working_set) as f64 / elapsed.as_nanos() as f64
    }
}

/// Lanes of one number, and the format for them.
fn whole(lanes: LaneType) -> (&'static str, Format) {
    let format = Format::new(Codec::BLOCK, lanes, WORKERS);
    (lanes.name(), format.expect("every lane fits the workers"))
}

/// Numbers of 8 bits, four in a lane.
fn packed() -> (&'static str, Format) {
    let (_, format) = whole(LaneType::I32Le);
    ("int8 in int32-le", format.packed().expect("8 bits fit the workers"))
}

/// Values like those of a gradient: of either sign, within ±2, no two alike nearby.
fn values<T: Element>(count: usize) -> Vec<T> {
    (0..count).map(|i| T::narrow((i as f64 * 0.618_034).fract() * 4.0 - 2.0)).collect()
}
