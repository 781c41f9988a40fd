//! Memory of a caller as the source and the sink of a collective, without a copy.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use wiresum_codec::{Element, ElementType, Format, FormatError, Operation, Rounding, bf16, f16};
use wiresum_protocol::Plan;
use wiresum_wire::LaneType;
use wiresum_worker::{Collective, Sink, Source};

use crate::aside::Aside;
use crate::exact::{self, Exact};

/// How the elements of a collective become lanes.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    /// Their type.
    pub element: ElementType,
    /// What their sum is for.
    pub operation: Operation,
    /// That of the job's elements of this type.
    pub format: Format,
    /// What becomes of what numbers of 8 bits have no room for.
    pub excess: Excess,
}

/// How elements become lanes.
#[derive(Clone, Copy, Debug)]
pub enum Coding {
    /// As numbers that a shared exponent scales.
    Scaled(Encoding),
    /// As they are.
    Exact(Exact),
}

impl From<Encoding> for Coding {
    fn from(encoding: Encoding) -> Self {
        Self::Scaled(encoding)
    }
}

impl Coding {
    /// Bytes of an element.
    #[must_use]
    pub fn element_width(&self) -> usize {
        match self {
            Self::Scaled(encoding) => encoding.element.width(),
            Self::Exact(exact) => exact.element().width(),
        }
    }

    /// Bytes of the number that an element becomes.
    #[must_use]
    pub fn width(&self) -> usize {
        match self {
            Self::Scaled(encoding) => encoding.format.width(),
            Self::Exact(exact) => exact.width(),
        }
    }

    /// That of the elements from one on.
    fn starting_at(self, start: usize) -> Self {
        match self {
            Self::Scaled(encoding) => {
                Self::Scaled(Encoding { excess: encoding.excess.from(start), ..encoding })
            }
            Self::Exact(_) => self,
        }
    }

    /// # Safety
    /// As for [`source`] and [`sink`]; there is as much room aside.
    pub(crate) unsafe fn source(
        self,
        data: NonNull<u8>,
        len: usize,
        aside: Option<Aside>,
    ) -> Box<dyn Source> {
        match self {
            Self::Scaled(encoding) => source_beside(data, len, encoding, aside),
            // SAFETY: by the contract.
            Self::Exact(exact) => unsafe { exact::source(data, len, exact, aside) },
        }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn sink(
        self,
        data: NonNull<u8>,
        len: usize,
        aside: Option<Aside>,
    ) -> Box<dyn Sink> {
        match self {
            Self::Scaled(encoding) => sink_beside(data, len, encoding, aside),
            // SAFETY: by the contract.
            Self::Exact(exact) => unsafe { exact::sink(data, len, exact, aside) },
        }
    }
}

/// What becomes of the part of each value that its number has no room for.
#[derive(Clone, Copy, Debug, Default)]
pub enum Excess {
    /// It is lost.
    #[default]
    Lost,
    /// It is written here, as float32: as many as there are elements.
    Kept(NonNull<f32>),
    /// It decides by chance which way a number is rounded.
    Random {
        /// A rank has its own for each collective.
        seed: u32,
        /// The place of the first element in its tensor, modulo 2³².
        first: u32,
    },
}

// SAFETY: whoever passes a place promises that it is the engine's until the collective has ended, on whatever thread.
unsafe impl Send for Excess {}
// SAFETY: as above; it is written through a source alone, of which each part is one thread's.
unsafe impl Sync for Excess {}

impl Excess {
    /// That of the elements from one on.
    fn from(self, start: usize) -> Self {
        match self {
            // SAFETY: by the contract of `source` there is room for every element.
            Self::Kept(place) => Self::Kept(unsafe { place.add(start) }),
            Self::Random { seed, first } => {
                Self::Random { seed, first: first.wrapping_add(start as u32) }
            }
            Self::Lost => Self::Lost,
        }
    }
}

/// How the values of a plan's job are represented on the wire, by the width of the elements.
#[derive(Clone, Copy, Debug)]
pub struct Formats {
    of_four_bytes: Format,
    of_two_bytes: Format,
}

impl Formats {
    /// Those of a plan.
    ///
    /// # Errors
    /// [`FormatError`] if its codec is unknown, or its lanes are too narrow for its workers.
    pub fn new(plan: &Plan) -> Result<Self, FormatError> {
        let workers = u32::try_from(plan.workers.len()).unwrap_or(u32::MAX);
        let codec = plan.job.codec.parse()?;
        let of = |bytes| Format::new(codec, plan.job.lanes.of_elements(bytes), workers);
        Ok(Self { of_four_bytes: of(4)?, of_two_bytes: of(2)? })
    }

    /// Those of a group of so many of the workers.
    #[must_use]
    pub fn of_group(self, ranks: u32) -> Self {
        let of = |format: Format| format.of_group(ranks);
        Self { of_four_bytes: of(self.of_four_bytes), of_two_bytes: of(self.of_two_bytes) }
    }

    /// The lanes of elements of so many bytes.
    #[must_use]
    pub fn lanes(&self, width: usize) -> LaneType {
        let format = if width <= 2 { self.of_two_bytes } else { self.of_four_bytes };
        format.lanes()
    }

    /// How elements of this type become lanes.
    #[must_use]
    pub fn encoding(&self, element: ElementType, operation: Operation) -> Encoding {
        let format = if element.width() == 2 { self.of_two_bytes } else { self.of_four_bytes };
        Encoding { element, operation, format, excess: Excess::Lost }
    }

    /// How elements of this type become numbers of 8 bits, several in a lane.
    ///
    /// # Errors
    /// [`FormatError`] if the plan has too many workers for that, or a codec without exponents.
    pub fn packed(
        &self,
        element: ElementType,
        operation: Operation,
        excess: Excess,
    ) -> Result<Encoding, FormatError> {
        let format = self.of_four_bytes.packed()?;
        Ok(Encoding { element, operation, format, excess })
    }
}

/// The `len` elements at `data` as a source.
///
/// # Safety
/// `data` is aligned for the element type and points to `len` initialised elements. Until the source is dropped, nobody
/// writes them but a sink of the same collective, whose first element is either none of them, or the one that it stands
/// for. Where what is in excess is kept, there are as many elements, which until then nobody reads or writes.
#[must_use]
pub unsafe fn source(data: NonNull<u8>, len: usize, encoding: Encoding) -> Box<dyn Source> {
    source_beside(data, len, encoding, None)
}

/// The same, of which a copy is kept of what is sent, as far as there is room: as for [`sink_beside`].
fn source_beside(
    data: NonNull<u8>,
    len: usize,
    encoding: Encoding,
    aside: Option<Aside>,
) -> Box<dyn Source> {
    match encoding.element {
        ElementType::Float32 => Box::new(Values::<f32>::new(data, len, encoding, aside)),
        ElementType::Float16 => Box::new(Values::<f16>::new(data, len, encoding, aside)),
        ElementType::BFloat16 => Box::new(Values::<bf16>::new(data, len, encoding, aside)),
    }
}

/// The `len` elements at `data` as a sink.
///
/// # Safety
/// As for [`source`]; and until the sink is dropped, nobody reads the elements but the source of the same collective.
#[must_use]
pub unsafe fn sink(data: NonNull<u8>, len: usize, encoding: Encoding) -> Box<dyn Sink> {
    sink_beside(data, len, encoding, None)
}

/// The same, which notes what it replaces.
fn sink_beside(
    data: NonNull<u8>,
    len: usize,
    encoding: Encoding,
    aside: Option<Aside>,
) -> Box<dyn Sink> {
    match encoding.element {
        ElementType::Float32 => Box::new(Results(Values::<f32>::new(data, len, encoding, aside))),
        ElementType::Float16 => Box::new(Results(Values::<f16>::new(data, len, encoding, aside))),
        ElementType::BFloat16 => Box::new(Results(Values::<bf16>::new(data, len, encoding, aside))),
    }
}

/// A caller's elements that are to be summed, and where their sums go: the same place, or another.
#[derive(Clone, Copy)]
pub struct Elements {
    source: NonNull<u8>,
    sink: NonNull<u8>,
    aside: Option<NonNull<u8>>,
    len: usize,
    coding: Coding,
}

/// Some of a collective's elements, as source and sink.
pub(crate) struct Part {
    pub source: Box<dyn Source>,
    pub sink: Box<dyn Sink>,
    /// The values that results replace, where they are kept.
    pub replaced: Option<Aside>,
}

impl Elements {
    /// The `len` elements at `source`, whose sums go to `sink`; exact ones go to every rank.
    ///
    /// # Safety
    /// As for [`source`] and [`sink`], until all parts are dropped. Where this rank takes no results, nothing needs to be
    /// at `sink`.
    #[must_use]
    pub unsafe fn new(
        source: NonNull<u8>,
        sink: NonNull<u8>,
        len: usize,
        coding: impl Into<Coding>,
    ) -> Self {
        Self { source, sink, aside: None, len, coding: coding.into() }
    }

    /// The same, whose values are kept at `aside`, byte by byte, when they are sent.
    ///
    /// # Safety
    /// There is room for as many elements, which nobody else reads or writes until all parts are dropped.
    #[must_use]
    pub unsafe fn keeping(self, aside: NonNull<u8>) -> Self {
        Self { aside: Some(aside), ..self }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of them, as a collective whose results every rank takes.
    #[must_use]
    pub fn all_reduce(self) -> Collective {
        let Part { source, sink, .. } = self.part(0..self.len, true);
        Collective::all_reduce(source, sink)
    }

    /// Whether sums take the place of values, which are kept nowhere.
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.source == self.sink && self.aside.is_none()
    }

    /// Some of them as source and sink. Where this rank takes no results, the sink has no elements.
    pub(crate) fn part(&self, range: Range<usize>, takes: bool) -> Part {
        assert!(range.end <= self.len, "{range:?} of {} elements", self.len);
        let (width, coding) = (self.coding.element_width(), self.coding);
        let taken = if takes { range.len() } else { 0 };
        // SAFETY: by the contract of `new` there are `len` elements at either place that is used.
        unsafe {
            let values = self.source.add(width * range.start);
            let sums = if takes { self.sink.add(width * range.start) } else { self.sink };
            let aside = self.aside.map(|place| Aside::new(values, place.add(width * range.start)));
            let replaced = aside.clone().filter(|_| takes && self.source == self.sink);
            Part {
                source: coding.starting_at(range.start).source(values, range.len(), aside),
                sink: coding.sink(sums, taken, replaced.clone()),
                replaced,
            }
        }
    }
}

/// Elements that someone else owns. Slices are made of no more than a call needs, as the rest may be written meanwhile.
struct Values<T> {
    data: NonNull<u8>,
    len: usize,
    operation: Operation,
    format: Format,
    excess: Excess,
    aside: Option<Aside>,
    elements: PhantomData<T>,
}

// SAFETY: `source` and `sink` oblige their callers to leave the elements to this object, on whatever thread it is.
unsafe impl<T: Element> Send for Values<T> {}

impl<T: Element> Values<T> {
    fn new(data: NonNull<u8>, len: usize, encoding: Encoding, aside: Option<Aside>) -> Self {
        let Encoding { operation, format, excess, .. } = encoding;
        Self { data, len, operation, format, excess, aside, elements: PhantomData }
    }

    /// Where these elements lie from the first one on.
    fn bytes(&self, range: &Range<usize>) -> Range<usize> {
        assert!(range.end <= self.len, "{range:?} of {} elements", self.len);
        range.start * size_of::<T>()..range.end * size_of::<T>()
    }

    fn at(&self, range: &Range<usize>) -> NonNull<T> {
        assert!(range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: by the contract of `source` and `sink` there are `len` elements.
        unsafe { self.data.cast::<T>().add(range.start) }
    }

    fn read(&self, range: Range<usize>) -> &[T] {
        // SAFETY: as above; nobody writes them before this fragment has its result.
        unsafe { std::slice::from_raw_parts(self.at(&range).as_ptr(), range.len()) }
    }
}

impl<T: Element> Values<T> {
    /// Where what is in excess of some elements is kept.
    #[expect(clippy::mut_from_ref, reason = "a source has no element of what is kept but by this")]
    fn kept(&self, range: &Range<usize>) -> &mut [f32] {
        let Excess::Kept(place) = self.excess else { return &mut [] };
        assert!(range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: by the contract of `source` there are `len` elements, which are its own; one thread encodes at a time.
        unsafe { std::slice::from_raw_parts_mut(place.add(range.start).as_ptr(), range.len()) }
    }
}

impl<T: Element> Source for Values<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn signature(&self) -> u8 {
        self.format.signature(T::TYPE, self.operation)
    }

    fn width(&self) -> usize {
        self.format.width()
    }

    fn exponent(&self, range: Range<usize>) -> i32 {
        self.format.exponent(self.read(range))
    }

    fn encode(&self, range: Range<usize>, exponent: i8, lanes: &mut [u8]) -> u32 {
        if let Some(aside) = &self.aside {
            // SAFETY: by the contract of `Elements::keeping` there is room.
            unsafe { aside.keep(&self.bytes(&range)) };
        }
        let rounding = match self.excess {
            Excess::Lost => return self.format.encode(self.read(range), exponent, lanes),
            Excess::Kept(_) => Rounding::Kept(self.kept(&range)),
            Excess::Random { seed, first } => {
                Rounding::Random { seed, first: first.wrapping_add(range.start as u32) }
            }
        };
        self.format.encode_rounded(self.read(range), exponent, rounding, lanes)
    }
}

/// Elements that are written.
struct Results<T>(Values<T>);

impl<T: Element> Sink for Results<T> {
    fn set_participation(&mut self, ranks: u32) {
        self.0.format = self.0.format.of_participants(ranks);
    }

    fn decode(&mut self, range: Range<usize>, exponent: i8, lanes: &[u8]) {
        let values = &self.0;
        let at = values.at(&range);
        if let Some(aside) = &values.aside {
            aside.note_replaced(values.bytes(&range));
        }
        // SAFETY: by the contract of `sink`; nobody reads them any more, as this fragment has its result.
        let elements = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), range.len()) };
        values.format.decode(lanes, exponent, values.operation, elements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiresum_codec::Codec;

    fn encoding(operation: Operation, workers: u32) -> Encoding {
        let format = Format::new(Codec::BLOCK, LaneType::I32Le, workers).expect("a format");
        Encoding { element: ElementType::Float32, operation, format, excess: Excess::Lost }
    }

    fn in_place(values: &mut [f32], encoding: Encoding) -> (Box<dyn Source>, Box<dyn Sink>) {
        let (data, len) = (NonNull::from(&mut *values).cast(), values.len());
        // SAFETY: the tests drop both before they touch the values.
        unsafe { (source(data, len, encoding), sink(data, len, encoding)) }
    }

    #[test]
    fn fragments_are_summed_in_place() {
        let mut values = [1.5f32, -2.0, 3.0, 0.25];
        let (source, mut sink) = in_place(&mut values, encoding(Operation::Average, 2));
        let exponent = i8::try_from(source.exponent(1..3)).expect("finite");
        let mut lanes = [0; 32];
        let sum = source.encode(1..3, exponent, &mut lanes);
        assert_eq!(sum, LaneType::I32Le.sum(&lanes));
        sink.decode(1..3, exponent, &lanes);
        drop((source, sink));
        assert_eq!(values, [1.5, -1.0, 1.5, 0.25], "one of two workers, averaged");
    }

    #[test]
    fn sums_of_some_stand_for_those_of_all() {
        for (operation, expected) in [(Operation::Sum, 6.0), (Operation::Average, 1.5)] {
            let mut values = [4.5f32];
            let (source, mut sink) = in_place(&mut values, encoding(operation, 4));
            let exponent = i8::try_from(source.exponent(0..1)).expect("finite");
            let mut lanes = [0; 32];
            source.encode(0..1, exponent, &mut lanes);
            sink.set_participation(3);
            sink.decode(0..1, exponent, &lanes);
            drop((source, sink));
            assert!((values[0] - expected).abs() < 1e-6, "a sum of 4.5 by three of four");
        }
    }

    #[test]
    fn sums_of_a_group_are_its_own() {
        for (operation, expected) in [(Operation::Sum, 4.5), (Operation::Average, 1.5)] {
            let mut values = [4.5f32];
            let of_four = encoding(operation, 4);
            let encoding = Encoding { format: of_four.format.of_group(3), ..of_four };
            let (source, mut sink) = in_place(&mut values, encoding);
            let exponent = i8::try_from(source.exponent(0..1)).expect("finite");
            let mut lanes = [0; 32];
            source.encode(0..1, exponent, &mut lanes);
            sink.decode(0..1, exponent, &lanes);
            drop((source, sink));
            assert!((values[0] - expected).abs() < 1e-6, "4.5 by three, in a job of four");
        }
    }

    #[test]
    fn one_thread_may_encode_while_another_decodes() {
        const FRAGMENT: usize = 8;
        let mut values: Vec<f32> = (0..64 * FRAGMENT).map(|i| i as f32).collect();
        let (source, mut sink) = in_place(&mut values, encoding(Operation::Sum, 1));
        let (sender, encoded) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for start in (0..source.len()).step_by(FRAGMENT) {
                    let (range, mut lanes) = (start..start + FRAGMENT, [0; 4 * FRAGMENT]);
                    source.encode(range.clone(), 9, &mut lanes);
                    sender.send((range, lanes)).expect("somebody decodes");
                }
            });
            scope.spawn(move || {
                encoded.iter().for_each(|(range, lanes)| sink.decode(range, 9, &lanes));
            });
        });
        let expected: Vec<f32> = (0..64 * FRAGMENT).map(|i| i as f32).collect();
        assert_eq!(values, expected);
    }
}
