//! The C interface of `engine_abi.h`, for the PyTorch backend.

use std::ffi::{CString, c_char, c_void};
use std::ops::Range;
use std::ptr::NonNull;
use std::time::Duration;

use wiresum_codec::{ElementType, Operation};
use wiresum_worker::{Collective as Submitted, Failure, Kind, Participation};

use crate::aside::Aside;
use crate::bytes;
use crate::engine::{CollectiveError, Engine, undoing};
use crate::exact::{ExactOperation, ExactType};
use crate::tensor::{Coding, Elements, Excess};

/// `WIRESUM_ENGINE_ABI_VERSION`.
pub const ABI_VERSION: u32 = 10;
/// `WIRESUM_ENGINE_CAPSULE`.
pub const CAPSULE_NAME: &std::ffi::CStr = c"wiresum._native.engine_abi";

/// `enum wiresum_outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum CollectiveOutcome {
    /// `WIRESUM_OK`.
    Summed = 0,
    /// `WIRESUM_NOT_FINITE`.
    NotFinite = 1,
    /// `WIRESUM_MISMATCH`.
    Mismatch = 2,
    /// `WIRESUM_TIMED_OUT`.
    TimedOut = 3,
    /// `WIRESUM_FAILED`.
    Failed = 4,
    /// `WIRESUM_UNFORESEEN`.
    Unforeseen = 5,
    /// `WIRESUM_MISSED`.
    Missed = 6,
    /// `WIRESUM_NOT_SERVED`.
    NotServed = 7,
    /// `WIRESUM_WORKER_LOST`.
    WorkerLost = 8,
}

impl CollectiveOutcome {
    /// The class of an outcome.
    #[must_use]
    pub fn of(outcome: &Result<Participation, CollectiveError>) -> Self {
        match outcome {
            Ok(participation) if participation.is_own_in => Self::Summed,
            Ok(_) => Self::Missed,
            Err(CollectiveError::Protocol { failure, .. }) => match failure {
                Failure::NotFinite => Self::NotFinite,
                Failure::Unforeseen => Self::Unforeseen,
                Failure::NotServed { .. } => Self::NotServed,
                Failure::Mismatch { .. } => Self::Mismatch,
                Failure::WorkerLost { .. } => Self::WorkerLost,
                Failure::Missing { .. } | Failure::NoResult { .. } | Failure::Silent { .. } => {
                    Self::TimedOut
                }
                _ => Self::Failed,
            },
            Err(_) => Self::Failed,
        }
    }
}

/// `wiresum_done`.
pub type DoneFn = unsafe extern "C" fn(context: *mut c_void, outcome: i32, message: *const c_char);

/// `struct wiresum_collective`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Collective {
    /// `enum wiresum_kind`: [`Kind`].
    pub kind: u32,
    /// The root of a kind that has one; otherwise 0.
    pub root: u32,
    /// Contiguous elements, read until `done`.
    pub source: *const c_void,
    /// Where this rank's part of the results goes, contiguous; valid until `done`.
    pub sink: *mut c_void,
    /// Elements of the source, at least 1; bytes of it, where the kind copies. Of a share there may be none.
    pub elements: u64,
    /// `enum wiresum_element_type`; not looked at where the kind copies; of a share any number below 16.
    pub element_type: u32,
    /// `enum wiresum_operation`; likewise.
    pub operation: u32,
    /// From submission to the end of the collective.
    pub timeout_us: u64,
    /// Bits of the numbers that elements become: 8, of an all-reduce or a reduce alone; 0 for what the plan says.
    pub bits: u32,
    /// Decides by chance which way numbers of 8 bits are rounded, where nothing is kept.
    pub seed: u32,
    /// Where what numbers of 8 bits leave of each element is written, as many as there are elements; null if nothing is
    /// kept. Valid until `done`.
    pub kept: *mut f32,
    /// Room for as many elements, where the engine keeps those that this rank gives; null if it keeps none. Valid until
    /// `done`.
    pub aside: *mut c_void,
    /// Called once.
    pub done: Option<DoneFn>,
    /// For `done`.
    pub context: *mut c_void,
}

/// `struct wiresum_engine_abi`.
#[derive(Debug)]
#[repr(C)]
pub struct EngineAbi {
    /// [`ABI_VERSION`].
    pub version: u32,
    /// The [`Engine`].
    pub engine: *mut c_void,
    /// [`submit`].
    pub submit: unsafe extern "C" fn(*mut c_void, *const Collective) -> i32,
    /// Most bytes of a rank's share; -1 where the engine takes none.
    pub largest_share: i64,
    /// Whether elements may become numbers of 8 bits: 1 if so, else 0.
    pub packs: u32,
    /// Bytes of the widest element that is all-reduced without rounding: 4, 2 or 0.
    pub exact_bytes: u32,
    /// [`tail`].
    pub tail: Option<TailFn>,
}

/// `wiresum_engine_abi.tail`.
pub type TailFn = unsafe extern "C" fn(*mut c_void, u64, u32, u32, *mut Span, u64) -> u64;

/// `struct wiresum_span`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    /// The first element.
    pub start: u64,
    /// One more than the last.
    pub end: u64,
}

// SAFETY: the pointer is to an `Engine`, whose methods may be called from any thread.
unsafe impl Send for EngineAbi {}

impl EngineAbi {
    /// The interface of `engine`, which must stay where it is for as long as this is used.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        let largest_share = engine.largest_share().and_then(|most| most.try_into().ok());
        let packs = engine.packed(ElementType::Float32, Operation::Sum, Excess::Lost).is_some();
        let is_exact =
            |element: &ExactType| engine.exact(*element, ExactOperation::Maximum).is_some();
        let widest = [ExactType::Float32, ExactType::Float16].into_iter().find(is_exact);
        let exact_bytes = widest.map_or(0, |element| element.width() as u32);
        let engine = std::ptr::from_ref(engine).cast_mut().cast();
        Self {
            version: ABI_VERSION,
            engine,
            submit,
            largest_share: largest_share.unwrap_or(-1),
            packs: packs.into(),
            exact_bytes,
            tail: Some(tail),
        }
    }
}

/// What `submit` returns.
const QUEUED: i32 = 0;
const CLOSED: i32 = 1;
const ILL_FORMED: i32 = 2;

/// `wiresum_engine_abi.submit`: 0 if queued, 1 if the engine is closed, 2 if the collective is ill-formed (a null or
/// misaligned pointer, no elements, an unknown kind, type or operation, a kind that the plan has no streams or room for,
/// a root that is no rank, numbers of 8 bits that the plan or the kind does not allow, a sink that overlaps the source
/// elsewhere than at its own part, room aside of a share, or that overlaps source or sink). `done` is called in the first
/// case only.
///
/// # Safety
/// `engine` and `collective` are those of `engine_abi.h`, with its promises.
pub unsafe extern "C" fn submit(engine: *mut c_void, collective: *const Collective) -> i32 {
    // SAFETY: by this function's contract both are valid for the call, or null.
    let (engine, collective) =
        unsafe { (engine.cast::<Engine>().as_ref(), collective.as_ref().copied()) };
    let (Some(engine), Some(collective)) = (engine, collective) else { return ILL_FORMED };
    let Some(call) = Call::checked(&collective, engine) else { return ILL_FORMED };
    let timeout = Duration::from_micros(collective.timeout_us);
    match call.submit(engine, timeout) {
        Ok(()) => QUEUED,
        Err(_) => CLOSED,
    }
}

/// `wiresum_engine_abi.tail`: the number of spans, of which at most `room` are written; 0 if there is no such all-reduce.
///
/// # Safety
/// `engine` is that of `engine_abi.h`, and there is room for the spans.
pub unsafe extern "C" fn tail(
    engine: *mut c_void,
    elements: u64,
    element_type: u32,
    bits: u32,
    spans: *mut Span,
    room: u64,
) -> u64 {
    // SAFETY: by this function's contract it is valid for the call, or null.
    let engine = unsafe { engine.cast::<Engine>().as_ref() };
    let (Some(engine), Some(element)) = (engine, ExactType::of_code(element_type)) else {
        return 0;
    };
    let Ok(elements) = usize::try_from(elements) else { return 0 };
    let tail = engine.tail(elements, if bits == 8 { 1 } else { engine.width(element) });
    for (at, span) in tail.iter().enumerate().take(room as usize) {
        // SAFETY: by this function's contract there is room.
        unsafe { spans.add(at).write(Span { start: span.start as u64, end: span.end as u64 }) };
    }
    tail.len() as u64
}

/// A collective whose fields make sense.
struct Call {
    kind: Kind,
    root: u32,
    source: NonNull<u8>,
    elements: usize,
    sink: NonNull<u8>,
    /// Elements whose results this rank takes; as many has the sink.
    part: Range<usize>,
    /// Whether the sink is that part of the source.
    is_in_place: bool,
    /// Where values are kept.
    aside: Option<NonNull<u8>>,
    content: Content,
    notify: Notify,
}

impl Call {
    fn checked(collective: &Collective, engine: &Engine) -> Option<Self> {
        let kind = Kind::of_code(collective.kind)?;
        let (root, elements) = (collective.root, usize::try_from(collective.elements).ok()?);
        if !engine.carries(kind, elements) {
            return None;
        }
        let (content, width) = content(kind, collective, engine)?;
        let part = engine.part(kind, root, elements)?;
        let source = match elements {
            0 if kind.is_share() => NonNull::dangling(),
            _ if !engine.gives(kind, root) => NonNull::dangling(),
            _ => elements_at(collective.source.cast_mut(), elements, width)?,
        };
        let sink = match part.len() {
            0 => NonNull::dangling(),
            len => elements_at(collective.sink, len, width)?,
        };
        let own = engine.own_in_sink(kind, elements);
        let is_in_place = is_in_place((source, width * part.start), (sink, width * own));
        let is_sound = is_in_place
            || !engine.gives(kind, root)
            || is_apart((source, elements), (sink, part.len()), width);
        let aside = NonNull::new(collective.aside.cast::<u8>());
        let can_keep = |aside: NonNull<u8>| {
            let is_aligned = aside.addr().get().is_multiple_of(width);
            let is_free = |used| is_apart((aside, elements), used, width);
            is_aligned && is_free((source, elements)) && is_free((sink, part.len()))
        };
        let is_kept = aside.is_none_or(|aside| !kind.is_share() && can_keep(aside));
        let notify = Notify { done: collective.done?, context: collective.context };
        (is_sound && is_kept).then_some(Self {
            kind,
            root,
            source,
            elements,
            sink,
            part,
            is_in_place,
            aside,
            content,
            notify,
        })
    }

    fn submit(self, engine: &Engine, timeout: Duration) -> Result<(), CollectiveError> {
        let Self { kind, root, notify, .. } = self;
        let done = Box::new(move |outcome| notify.call(&outcome));
        match self.elements() {
            Some(elements) => engine.submit_sum(kind, root, elements, timeout, done),
            None => {
                let (collective, replaced) = self.collective();
                engine.submit(collective, timeout, undoing(Vec::from_iter(replaced), done))
            }
        }
    }

    /// What may be cut anywhere, as whoever takes results takes all.
    fn elements(&self) -> Option<Elements> {
        let Content::Values(coding) = self.content else { return None };
        if !is_whole(self.kind) {
            return None;
        }
        // SAFETY: `engine_abi.h` leaves the elements to us until `done`; `checked` has seen to the rest.
        let elements = unsafe { Elements::new(self.source, self.sink, self.elements, coding) };
        match self.aside {
            None => Some(elements),
            // SAFETY: as above.
            Some(aside) => Some(unsafe { elements.keeping(aside) }),
        }
    }

    /// What is passed as it is, and the values that results replace, where they are kept.
    fn collective(&self) -> (Submitted, Option<Aside>) {
        let (kind, root, len) = (self.kind, self.root, self.part.len());
        let aside = self.aside.map(|place| Aside::new(self.source, place));
        let mut replaced = None;
        // SAFETY: `engine_abi.h` leaves the elements to us until `done`; `checked` has seen to the rest.
        let (source, sink) = unsafe {
            match self.content {
                Content::Values(coding) => {
                    let first = coding.element_width() * self.part.start;
                    let kept = aside.as_ref().filter(|_| self.is_in_place);
                    replaced = kept.map(|aside| aside.starting_at(first));
                    (
                        coding.source(self.source, self.elements, aside),
                        coding.sink(self.sink, len, replaced.clone()),
                    )
                }
                Content::Bytes(signature) => (
                    bytes::source_beside(self.source, self.elements, signature, aside),
                    bytes::sink(self.sink, len),
                ),
            }
        };
        (Submitted { kind, root, source, sink }, replaced)
    }
}

/// What a collective is about.
enum Content {
    /// Elements, and how they become lanes.
    Values(Coding),
    /// Bytes as they are, and what ranks have to say alike of them.
    Bytes(u8),
}

/// Numbers of types and of operations of shares, which travel in a byte.
const TAGS: u32 = 16;

/// What a collective is about, and the bytes of an element.
fn content(kind: Kind, collective: &Collective, engine: &Engine) -> Option<(Content, usize)> {
    if kind.is_share() {
        let (element, operation) = (collective.element_type, collective.operation);
        let is_tag = element < TAGS && operation < TAGS;
        return is_tag.then_some((Content::Bytes((operation * TAGS + element) as u8), 1));
    }
    if kind.is_copy() {
        return Some((Content::Bytes(bytes::SIGNATURE), 1));
    }
    let (Some(element), Some(operation)) =
        (element(collective.element_type), operation(collective.operation))
    else {
        let is_whole = kind == Kind::AllReduce && collective.bits == 0;
        return if is_whole { exact(collective, engine) } else { None };
    };
    let encoding = match collective.bits {
        0 => engine.encoding(element, operation),
        8 if is_whole(kind) => engine.packed(element, operation, excess(collective)?)?,
        _ => return None,
    };
    Some((Content::Values(Coding::Scaled(encoding)), element.width()))
}

/// Elements that are combined as they are.
fn exact(collective: &Collective, engine: &Engine) -> Option<(Content, usize)> {
    let element = ExactType::of_code(collective.element_type)?;
    let operation = ExactOperation::of_code(collective.operation)?;
    let exact = engine.exact(element, operation)?;
    Some((Content::Values(Coding::Exact(exact)), element.width()))
}

/// Whether whoever takes results takes all.
fn is_whole(kind: Kind) -> bool {
    matches!(kind, Kind::AllReduce | Kind::Reduce)
}

/// What becomes of what numbers of 8 bits have no room for; `None` where it cannot be kept.
fn excess(collective: &Collective) -> Option<Excess> {
    let Some(kept) = NonNull::new(collective.kept) else {
        return Some(Excess::Random { seed: collective.seed, first: 0 });
    };
    kept.is_aligned().then_some(Excess::Kept(kept))
}

fn element(code: u32) -> Option<ElementType> {
    match code {
        0 => Some(ElementType::Float32),
        1 => Some(ElementType::Float16),
        2 => Some(ElementType::BFloat16),
        _ => None,
    }
}

fn operation(code: u32) -> Option<Operation> {
    match code {
        0 => Some(Operation::Sum),
        1 => Some(Operation::Average),
        _ => None,
    }
}

/// A pointer to so many elements, at least one, as far as one can tell from its value.
fn elements_at(data: *mut c_void, elements: usize, width: usize) -> Option<NonNull<u8>> {
    let data = NonNull::new(data.cast::<u8>())?;
    let fits = elements > 0 && elements <= isize::MAX as usize / width;
    (fits && data.addr().get().is_multiple_of(width)).then_some(data)
}

/// Whether this byte of the source is that of the sink: the first of the elements that both have.
fn is_in_place(source: (NonNull<u8>, usize), sink: (NonNull<u8>, usize)) -> bool {
    source.0.addr().get() + source.1 == sink.0.addr().get() + sink.1
}

/// Whether the source and the sink, each with its elements, have no byte in common.
fn is_apart(source: (NonNull<u8>, usize), sink: (NonNull<u8>, usize), width: usize) -> bool {
    let bytes = |(data, elements): (NonNull<u8>, usize)| {
        let start = data.addr().get();
        start..start + elements * width
    };
    let (source, sink) = (bytes(source), bytes(sink));
    sink.is_empty() || source.end <= sink.start || sink.end <= source.start
}

/// A C callback and its context.
#[derive(Clone, Copy)]
struct Notify {
    done: DoneFn,
    context: *mut c_void,
}

// SAFETY: `engine_abi.h` says that `done` is called from an engine's thread.
unsafe impl Send for Notify {}

impl Notify {
    fn call(&self, outcome: &Result<Participation, CollectiveError>) {
        let message = outcome.as_ref().err().map_or_else(String::new, ToString::to_string);
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the callback and its context are the caller's, who promised that they may be used once, here.
        unsafe {
            (self.done)(self.context, CollectiveOutcome::of(outcome) as i32, message.as_ptr())
        }
    }
}
