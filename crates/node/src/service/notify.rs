//! Tells systemd that the daemon serves, if systemd wants to know (`Type=notify`).

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;

/// Says that the daemon is ready, and that its process is the service's main one, which after a take-over is news. Without systemd, or if that cannot be reached, nothing happens: the ready line says it too.
pub fn notify_ready() {
    let Ok(path) = env::var("NOTIFY_SOCKET") else { return };
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let message = format!("MAINPID={}\nREADY=1", process::id());
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(message.as_bytes(), &address);
    }
}
