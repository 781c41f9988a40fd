//! Keys of messages that ranks send each other by Gloo, for the PyTorch backend: the C interface of `gloo_keys.h`.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use wiresum_keys::{MessageKeys, SALT_LEN, Secret};
use wiresum_seal::{MessageKey, Place, TAG_LEN};

/// `WIRESUM_GLOO_KEYS_VERSION`.
const ABI_VERSION: u32 = 1;
/// `WIRESUM_GLOO_KEYS_CAPSULE`.
const CAPSULE_NAME: &CStr = c"wiresum._native.gloo_keys";

/// `struct wiresum_message`.
#[repr(C)]
struct Message {
    number: u64,
    part: u32,
    peer: u32,
    is_for_all: u32,
    header_len: u32,
    header: *const u8,
    plain: *mut u8,
    cipher: *mut u8,
    len: u64,
}

/// `struct wiresum_gloo_keys`.
#[repr(C)]
struct Abi {
    version: u32,
    rank: u32,
    keys: *const c_void,
    salt: *const u8,
    agree: unsafe extern "C" fn(keys: *const c_void, salts: *const u8) -> i32,
    seal: unsafe extern "C" fn(keys: *const c_void, message: *const Message) -> i32,
    open: unsafe extern "C" fn(keys: *const c_void, message: *const Message) -> i32,
}

/// The keys of a group once its ranks have agreed on them.
struct Agreed {
    /// To every other rank.
    to_all: MessageKey,
    /// To each rank.
    to: Vec<MessageKey>,
    /// From each rank to every other one.
    from_all: Vec<MessageKey>,
    /// From each rank to this one.
    from: Vec<MessageKey>,
}

impl Agreed {
    fn new(keys: &MessageKeys, rank: u32, size: u32) -> Self {
        let key = |sender, receiver| MessageKey::new(&keys.key(sender, receiver));
        Self {
            to_all: key(rank, None),
            to: (0..size).map(|peer| key(rank, Some(peer))).collect(),
            from_all: (0..size).map(|peer| key(peer, None)).collect(),
            from: (0..size).map(|peer| key(peer, Some(rank))).collect(),
        }
    }
}

/// What the functions of the interface get: one rank's part of the keys.
struct Keys {
    secret: Secret,
    group: String,
    rank: u32,
    size: u32,
    salt: [u8; SALT_LEN],
    agreed: OnceLock<Agreed>,
}

/// Keys of the messages of one Gloo group.
#[pyclass(name = "GlooKeys", module = "wiresum._native", frozen)]
pub struct PyGlooKeys(Arc<Keys>);

/// What a capsule points to: the interface first, then what keeps it alive.
#[repr(C)]
struct CapsuleContents {
    abi: Abi,
    _keys: Arc<Keys>,
}

// SAFETY: the pointers of the interface are to the keys, which are shared and only written through a `OnceLock`.
unsafe impl Send for CapsuleContents {}

#[pymethods]
impl PyGlooKeys {
    #[new]
    fn new(
        secret: &str,
        group: String,
        rank: u32,
        size: u32,
        salt: [u8; SALT_LEN],
    ) -> PyResult<Self> {
        let secret = Secret::from_digits(secret)
            .ok_or_else(|| PyValueError::new_err("the secret must be 64 hexadecimal digits"))?;
        Ok(Self(Arc::new(Keys { secret, group, rank, size, salt, agreed: OnceLock::new() })))
    }

    /// A capsule with the C interface of `gloo_keys.h`; it keeps the keys alive.
    fn abi<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let keys = Arc::clone(&self.0);
        let abi = Abi {
            version: ABI_VERSION,
            rank: keys.rank,
            keys: Arc::as_ptr(&keys).cast(),
            salt: keys.salt.as_ptr(),
            agree,
            seal,
            open,
        };
        PyCapsule::new_with_value(py, CapsuleContents { abi, _keys: keys }, CAPSULE_NAME)
    }
}

/// # Safety
/// `keys` is that of an [`Abi`] whose capsule lives, `salts` has a salt of each rank.
unsafe extern "C" fn agree(keys: *const c_void, salts: *const u8) -> i32 {
    // SAFETY: see above.
    let (keys, salts) = unsafe {
        let keys = &*keys.cast::<Keys>();
        (keys, std::slice::from_raw_parts(salts, keys.size as usize * SALT_LEN))
    };
    let (salts, _) = salts.as_chunks::<SALT_LEN>();
    if salts.get(keys.rank as usize) != Some(&keys.salt) {
        return 1; // without this rank's own salt, the keys might be those of an earlier group
    }
    let of_group = MessageKeys::new(&keys.secret, &keys.group, salts);
    let agreed = Agreed::new(&of_group, keys.rank, keys.size);
    i32::from(keys.agreed.set(agreed).is_err())
}

/// # Safety
/// `keys` is that of an [`Abi`] whose capsule lives. The message's header has `header_len` bytes, `plain` has `len`,
/// and `cipher` has room for the tag as well.
unsafe extern "C" fn seal(keys: *const c_void, message: *const Message) -> i32 {
    // SAFETY: see above.
    let (keys, message) = unsafe { (&*keys.cast::<Keys>(), &*message) };
    let Some(agreed) = keys.agreed.get() else { return 1 };
    let Some(key) = key_of(message, &agreed.to_all, &agreed.to) else { return 1 };
    let len = message.len as usize;
    // SAFETY: see above; the two buffers have no byte in common.
    let (header, plain, cipher) = unsafe {
        (
            slice(message.header, message.header_len as usize),
            slice(message.plain, len),
            std::slice::from_raw_parts_mut(message.cipher, len + TAG_LEN),
        )
    };
    let (cipher, room) = cipher.split_at_mut(len);
    let Some(tag) = key.seal(place_of(message), header, plain, cipher) else { return 1 };
    room.copy_from_slice(&tag);
    0
}

/// # Safety
/// As of [`seal`].
unsafe extern "C" fn open(keys: *const c_void, message: *const Message) -> i32 {
    // SAFETY: see above.
    let (keys, message) = unsafe { (&*keys.cast::<Keys>(), &*message) };
    let Some(agreed) = keys.agreed.get() else { return 1 };
    let everyone = agreed.from_all.get(message.peer as usize);
    let Some(key) = everyone.and_then(|all| key_of(message, all, &agreed.from)) else { return 1 };
    let len = message.len as usize;
    // SAFETY: see above; the two buffers have no byte in common.
    let (header, plain, cipher) = unsafe {
        (
            slice(message.header, message.header_len as usize),
            slice_mut(message.plain, len),
            slice(message.cipher, len + TAG_LEN),
        )
    };
    let Some((cipher, tag)) = cipher.split_last_chunk::<TAG_LEN>() else { return 1 };
    i32::from(!key.open(place_of(message), header, cipher, tag, plain))
}

fn key_of<'a>(
    message: &Message,
    all: &'a MessageKey,
    of_peers: &'a [MessageKey],
) -> Option<&'a MessageKey> {
    if message.is_for_all != 0 { Some(all) } else { of_peers.get(message.peer as usize) }
}

fn place_of(message: &Message) -> Place {
    Place { number: message.number, part: message.part }
}

/// # Safety
/// There are so many bytes; the pointer to none of them may be null.
unsafe fn slice<'a>(bytes: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: see above.
    unsafe { std::slice::from_raw_parts(bytes, len) }
}

/// # Safety
/// As of [`slice`].
unsafe fn slice_mut<'a>(bytes: *mut u8, len: usize) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: see above.
    unsafe { std::slice::from_raw_parts_mut(bytes, len) }
}
