//! The threads that speak with clients: a control socket, and metrics over plain HTTP.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Desk, Request, VERSION};
use crate::takeover::Successor;

/// Owner and group may give orders.
const SOCKET_MODE: u32 = 0o660;
/// Mode of a folder that is made for the socket: who may not enter it cannot replace the socket either.
const FOLDER_MODE: u32 = 0o750;
/// Longest request in bytes: a plan of some ten thousand workers.
const MAX_REQUEST: u64 = 4 << 20;
/// Longest head of an HTTP request in bytes.
const MAX_HEAD: u64 = 8 << 10;
/// How long a client may take for a whole request, and to read an answer. Clients are served one after the other, so a
/// slow one delays others by this, and never the sums.
const CLIENT_PATIENCE: Duration = Duration::from_secs(2);
/// How long the server may take: removing a job waits for the kernel, twice for each of its streams.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed `accept`, so that a lack of descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The control socket; its file goes with this.
pub(super) struct ControlSocket {
    path: PathBuf,
    pub listener: UnixListener,
    /// No other process has taken it over.
    pub is_ours: bool,
}

/// Listens at `path`, whose folder is made if it is missing. A socket that a dead daemon left is replaced; nothing else
/// is, as the path may be a mistake.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another daemon answers there; --take-over goes on with its jobs",
        ));
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a file is there that is no socket: name another path, or remove it",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener)
}

impl ControlSocket {
    /// Answers whoever connects to the listener at `path`.
    pub(super) fn serve(listener: UnixListener, path: &Path, desk: Desk) -> io::Result<Self> {
        let socket = Self { path: path.to_owned(), listener: listener.try_clone()?, is_ours: true };
        thread::Builder::new().name("control".to_owned()).spawn(move || {
            for client in listener.incoming() {
                match client {
                    Ok(client) => drop(serve(&client, &desk)),
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        })?;
        Ok(socket)
    }
}

/// A connection that has to have said what it says by a time.
trait Client: Sized {
    fn set_patience(&self, patience: Duration) -> io::Result<()>;
}

impl Client for &UnixStream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

impl Client for &TcpStream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

/// Reads from a client for [`CLIENT_PATIENCE`] in all, however few bytes it sends at a time.
struct Hurried<C> {
    client: C,
    until: Instant,
}

impl<C: Client> Hurried<C> {
    fn new(client: C) -> Self {
        Self { client, until: Instant::now() + CLIENT_PATIENCE }
    }

    /// A new request begins.
    fn begin(&mut self) {
        self.until = Instant::now() + CLIENT_PATIENCE;
    }
}

impl<C: Client + Read> Read for Hurried<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.client.set_patience(left)?;
        self.client.read(buffer)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Answers the requests of one client, until it has no more or takes too long.
fn serve(client: &UnixStream, desk: &Desk) -> io::Result<()> {
    client.set_write_timeout(Some(CLIENT_PATIENCE))?;
    let mut reader = BufReader::new(Hurried::new(client));
    loop {
        reader.get_mut().begin();
        let mut line = String::new();
        let len = reader.by_ref().take(MAX_REQUEST).read_line(&mut line)?;
        if len == 0 {
            return Ok(());
        }
        let is_whole = line.ends_with('\n');
        let answer =
            if is_whole { answer(&line, client, desk) } else { refuse("the request is too long") };
        if answer.is_null() {
            return Ok(());
        }
        writeln!(&*client, "{answer}")?;
        if !is_whole {
            return Ok(());
        }
    }
}

/// Null if the client has got its answer already.
fn answer(line: &str, client: &UnixStream, desk: &Desk) -> Value {
    let answered = match Request::parse(line) {
        Err(problem) => return refuse(&problem),
        Ok(request @ Request::TakeOver { versions }) => match Successor::new(client, versions) {
            Err(error) => return refuse(&error.to_string()),
            Ok(successor) => desk.ask_for(request, Some(successor)),
        },
        Ok(request) => desk.ask(request),
    };
    answered.unwrap_or_else(|| refuse("the daemon does not answer"))
}

fn refuse(problem: &str) -> Value {
    json!({ "version": VERSION, "ok": false, "error": problem })
}

/// Metrics for Prometheus at `http://ADDRESS/metrics`.
pub(super) struct MetricsEndpoint {
    /// Where it listens.
    pub address: SocketAddr,
    pub listener: TcpListener,
}

impl MetricsEndpoint {
    pub(super) fn serve(listener: TcpListener, desk: Desk) -> io::Result<Self> {
        let endpoint = Self { address: listener.local_addr()?, listener: listener.try_clone()? };
        thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            for client in listener.incoming() {
                match client {
                    Ok(client) => drop(serve_http(&client, &desk)),
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        })?;
        Ok(endpoint)
    }
}

fn serve_http(client: &TcpStream, desk: &Desk) -> io::Result<()> {
    client.set_write_timeout(Some(CLIENT_PATIENCE))?;
    let mut head = BufReader::new(Hurried::new(client)).take(MAX_HEAD);
    let mut first = String::new();
    head.read_line(&mut first)?;
    let mut line = first.clone();
    while !line.trim_end().is_empty() {
        line.clear();
        head.read_line(&mut line)?;
    }
    let text = first.starts_with("GET /metrics ").then(|| desk.ask(Request::Metrics {})).flatten();
    let text = text.as_ref().and_then(|answer| answer["text"].as_str());
    let (status, body) = text.map_or(("404 Not Found", "see /metrics\n"), |text| ("200 OK", text));
    write!(
        &*client,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_is_replaced() {
        let folder = std::env::temp_dir().join(format!("wiresum-listen-{}", std::process::id()));
        let (socket, file) = (folder.join("deep/s.sock"), folder.join("plan.json"));
        drop(listen(&socket).expect("a folder is made"));
        let mode = fs::metadata(folder.join("deep")).expect("made").permissions().mode();
        assert_eq!(mode & 0o777 & !FOLDER_MODE, 0, "{mode:o}");
        drop(listen(&socket).expect("a dead daemon's socket is replaced"));
        fs::write(&file, "precious").expect("written");
        let link = folder.join("link");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        for path in [&file, &link, &folder] {
            let error = listen(path).expect_err("no socket is there");
            assert!(error.to_string().contains("no socket"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).expect("still there"), "precious");
        fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn a_client_that_trickles_is_not_waited_for() {
        let (client, server) = UnixStream::pair().expect("a pair");
        let until = Instant::now() + Duration::from_millis(300);
        let trickle = thread::spawn(move || {
            while (&client).write(b"a").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut text = String::new();
        let read = BufReader::new(Hurried { client: &server, until }).read_line(&mut text);
        let kind = read.expect_err("no line comes").kind();
        assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind}");
        assert!(Instant::now() >= until);
        drop(server);
        trickle.join().expect("it ends with the connection");
    }
}
