//! Descriptors and bytes between two daemons, over the control socket's connection.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The most that the kernel passes with one message (SCM_MAX_FD): 3 sockets, some 15 maps, and links for the ports.
pub const MAX_DESCRIPTORS: usize = 253;
const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));
/// The message that carries descriptors: the length of what follows. Its first byte is 0, and never begins JSON.
const LEN_BYTES: usize = size_of::<u64>();

/// Sends the descriptors with the length of `head`, then `head`.
pub fn send(stream: &UnixStream, descriptors: &[BorrowedFd<'_>], head: &[u8]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other(format!(
            "{} descriptors are more than the {MAX_DESCRIPTORS} of one message",
            descriptors.len()
        )));
    }
    let len = (head.len() as u64).to_be_bytes();
    let sent = sendmsg(stream, &[IoSlice::new(&len)], &mut control, SendFlags::NOSIGNAL)?;
    let mut stream = stream;
    stream.write_all(&len[sent..])?;
    stream.write_all(head)
}

/// What [`send`] has sent; a line of JSON instead is a refusal, and is returned as the error.
pub fn receive(stream: &UnixStream, most: u64) -> io::Result<(Vec<OwnedFd>, Vec<u8>)> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut len = [0; LEN_BYTES];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let read = recvmsg(stream, &mut [IoSliceMut::new(&mut len)], &mut control, flags)?.bytes;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    let mut stream = stream;
    stream.read_exact(&mut len[read..])?;
    if len[0] != 0 {
        return Err(io::Error::other(refusal(&len, stream, most)?));
    }
    let len = u64::from_be_bytes(len);
    if len > most {
        return Err(io::Error::other(format!("an offer of {len} bytes, at most {most}")));
    }
    let mut head = vec![0; len as usize];
    stream.read_exact(&mut head)?;
    Ok((descriptors, head))
}

/// The reason in a refusal whose first bytes have been read.
fn refusal(start: &[u8], stream: &UnixStream, most: u64) -> io::Result<String> {
    let mut line = start.to_vec();
    stream.take(most).read_to_end(&mut line)?;
    let answer: Option<serde_json::Value> = serde_json::from_slice(&line).ok();
    let reason = answer.as_ref().and_then(|answer| answer["error"].as_str());
    Ok(reason.unwrap_or("the running daemon gave an answer that is none").to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn descriptors_and_bytes_arrive_together() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let (mut mine, given) = UnixStream::pair().expect("a pair");
        send(&here, &[given.as_fd(), given.as_fd()], b"head").expect("sent");
        let (descriptors, head) = receive(&there, 100).expect("received");
        assert_eq!((descriptors.len(), head.as_slice()), (2, &b"head"[..]));
        let mut received = UnixStream::from(descriptors.into_iter().next().expect("one"));
        received.write_all(b"x").expect("a live descriptor");
        let mut byte = [0];
        mine.read_exact(&mut byte).expect("the other end");
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn a_refusal_is_an_error_with_its_reason() {
        let (mut here, there) = UnixStream::pair().expect("a pair");
        here.write_all(b"{\"ok\": false, \"error\": \"not today\"}\n").expect("sent");
        drop(here);
        assert_eq!(receive(&there, 100).expect_err("refused").to_string(), "not today");
    }

    #[test]
    fn an_offer_without_bound_is_not_read() {
        let (here, there) = UnixStream::pair().expect("a pair");
        send(&here, &[here.as_fd()], &[1; 200]).expect("sent");
        assert!(receive(&there, 100).expect_err("too long").to_string().contains("200 bytes"));
    }
}
