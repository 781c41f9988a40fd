//! A relay between workers and a node that does to connections what networks do.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What befalls a connection.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It breaks, both ways, after so many bytes from the node.
    BreaksAfter(usize),
    /// After so many bytes from the node, nothing of what comes from there is read for a while.
    PausesAfter(usize, Duration),
}

/// Passes bytes between callers and `node`; `fate(n)` is that of the n-th connection. Returns where to call, and how many
/// connections have met their fate. It ends with the process.
pub fn relay(
    node: SocketAddr,
    fate: impl Fn(u64) -> Fate + Send + 'static,
) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let met = Arc::new(AtomicU64::new(0));
    let counter = met.clone();
    std::thread::spawn(move || {
        for (index, caller) in listener.incoming().enumerate() {
            let (caller, fate, counter) =
                (caller.expect("a call"), fate(index as u64), counter.clone());
            // A node that is not there refuses the caller.
            if let Ok(called) = TcpStream::connect(node) {
                let (from, to) =
                    (caller.try_clone().expect("a copy"), called.try_clone().expect("a copy"));
                std::thread::spawn(move || pass(from, to));
                std::thread::spawn(move || pass_down(called, caller, fate, &counter));
            }
        }
    });
    (address, met)
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn pass_down(mut node: TcpStream, mut caller: TcpStream, fate: Fate, met: &AtomicU64) {
    let mut bytes = vec![0; 64 << 10];
    let (mut passed, mut has_paused) = (0, false);
    while let Ok(len @ 1..) = node.read(&mut bytes) {
        passed += len;
        match fate {
            Fate::BreaksAfter(limit) if passed > limit => {
                met.fetch_add(1, Ordering::Relaxed);
                // In the middle of a packet, as a rule.
                let _ = caller.write_all(&bytes[..len / 2]);
                break;
            }
            Fate::PausesAfter(limit, pause) if passed > limit && !has_paused => {
                met.fetch_add(1, Ordering::Relaxed);
                has_paused = true;
                std::thread::sleep(pause);
            }
            _ => {}
        }
        if caller.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    for stream in [node, caller] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
