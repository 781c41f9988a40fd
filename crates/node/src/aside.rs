//! What a rank gives to a collective, kept so that the collective may be made again elsewhere.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a part of a collective keeps the values that it sends. Where results replace them, what fails takes them back.
#[derive(Clone)]
pub(crate) struct Aside {
    part: NonNull<u8>,
    /// As many bytes as the part has, at the same offsets.
    place: NonNull<u8>,
    /// Bytes of the part that results have replaced.
    replaced: Arc<Mutex<Vec<Range<usize>>>>,
}

// SAFETY: whoever passes both promises that they are the engine's until the collective has ended, on whatever thread.
unsafe impl Send for Aside {}

impl Aside {
    /// Keeps values of `part` at `place`.
    pub fn new(part: NonNull<u8>, place: NonNull<u8>) -> Self {
        Self { part, place, replaced: Arc::default() }
    }

    /// The same of the part's bytes from one on, of which none is replaced yet.
    ///
    /// # Safety
    /// The part and the place have so many bytes.
    pub unsafe fn starting_at(&self, byte: usize) -> Self {
        // SAFETY: by the contract.
        unsafe { Self::new(self.part.add(byte), self.place.add(byte)) }
    }

    /// Keeps these bytes of the part: when they are sent, as they are in the cache then.
    ///
    /// # Safety
    /// The part and the place have the bytes, and nobody writes them meanwhile.
    pub unsafe fn keep(&self, bytes: &Range<usize>) {
        // SAFETY: by the contract.
        unsafe {
            let kept = self.place.add(bytes.start);
            copy_past_the_cache(self.part.add(bytes.start), kept, bytes.len());
        }
    }

    /// Notes that a result replaces these bytes, which are kept.
    pub fn note_replaced(&self, bytes: Range<usize>) {
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        match replaced.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => replaced.push(bytes),
        }
    }

    /// Has values and results change places: the part is as it was, and results are aside.
    ///
    /// # Safety
    /// As for [`Self::keep`]; what was noted was kept before.
    pub unsafe fn take_back(&self) {
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        for Range { start, end } in replaced.drain(..) {
            // SAFETY: by the contract; the two have no byte in common.
            unsafe {
                std::ptr::swap_nonoverlapping(
                    self.part.add(start).as_ptr(),
                    self.place.add(start).as_ptr(),
                    end - start,
                );
            }
        }
    }
}

/// Copies to memory that is seldom read, without reading it first: that saves a third of the memory's work.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_past_the_cache(from: NonNull<u8>, to: NonNull<u8>, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORD: usize = size_of::<__m128i>();
    let is_aligned = to.addr().get().is_multiple_of(WORD);
    let streamed = if is_aligned { len / WORD * WORD } else { 0 };
    // SAFETY: by the contract. Streamed words are seen by all threads that see what follows the fence.
    unsafe {
        for at in (0..streamed).step_by(WORD) {
            let word = _mm_loadu_si128(from.add(at).as_ptr().cast());
            _mm_stream_si128(to.add(at).as_ptr().cast(), word);
        }
        _mm_sfence();
        from.add(streamed).copy_to_nonoverlapping(to.add(streamed), len - streamed);
    }
}

/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_past_the_cache(from: NonNull<u8>, to: NonNull<u8>, len: usize) {
    // SAFETY: by the contract.
    unsafe { from.copy_to_nonoverlapping(to, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replaced_comes_back_and_results_go_aside() {
        let mut part: [u8; 100] = std::array::from_fn(|at| at as u8);
        let (sent, mut kept) = (part, [0u8; 100]);
        let data: NonNull<u8> = NonNull::from(&mut part).cast();
        let aside = Aside::new(data, NonNull::from(&mut kept).cast());
        for bytes in [1..2, 2..40, 47..95] {
            // SAFETY: both arrays are longer, and nobody else looks at them.
            unsafe {
                aside.keep(&bytes);
                aside.note_replaced(bytes.clone());
                data.add(bytes.start).write_bytes(255, bytes.len());
            }
        }
        let ranges = aside.replaced.lock().expect("one thread").clone();
        assert_eq!(ranges, [1..40, 47..95]);
        // SAFETY: as above.
        unsafe { aside.take_back() };
        assert_eq!(part, sent);
        let is_result = |at: usize| (1..40).contains(&at) || (47..95).contains(&at);
        assert!((0..100).all(|at| kept[at] == if is_result(at) { 255 } else { 0 }));
    }
}
