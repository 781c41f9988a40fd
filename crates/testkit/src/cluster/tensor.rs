//! Integers as values, so that sums can be compared to the bit, and a source and sink that check how they are used.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use wiresum_wire::LaneType;
use wiresum_wire::control::Absent;

use wiresum_netem::Rng;
use wiresum_protocol::Plan;
use wiresum_protocol::plan::Exponents;
use wiresum_worker::collective::NOT_FINITE;
use wiresum_worker::kind::{Kind, View};
use wiresum_worker::{Collective, Sink, Source};

/// A collective that all ranks pass, each with values of its own.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// What it does.
    pub kind: Kind,
    /// Rank that takes the results, where the kind has a root.
    pub root: u32,
    /// Elements.
    pub size: usize,
}

impl Call {
    /// A call of any kind that sums, and to any of so many ranks.
    pub fn random(rng: &mut Rng, ranks: usize, size: usize) -> Self {
        let kinds: Vec<Kind> = Kind::ALL.iter().copied().filter(|kind| !kind.is_copy()).collect();
        Self::random_of(&kinds, rng, ranks, size)
    }

    /// A call of one of these kinds, and to any of so many ranks.
    pub fn random_of(kinds: &[Kind], rng: &mut Rng, ranks: usize, size: usize) -> Self {
        let kind = kinds[rng.below(kinds.len() as u64) as usize];
        let root = if kind.has_root() { rng.below(ranks as u64) as u32 } else { 0 };
        Self { kind, root, size }
    }
}

/// What a worker passes to a collective; clones share the values.
#[derive(Clone)]
pub struct Tensor {
    inner: Arc<Mutex<Inner>>,
    /// What the operation is, for the check that all ranks pass the same.
    pub signature: u8,
    /// What the values become.
    pub lanes: LaneType,
    /// What the collective does.
    pub kind: Kind,
    /// Rank that takes the results, where the kind has a root.
    pub root: u32,
}

struct Inner {
    rank: usize,
    ranks: usize,
    own: Vec<i32>,
    values: Vec<i32>,
    /// Where results are written to, if that is not the memory of the values; `None` where nothing has been written.
    apart: Option<Vec<Option<i32>>>,
    is_decoded: Vec<bool>,
    not_finite: Option<usize>,
    /// By how much all exponents exceed those of a tensor that has not grown.
    growth: i32,
    /// The codec has one exponent, 0.
    is_fixed: bool,
    /// How many ranks' values the sum is said to hold.
    participation: Option<u32>,
}

/// Number of different exponents that ranks propose, half of them negative.
const EXPONENT_SPAN: usize = 40;

impl Tensor {
    /// `len` values that differ by rank, round and place and use all bits of a lane, so that sums wrap; in a sealed job all
    /// bits that the codec uses, as its sums never do. Where the elements decide about the lanes, those of every second
    /// round are narrow.
    pub fn of(plan: &Plan, rank: usize, round: usize, len: usize) -> Self {
        let mut rng = Rng::new((rank as u64) << 40 | (round as u64) << 20 | 5);
        let lanes = plan.job.lanes.of_elements(if round.is_multiple_of(2) { 4 } else { 2 });
        let is_narrow = lanes.width() == 2;
        let spared =
            if plan.job.sealed { plan.workers.len().next_power_of_two().ilog2() } else { 0 };
        let narrow = |v: i32| (if is_narrow { i32::from(v as i16) } else { v }) >> spared;
        let own: Vec<i32> = (0..len).map(|_| narrow(rng.next() as i32)).collect();
        let values = own.clone();
        let inner = Inner {
            rank,
            ranks: plan.workers.len(),
            own,
            values,
            apart: None,
            is_decoded: vec![false; len],
            not_finite: None,
            growth: 0,
            is_fixed: false,
            participation: None,
        };
        let (kind, root) = (Kind::AllReduce, 0);
        Self { inner: Arc::new(Mutex::new(inner)), signature: 3, lanes, kind, root }
    }

    /// With a value that is not finite at this place.
    pub fn with_infinity_at(self, index: usize) -> Self {
        self.lock().not_finite = Some(index);
        self
    }

    /// The same tensor for this rank of a group of so many.
    pub fn of_rank(self, rank: usize, ranks: usize) -> Self {
        (self.lock().rank, self.lock().ranks) = (rank, ranks);
        self
    }

    /// How many ranks the group has that it is passed to.
    pub fn ranks(&self) -> usize {
        self.lock().ranks
    }

    /// The same tensor under a codec without exponents.
    pub fn with_fixed_exponents(self) -> Self {
        self.lock().is_fixed = true;
        self
    }

    /// With values that have grown by so many bits, as the exponents say.
    pub fn grown_by(self, bits: i32) -> Self {
        self.lock().growth = bits;
        self
    }

    /// The same values for another operation.
    pub fn with_signature(mut self, signature: u8) -> Self {
        self.signature = signature;
        self
    }

    /// The same values on other lanes.
    pub fn on(mut self, lanes: LaneType) -> Self {
        self.lanes = lanes;
        self
    }

    /// The same values for a collective of this kind.
    pub fn of_kind(mut self, kind: Kind, root: u32) -> Self {
        (self.kind, self.root) = (kind, root);
        if kind.is_copy() {
            self.lock().become_bytes(kind, root as usize);
        }
        self
    }

    /// With results in memory of their own, as copies have in any case.
    pub fn out_of_place(self) -> Self {
        if self.kind.is_copy() {
            return self;
        }
        let len = self.own().len();
        self.lock().apart = Some(vec![None; len]);
        self
    }

    /// What the worker ends with, if this is the sum: values, and results in memory of their own, by element.
    pub fn expected(&self, sum: &[i32]) -> (Vec<i32>, Option<Vec<Option<i32>>>) {
        let inner = self.lock();
        let (rank, ranks) = (inner.rank, inner.ranks);
        let (root, elements) = (self.root as usize, sum.len());
        let part = self.kind.part(View { rank, ranks, root, elements });
        let is_taken = |index: &usize| part.contains(index);
        let Some(apart) = &inner.apart else {
            let value = |index| if is_taken(&index) { sum[index] } else { inner.own[index] };
            return ((0..elements).map(value).collect(), None);
        };
        let result = |index: usize| is_taken(&index).then(|| sum[index]);
        (inner.own.clone(), Some((0..apart.len()).map(result).collect()))
    }

    /// What the worker ends with, of these ranks' bytes, of which absent ones have none: its own, and copies of those
    /// that it takes.
    pub fn expected_copies(
        &self,
        of_all: &[Option<&Self>],
    ) -> (Vec<i32>, Option<Vec<Option<i32>>>) {
        let own = self.own();
        let shares: Vec<Vec<Option<i32>>> = match self.kind {
            Kind::Barrier => Vec::new(),
            Kind::Broadcast => {
                of_all[self.root as usize].iter().map(|root| root.copied_to(self)).collect()
            }
            Kind::Scatter => vec![self.scattered(of_all[self.root as usize])],
            Kind::Gather if self.lock().rank != self.root as usize => Vec::new(),
            _ => of_all
                .iter()
                .map(|other| match other {
                    Some(other) => other.copied_to(self),
                    None => vec![None; own.len()],
                })
                .collect(),
        };
        (own, Some(shares.concat()))
    }

    /// What this worker takes of the root's bytes.
    fn scattered(&self, root: Option<&Self>) -> Vec<Option<i32>> {
        let elements = self.own().len();
        let rank = self.lock().rank;
        let view = View { rank, ranks: self.ranks(), root: self.root as usize, elements };
        let part = self.kind.part(view);
        let given = root.map(Self::own);
        part.map(|index| given.as_ref().map(|bytes| bytes[index])).collect()
    }

    fn copied_to(&self, taker: &Self) -> Vec<Option<i32>> {
        let is_own = Arc::ptr_eq(&self.inner, &taker.inner);
        let taken = match (is_own, taker.kind) {
            (false, _) => return self.own().into_iter().map(Some).collect(),
            (true, kind) if kind.is_share() => return self.own().into_iter().map(Some).collect(),
            (true, Kind::AllGather | Kind::Gather) => self.own().len(),
            (true, _) => 0,
        };
        vec![None; taken]
    }

    /// What the worker has now: values, and results in memory of their own.
    pub fn memory(&self) -> (Vec<i32>, Option<Vec<Option<i32>>>) {
        let inner = self.lock();
        (inner.values.clone(), inner.apart.clone())
    }

    /// Elements whose results have not come.
    pub fn lacks(&self) -> Vec<usize> {
        let inner = self.lock();
        (0..inner.is_decoded.len()).filter(|element| !inner.is_decoded[*element]).collect()
    }

    /// What the sink holds now.
    pub fn values(&self) -> Vec<i32> {
        self.lock().values.clone()
    }

    /// How many ranks' values the sum is said to hold, where rounds may go on without some.
    pub fn participation(&self) -> Option<u32> {
        self.lock().participation
    }

    /// What the worker passed.
    pub fn own(&self) -> Vec<i32> {
        self.lock().own.clone()
    }

    /// What the lanes of a sum hold, wrapped to their width.
    pub fn sum(tensors: &[&Self]) -> Vec<i32> {
        let is_narrow = tensors[0].lanes.width() == 2;
        let mut sum = vec![0i32; tensors[0].own().len()];
        for tensor in tensors {
            for (total, value) in sum.iter_mut().zip(tensor.own()) {
                *total = total.wrapping_add(value);
                *total = if is_narrow { i32::from(*total as i16) } else { *total };
            }
        }
        sum
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no test panics while it holds a tensor")
    }
}

impl Inner {
    /// Takes the bytes that someone has given.
    fn take_bytes(&mut self, range: Range<usize>, bytes: &[u8]) {
        for (index, byte) in range.zip(bytes) {
            assert!(!self.is_decoded[index], "byte {index} is taken twice");
            self.is_decoded[index] = true;
            let copies = self.apart.as_mut().expect("copies have memory of their own");
            copies[index] = Some(i32::from(*byte));
        }
    }

    /// Values that are bytes, and memory for those of the others.
    fn become_bytes(&mut self, kind: Kind, root: usize) {
        self.own.iter_mut().for_each(|value| *value &= 0xff);
        self.values = self.own.clone();
        let (rank, ranks, elements) = (self.rank, self.ranks, self.own.len());
        let taken = kind.part(View { rank, ranks, root, elements }).len();
        self.apart = Some(vec![None; taken]);
        self.is_decoded = vec![false; taken];
    }
}

/// A tensor as the source and the sink of collectives.
#[derive(Clone)]
pub struct Integers {
    tensor: Tensor,
    rank_count: usize,
    /// Values of a fragment.
    per_fragment: usize,
    /// The exponents are not the largest of all ranks' proposals: they are of earlier collectives, or of those who took part.
    is_free: bool,
    /// Ranks that propose none.
    absent: Absent,
}

impl Integers {
    /// Over a tensor of this plan.
    pub fn new(plan: &Plan, tensor: Tensor) -> Self {
        let is_free = plan.job.exponents == Exponents::Expected || plan.job.rounds.is_some();
        let per_fragment = plan.values_len() / tensor.lanes.width();
        let absent = Absent::default();
        Self { rank_count: tensor.ranks(), tensor, per_fragment, is_free, absent }
    }

    /// In an incarnation that goes on without these ranks.
    #[must_use]
    pub fn without(self, absent: Absent) -> Self {
        Self { absent, ..self }
    }

    /// As the tensor says.
    pub fn collective(self) -> Collective {
        let Tensor { kind, root, .. } = self.tensor;
        Collective { kind, root, source: Box::new(self.clone()), sink: Box::new(self) }
    }

    /// The first element whose result this rank takes.
    fn first_taken(&self) -> usize {
        let Tensor { kind, root, .. } = self.tensor;
        let (elements, root) = (self.len(), root as usize);
        let rank = self.tensor.lock().rank;
        kind.part(View { rank, ranks: self.rank_count, root, elements }).start
    }

    /// The exponent that the ranks agree on for a fragment, the largest of those that they propose.
    fn agreed(&self, start: usize) -> i32 {
        let present = (0..self.rank_count).filter(|rank| !self.absent.holds(*rank as u32));
        let proposals = present.map(|rank| proposal(start, rank));
        proposals.max().expect("a job has workers")
    }

    fn check_exponent(&self, exponent: i8, start: usize) {
        let inner = self.tensor.lock();
        let agreed = if inner.is_fixed { 0 } else { self.agreed(start) + inner.growth };
        let is_right = i32::from(exponent) == agreed;
        assert!(is_right || self.is_free, "{exponent} instead of the agreed {agreed}");
    }

    fn write_lane(&self, value: i32, lane: &mut [u8]) {
        match self.tensor.lanes {
            LaneType::I32Le => lane.copy_from_slice(&value.to_le_bytes()),
            LaneType::I32Be => lane.copy_from_slice(&value.to_be_bytes()),
            LaneType::I16Le => lane.copy_from_slice(&(value as i16).to_le_bytes()),
            LaneType::I16Be => lane.copy_from_slice(&(value as i16).to_be_bytes()),
        }
    }

    fn read_lane(&self, bytes: &[u8]) -> i32 {
        match self.tensor.lanes {
            LaneType::I32Le => i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            LaneType::I32Be => i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            LaneType::I16Le => i16::from_le_bytes([bytes[0], bytes[1]]).into(),
            LaneType::I16Be => i16::from_be_bytes([bytes[0], bytes[1]]).into(),
        }
    }
}

/// The exponent that a rank proposes for the fragment that starts there.
fn proposal(start: usize, rank: usize) -> i32 {
    ((start / 7 + 13 * rank) % EXPONENT_SPAN) as i32 - EXPONENT_SPAN as i32 / 2
}

impl Source for Integers {
    fn len(&self) -> usize {
        self.tensor.lock().own.len()
    }

    fn signature(&self) -> u8 {
        self.tensor.signature
    }

    fn width(&self) -> usize {
        if self.tensor.kind.is_copy() { 4 } else { self.tensor.lanes.width() }
    }

    fn exponent(&self, range: Range<usize>) -> i32 {
        let inner = self.tensor.lock();
        if inner.not_finite.is_some_and(|index| range.contains(&index)) {
            return NOT_FINITE;
        }
        if inner.is_fixed { 0 } else { proposal(range.start, inner.rank) + inner.growth }
    }

    fn encode(&self, range: Range<usize>, exponent: i8, lanes: &mut [u8]) -> u32 {
        if self.tensor.kind.is_copy() {
            lanes.fill(0);
            let inner = self.tensor.lock();
            lanes.iter_mut().zip(&inner.own[range]).for_each(|(to, value)| *to = *value as u8);
            return 0;
        }
        self.check_exponent(exponent, range.start);
        let inner = self.tensor.lock();
        assert!(
            inner.apart.is_some() || !inner.is_decoded[range.clone()].contains(&true),
            "{range:?} is encoded after it was decoded"
        );
        lanes.fill(0);
        let chunks = lanes.chunks_exact_mut(self.tensor.lanes.width());
        inner.values[range]
            .iter()
            .zip(chunks)
            .for_each(|(value, lane)| self.write_lane(*value, lane));
        self.tensor.lanes.sum(lanes)
    }
}

impl Sink for Integers {
    fn set_participation(&mut self, ranks: u32) {
        let told = self.tensor.lock().participation.replace(ranks);
        assert_eq!(told, None, "told once, before anything is decoded");
    }

    fn decode(&mut self, range: Range<usize>, exponent: i8, lanes: &[u8]) {
        if self.tensor.kind.is_copy() {
            return self.tensor.lock().take_bytes(range, lanes);
        }
        let first = self.first_taken();
        let fragment = (first + range.start) / self.per_fragment * self.per_fragment;
        self.check_exponent(exponent, fragment);
        let mut inner = self.tensor.lock();
        for (index, bytes) in range.zip(lanes.chunks_exact(self.tensor.lanes.width())) {
            let index = first + index;
            assert!(!inner.is_decoded[index], "element {index} is decoded twice");
            inner.is_decoded[index] = true;
            let result = self.read_lane(bytes);
            match &mut inner.apart {
                Some(results) => results[index] = Some(result),
                None => inner.values[index] = result,
            }
        }
    }
}
