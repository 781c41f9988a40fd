//! Packets of rows of tables (see `spec/wire.md`, "Rows"): a second header of fixed length, then columns.
//!
//! The place of every value follows from the kind and from two fields, `rows` and `dim`, so that a program in the kernel
//! reads a packet in loops with bounds that it knows. Numbers are big-endian; values are little-endian.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::limits::{
    ACKNOWLEDGEMENT_WORDS, HEADER_LEN, MAGIC, MAX_CONTRIBUTORS, MAX_ROW_VALUES, MAX_STORED_VALUES,
    PAGE_PAYLOAD, ROW_HEADER_LEN, VERSION,
};
use crate::packet::{expect_len, parse_prefix};
use crate::schema::{layout, numbers};
use crate::{Flags, Header, LaneType, ParseError, header_sum};

layout! {
    /// What follows the header in packets of rows.
    pub struct RowHeader {
        /// From workers and switches: version of the hot map by which rows were sorted. From a server: its incarnation.
        pub stamp: U32,
        /// In an end: packets of the round before it. In results, news, decisions and reports: parts that there are. In a
        /// pull: 1 where the optimizer's state is wanted too.
        pub count: U32,
        /// In hot rows the position to which offsets are added; in a return the round that changed the row last.
        pub base: U32,
        /// Rows in the packet; bytes in news, decisions and refusals; words of the bitmap in an acknowledgement.
        pub rows: U16,
        /// Values of each row.
        pub dim: U16,
    }
}

const _: () = assert!(size_of::<RowHeader>() == ROW_HEADER_LEN);

numbers! {
    /// What a packet of rows is for; it stands where other packets have their kind.
    #[derive(PartialOrd, Ord)]
    pub enum RowKind: u8 {
        /// Gradients of a worker for rows of one table, to a server, or to a switch that sums pairs: keys, values.
        Push = 16,
        /// Gradients of a worker for hot rows, to a switch: offsets of positions, values.
        HotRows = 17,
        /// Sums of hot rows, from a switch to a worker: offsets of positions, counts of contributors, values.
        HotSums = 18,
        /// Sums of some workers' hot rows, from a switch to the one above: offsets of positions, bitmaps of contributors,
        /// 64-bit lanes.
        RowSums = 19,
        /// A row that was replicated, back to its server: its key, its values and state.
        Return = 20,
        /// How many workers had a gradient for hot rows in the round before, to a server: keys, counts of contributors.
        Counts = 21,
        /// The sender has no more packets for the round, to a server or a switch.
        End = 22,
        /// A piece of what a server says when a round is closed.
        News = 23,
        /// A piece of what is decided about the map, to a server.
        Decision = 24,
        /// A question for weights, or for all that is stored of rows, to a server: keys.
        Pull = 25,
        /// Weights that were asked for, in the order of the question's keys: values.
        Weights = 26,
        /// Packets have come: the fragment's number, and those after it whose bits are set.
        Acknowledgement = 27,
        /// A packet cannot be taken, and the job ends: why, as text.
        Problem = 28,
        /// What a server can be restored to: the header's round is that of its snapshot.
        Restorable = 29,
        /// How popular rows of one table are at a server, to the server that coordinates: keys, counts as float32.
        Report = 30,
        /// Rows as they are to be from the end of the round on, to a server: keys, values and state.
        Put = 31,
    }
}

/// Types of the values of rows. Gradients of workers and weights may have 16 bits, all else has 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowValue {
    /// IEEE 754 binary32.
    #[default]
    Float32,
    /// IEEE 754 binary16.
    Float16,
    /// The upper half of binary32.
    Bfloat16,
}

impl RowValue {
    /// Bytes of a value.
    #[must_use]
    pub fn width(self) -> usize {
        if self == Self::Float32 { 4 } else { 2 }
    }

    fn flags(self) -> Flags {
        let wide = Flags::LITTLE_ENDIAN.with(Flags::FLOAT);
        match self {
            Self::Float32 => wide,
            Self::Float16 => wide.with(Flags::LANES16),
            Self::Bfloat16 => wide.with(Flags::LANES16).with(Flags::BFLOAT),
        }
    }

    /// What the values of a packet of this kind are; int32 counts as what is as long.
    fn of(kind: RowKind, flags: Flags) -> Self {
        let is_narrow = kind.may_be_narrow() && flags.contains(Flags::FLOAT.with(Flags::LANES16));
        match flags.contains(Flags::BFLOAT) {
            _ if !is_narrow => Self::Float32,
            true => Self::Bfloat16,
            false => Self::Float16,
        }
    }
}

impl RowKind {
    /// Whether its values may have 16 bits.
    #[must_use]
    pub fn may_be_narrow(self) -> bool {
        matches!(self, Self::Push | Self::HotRows | Self::Weights)
    }

    /// Whether a switch is asked or answers; all other kinds are a server's, and an end is either's.
    #[must_use]
    pub fn is_hot(self) -> bool {
        matches!(self, Self::HotRows | Self::HotSums | Self::RowSums)
    }

    /// Bytes after both headers for so many rows of `dim` values of 32 bits, in whole words.
    #[must_use]
    pub fn payload_len(self, rows: usize, dim: usize) -> usize {
        self.payload_len_of(rows, dim, RowValue::Float32)
    }

    /// The same for values of a type, where the kind may have it.
    #[must_use]
    pub fn payload_len_of(self, rows: usize, dim: usize, value: RowValue) -> usize {
        let columns = match self {
            Self::Push => rows * (8 + value.width() * dim),
            Self::Weights => rows * value.width() * dim,
            Self::Put => rows * (8 + 4 * dim),
            Self::HotRows => words(2 * rows) + rows * value.width() * dim,
            Self::HotSums => words(3 * rows) + rows * 4 * dim,
            Self::RowSums => words(2 * rows) + rows * (8 + 8 * dim),
            Self::Return => 8 + 4 * dim,
            Self::Counts => 9 * rows,
            Self::Report => 12 * rows,
            Self::Pull => 8 * rows,
            Self::News | Self::Decision | Self::Problem => rows,
            Self::Acknowledgement => 4 * rows,
            Self::End | Self::Restorable => 0,
        };
        words(columns)
    }

    /// Most rows of `dim` values of 32 bits that fit into `room` bytes after both headers.
    #[must_use]
    pub fn rows_for(self, room: usize, dim: usize) -> usize {
        self.rows_of(room, dim, RowValue::Float32)
    }

    /// The same for values of a type, where the kind may have it.
    #[must_use]
    pub fn rows_of(self, room: usize, dim: usize, value: RowValue) -> usize {
        // Four rows need no padding, so larger numbers are as many fours and a rest.
        let len = |rows| self.payload_len_of(rows, dim, value);
        let four = len(4) - len(0);
        let fours = room.saturating_sub(len(0)).checked_div(four).unwrap_or(0);
        let fits = |rows: &usize| len(*rows) <= room;
        (4 * fours..4 * fours + 4).rev().find(fits).unwrap_or(0)
    }

    fn has_dim(self, dim: usize) -> bool {
        match self {
            Self::Return | Self::Put | Self::Weights => (1..=MAX_STORED_VALUES).contains(&dim),
            Self::Push | Self::HotRows | Self::RowSums => (1..=MAX_ROW_VALUES).contains(&dim),
            // A round may have no sums: then there is one part with no rows.
            Self::HotSums => dim <= MAX_ROW_VALUES,
            _ => dim == 0,
        }
    }

    fn has_rows(self, rows: usize) -> bool {
        match self {
            Self::Push | Self::HotRows | Self::RowSums | Self::Counts => rows > 0,
            Self::Pull | Self::Weights | Self::Put => rows > 0,
            Self::Return => rows == 1,
            Self::End | Self::Restorable => rows == 0,
            Self::Acknowledgement => rows <= ACKNOWLEDGEMENT_WORDS,
            // A report of nothing is a packet too: its receiver waits for one.
            Self::HotSums | Self::News | Self::Decision | Self::Problem | Self::Report => true,
        }
    }
}

/// Bytes in whole words.
fn words(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

/// A datagram of rows whose form is right. Whether it belongs here is for the protocol.
#[derive(Clone, Copy, Debug)]
pub struct RowPacket<'a> {
    /// The header, in place.
    pub header: &'a Header,
    /// The second header, in place.
    pub rows: &'a RowHeader,
    /// The kind, decoded.
    pub kind: RowKind,
    /// The columns.
    pub payload: &'a [u8],
}

impl<'a> RowPacket<'a> {
    /// Validates the form of `bytes`.
    ///
    /// # Errors
    /// One [`ParseError`] per way in which a datagram can be ill-formed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = parse_prefix(bytes)?;
        let kind = RowKind::from_wire(header.kind).ok_or(ParseError::Kind(header.kind))?;
        let need = HEADER_LEN + ROW_HEADER_LEN;
        let (rows, payload) = RowHeader::ref_from_prefix(rest)
            .map_err(|_| ParseError::Truncated { have: bytes.len(), need })?;
        let (count, dim) = (usize::from(rows.rows.get()), usize::from(rows.dim.get()));
        let value = RowValue::of(kind, Flags(header.flags.get()));
        let len = kind.payload_len_of(count, dim, value);
        let is_whole = kind.has_rows(count) && kind.has_dim(dim);
        let is_said = len == 4 * usize::from(header.value_count.get());
        if !is_whole || !is_said || len > PAGE_PAYLOAD - ROW_HEADER_LEN {
            return Err(ParseError::PayloadLength(len));
        }
        expect_len(bytes.len(), need + len)?;
        let (have, want) = (header.check.get(), check(header, rows, payload));
        if have != want {
            return Err(ParseError::Check { have, want });
        }
        let packet = Self { header, rows, kind, payload };
        packet.check_positions().map(|()| packet)
    }

    /// Positions of hot rows ascend, so none is there twice, and none is beyond 32 bits.
    fn check_positions(&self) -> Result<(), ParseError> {
        let offsets = || self.offsets().map(|offset| u32::from(offset.get()));
        let is_ascending = offsets().zip(offsets().skip(1)).all(|(one, next)| one < next);
        let last = offsets().next_back().unwrap_or(0);
        let is_in_range = self.rows.base.get().checked_add(last).is_some();
        if is_ascending && is_in_range { Ok(()) } else { Err(ParseError::Positions) }
    }

    fn count(&self) -> usize {
        self.rows.rows.get().into()
    }

    /// A column of so many numbers that begins after so many bytes.
    fn column<T: FromBytes + zerocopy::Immutable + zerocopy::KnownLayout + zerocopy::Unaligned>(
        &self,
        begin: usize,
        count: usize,
    ) -> &'a [T] {
        let column = <[T]>::ref_from_prefix_with_elems(&self.payload[begin..], count);
        column.expect("the length was checked").0
    }

    fn offsets(&self) -> impl DoubleEndedIterator<Item = &'a U16> + use<'a> {
        let count = if self.kind.is_hot() { self.count() } else { 0 };
        self.column::<U16>(0, count).iter()
    }

    /// Positions of hot rows, ascending; none in other kinds.
    pub fn positions(&self) -> impl Iterator<Item = u32> + use<'a> {
        let base = self.rows.base.get();
        self.offsets().map(move |offset| base + u32::from(offset.get()))
    }

    /// Keys of rows, where the kind has them.
    #[must_use]
    pub fn keys(&self) -> &'a [U64] {
        let has_keys = matches!(
            self.kind,
            RowKind::Push
                | RowKind::Return
                | RowKind::Counts
                | RowKind::Pull
                | RowKind::Report
                | RowKind::Put
        );
        self.column(0, if has_keys { self.count() } else { 0 })
    }

    /// How many workers' gradients are in each row, where the kind says so.
    #[must_use]
    pub fn contributor_counts(&self) -> &'a [u8] {
        match self.kind {
            RowKind::HotSums => self.column(2 * self.count(), self.count()),
            RowKind::Counts => self.column(8 * self.count(), self.count()),
            _ => &[],
        }
    }

    /// Bitmaps of workers, of sums.
    #[must_use]
    pub fn contributors(&self) -> &'a [U64] {
        match self.kind {
            RowKind::RowSums => self.column(words(2 * self.count()), self.count()),
            _ => &[],
        }
    }

    /// Type of the values.
    #[must_use]
    pub fn value(&self) -> RowValue {
        RowValue::of(self.kind, Flags(self.header.flags.get()))
    }

    /// Bits of the values, row after row, where they have 16; none otherwise.
    #[must_use]
    pub fn narrow_values(&self) -> &'a [zerocopy::byteorder::little_endian::U16] {
        let is_narrow = self.value() != RowValue::Float32;
        let begin = match self.kind {
            RowKind::Push if is_narrow => 8 * self.count(),
            RowKind::HotRows if is_narrow => words(2 * self.count()),
            _ => 0,
        };
        let values = self.count() * usize::from(self.rows.dim.get());
        self.column(begin, if is_narrow { values } else { 0 })
    }

    /// The values, row after row: little-endian float32, or int32 where [`Flags::FLOAT`] is not set; none where they have
    /// 16 bits.
    #[must_use]
    pub fn values(&self) -> &'a [zerocopy::byteorder::little_endian::F32] {
        let values = self.count() * usize::from(self.rows.dim.get());
        match self.kind {
            _ if self.value() != RowValue::Float32 => &[],
            RowKind::Push | RowKind::Return | RowKind::Put => self.column(8 * self.count(), values),
            RowKind::Report => self.column(8 * self.count(), self.count()),
            RowKind::HotRows => self.column(words(2 * self.count()), values),
            RowKind::HotSums => self.column(words(3 * self.count()), values),
            RowKind::Weights => self.column(0, values),
            _ => &[],
        }
    }

    /// The lanes of sums, row after row.
    #[must_use]
    pub fn lanes(&self) -> &'a [zerocopy::byteorder::little_endian::I64] {
        let (count, dim) = (self.count(), usize::from(self.rows.dim.get()));
        match self.kind {
            RowKind::RowSums => self.column(words(2 * count) + 8 * count, count * dim),
            _ => &[],
        }
    }

    /// The bytes of news, of a decision or of a problem.
    #[must_use]
    pub fn text(&self) -> &'a [u8] {
        match self.kind {
            RowKind::News | RowKind::Decision | RowKind::Problem => &self.payload[..self.count()],
            _ => &[],
        }
    }

    /// Numbers of the packets that an acknowledgement is about.
    pub fn acknowledged(&self) -> impl Iterator<Item = u32> + use<'a> {
        let is_one = self.kind == RowKind::Acknowledgement;
        let first = self.header.fragment.get();
        let words = self.column::<U32>(0, if is_one { self.count() } else { 0 });
        let of_word = move |(word, bits): (usize, &U32)| {
            let (bits, begin) = (bits.get(), first.wrapping_add(1 + 32 * word as u32));
            (0..32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| begin.wrapping_add(bit))
        };
        is_one.then_some(first).into_iter().chain(words.iter().enumerate().flat_map(of_word))
    }
}

/// Headers of a packet of rows that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct RowDraft {
    /// The header; what follows from the payload is filled in by [`Self::emit`].
    pub header: Header,
    /// The second header.
    pub rows: RowHeader,
}

impl RowDraft {
    /// What every packet of a kind starts with; all else is zero. Lanes are float32.
    #[must_use]
    pub fn new(kind: RowKind) -> Self {
        let rows = zerocopy::FromZeros::new_zeroed();
        let header: Header = zerocopy::FromZeros::new_zeroed();
        let flags = RowValue::Float32.flags().0.into();
        let (magic, version, kind) = (MAGIC.into(), VERSION, kind as u8);
        Self { header: Header { magic, version, kind, flags, ..header }, rows }
    }

    /// Has the values be of this type, where the kind may have it.
    pub fn set_value(&mut self, value: RowValue) {
        self.header.flags = value.flags().0.into();
    }

    /// Appends the packet with these columns to `out`.
    ///
    /// # Panics
    /// If the columns are longer than a packet's.
    pub fn emit(mut self, columns: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + HEADER_LEN + ROW_HEADER_LEN, 0);
        out.extend_from_slice(columns);
        out.resize(out.len() + words(columns.len()) - columns.len(), 0);
        let (headers, payload) = out[begin..].split_at_mut(HEADER_LEN + ROW_HEADER_LEN);
        assert!(ROW_HEADER_LEN + payload.len() <= PAGE_PAYLOAD, "{} bytes", payload.len());
        self.header.value_count.set((payload.len() / 4) as u16);
        self.header.check.set(check(&self.header, &self.rows, payload));
        headers[..HEADER_LEN].copy_from_slice(self.header.as_bytes());
        headers[HEADER_LEN..].copy_from_slice(self.rows.as_bytes());
    }
}

/// As that of other packets: all words after the header are little-endian for it, as values are, and so one loop sums them.
fn check(header: &Header, rows: &RowHeader, payload: &[u8]) -> u32 {
    let sum = |bytes: &[u8]| LaneType::I32Le.sum(bytes);
    header_sum(header).wrapping_add(sum(rows.as_bytes())).wrapping_add(sum(payload))
}

const _: () = assert!(MAX_CONTRIBUTORS <= u8::MAX as usize);
