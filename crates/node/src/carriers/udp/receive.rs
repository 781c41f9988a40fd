//! Memory for what has been received.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use quinn_udp::{BATCH_SIZE, RecvMeta};

/// Room for one received buffer: the largest that receive offload may build, and a line more, so that
/// consecutive buffers do not compete for the same cache sets.
const STRIDE: usize = (1 << 16) + 4096 + 64;

/// Memory for one call of [`super::Socket::receive`], allocated once.
pub struct ReceiveBatch {
    storage: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
    filled: usize,
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self {
            storage: vec![0; BATCH_SIZE * STRIDE],
            metas: [RecvMeta::default(); BATCH_SIZE],
            filled: 0,
        }
    }
}

impl ReceiveBatch {
    /// Lets `receive` fill the buffers and returns how many it has; none after an error.
    pub(super) fn fill(
        &mut self,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut buffers = self.storage.chunks_exact_mut(STRIDE).map(IoSliceMut::new);
        let mut buffers: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| buffers.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let filled = receive(&mut buffers, &mut self.metas);
        self.filled = *filled.as_ref().unwrap_or(&0);
        filled
    }

    /// The datagrams of the last call in order of arrival, with their sources.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.metas.iter().zip(self.storage.chunks_exact(STRIDE)).take(self.filled).flat_map(
            |(meta, buffer)| {
                let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
                datagrams.map(|datagram| (meta.addr, datagram))
            },
        )
    }
}
