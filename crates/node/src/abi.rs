//! The C interface of `engine_abi.h`, for the PyTorch backend.

use std::ffi::{CString, c_char, c_void};
use std::ptr::NonNull;
use std::time::Duration;

use wiresum_codec::{ElementType, Operation};
use wiresum_worker::{Collective as Submitted, Failure, Participation};

use crate::engine::{CollectiveError, Engine};
use crate::tensor::{Encoding, sink, source};

/// `WIRESUM_ENGINE_ABI_VERSION`.
pub const ABI_VERSION: u32 = 2;
/// `WIRESUM_ENGINE_CAPSULE`.
pub const CAPSULE_NAME: &std::ffi::CStr = c"wiresum._native.engine_abi";

/// `enum wiresum_outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Outcome {
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
}

impl Outcome {
    /// The class of an outcome.
    #[must_use]
    pub fn of(outcome: &Result<Participation, CollectiveError>) -> Self {
        match outcome {
            Ok(participation) if participation.is_own_in => Self::Summed,
            Ok(_) => Self::Missed,
            Err(CollectiveError::Protocol { failure, .. }) => match failure {
                Failure::NotFinite => Self::NotFinite,
                Failure::Unforeseen => Self::Unforeseen,
                Failure::Mismatch { .. } => Self::Mismatch,
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
    /// Contiguous elements, summed in place; valid until `done`.
    pub data: *mut c_void,
    /// At least 1.
    pub elements: u64,
    /// `enum wiresum_element_type`.
    pub element_type: u32,
    /// `enum wiresum_operation`.
    pub operation: u32,
    /// From submission to the end of the collective.
    pub timeout_us: u64,
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
}

// SAFETY: the pointer is to an `Engine`, whose methods may be called from any thread.
unsafe impl Send for EngineAbi {}

impl EngineAbi {
    /// The interface of `engine`, which must stay where it is for as long as this is used.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        let engine = std::ptr::from_ref(engine).cast_mut().cast();
        Self { version: ABI_VERSION, engine, submit }
    }
}

/// What `submit` returns.
const QUEUED: i32 = 0;
const CLOSED: i32 = 1;
const ILL_FORMED: i32 = 2;

/// `wiresum_engine_abi.submit`: 0 if queued, 1 if the engine is closed, 2 if the collective is ill-formed (a null or
/// misaligned pointer, no elements, an unknown type or operation). `done` is called in the first case only.
///
/// # Safety
/// `engine` and `collective` are those of `engine_abi.h`, with its promises.
pub unsafe extern "C" fn submit(engine: *mut c_void, collective: *const Collective) -> i32 {
    // SAFETY: by this function's contract both are valid for the call, or null.
    let (engine, collective) =
        unsafe { (engine.cast::<Engine>().as_ref(), collective.as_ref().copied()) };
    let (Some(engine), Some(collective)) = (engine, collective) else { return ILL_FORMED };
    let Some(call) = Call::checked(&collective) else { return ILL_FORMED };
    let Call { data, elements, element_type: element, operation, .. } = call;
    let encoding = Encoding { element, operation, format: engine.format() };
    // SAFETY: `engine_abi.h` leaves the elements to us until `done`; `checked` has seen to the rest.
    let (source, sink) =
        unsafe { (source(data, elements, encoding), sink(data, elements, encoding)) };
    let timeout = Duration::from_micros(collective.timeout_us);
    let notify = call.notify;
    match engine.submit(
        Submitted::all_reduce(source, sink),
        timeout,
        Box::new(move |outcome| notify.call(&outcome)),
    ) {
        Ok(()) => QUEUED,
        Err(_) => CLOSED,
    }
}

/// A collective whose fields make sense.
struct Call {
    data: NonNull<u8>,
    elements: usize,
    element_type: ElementType,
    operation: Operation,
    notify: Notify,
}

impl Call {
    fn checked(collective: &Collective) -> Option<Self> {
        let (element_type, width) = match collective.element_type {
            0 => (ElementType::Float32, 4),
            1 => (ElementType::Float16, 2),
            2 => (ElementType::BFloat16, 2),
            _ => return None,
        };
        let operation = match collective.operation {
            0 => Operation::Sum,
            1 => Operation::Average,
            _ => return None,
        };
        let data = NonNull::new(collective.data.cast::<u8>())?;
        let elements = usize::try_from(collective.elements).ok()?;
        let fits = elements > 0 && elements <= isize::MAX as usize / width;
        let aligned = data.addr().get().is_multiple_of(width);
        let notify = Notify { done: collective.done?, context: collective.context };
        (fits && aligned).then_some(Self { data, elements, element_type, operation, notify })
    }
}

/// A C callback and its context.
struct Notify {
    done: DoneFn,
    context: *mut c_void,
}

// SAFETY: `engine_abi.h` says that `done` is called from the engine's thread.
unsafe impl Send for Notify {}

impl Notify {
    fn call(&self, outcome: &Result<Participation, CollectiveError>) {
        let message = outcome.as_ref().err().map_or_else(String::new, ToString::to_string);
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the callback and its context are the caller's, who promised that they may be used once, here.
        unsafe { (self.done)(self.context, Outcome::of(outcome) as i32, message.as_ptr()) }
    }
}
