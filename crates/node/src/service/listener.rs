//! The threads that speak with clients: a control socket, and metrics over plain HTTP.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::peer::require_trusted;
use super::reception::{self, Protocol, Reply};
use super::{Desk, Request, VERSION, cut, exposition};
use crate::takeover::Successor;

/// Owner and group may give orders.
const SOCKET_MODE: u32 = 0o660;
/// Mode of a folder that is made for the socket: who may not enter it cannot replace the socket either.
const FOLDER_MODE: u32 = 0o750;
/// Longest request in bytes: a plan of some ten thousand workers.
const MAX_REQUEST: usize = 4 << 20;
/// Longest head of an HTTP request in bytes.
const MAX_HEAD: usize = 8 << 10;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// How long the server may take: removing a job waits for the kernel, twice for each of its streams.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
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
        let protocol = Control { path: path.to_owned(), desk };
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || reception::serve(&listener, &protocol))?;
        Ok(socket)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// One request on each line, in JSON.
struct Control {
    path: PathBuf,
    desk: Desk,
}

impl Protocol<UnixStream> for Control {
    const MAX_BYTES: usize = MAX_REQUEST;

    fn whole(heard: &[u8]) -> Option<usize> {
        heard.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
    }

    fn answer(&self, client: &UnixStream, request: Option<&[u8]>) -> Reply {
        if let Err(problem) = require_trusted(client, &self.path) {
            return Reply::Leave(line(&refuse(&problem)));
        }
        let Some(request) = request else {
            return Reply::Leave(line(&refuse("the request is too long")));
        };
        let answered = std::str::from_utf8(request)
            .map_err(|error| format!("not UTF-8: {error}"))
            .and_then(|text| answer(text, client, &self.desk));
        match answered.unwrap_or_else(|problem| refuse(&problem)) {
            Value::Null => Reply::Gone,
            answer => Reply::Stay(line(&answer)),
        }
    }
}

fn line(answer: &Value) -> String {
    format!("{answer}\n")
}

/// Null if the client has got its answer already.
fn answer(text: &str, client: &UnixStream, desk: &Desk) -> Result<Value, String> {
    const SILENT: &str = "the daemon does not answer";
    let request = Request::parse(text)?;
    let wants_text = request == Request::Metrics {};
    let successor = match &request {
        Request::TakeOver { versions } => Some(Successor::new(client, *versions)),
        _ => None,
    };
    let successor = successor.transpose().map_err(|error| error.to_string())?;
    let answer = desk.ask_for(request, successor).ok_or(SILENT)?;
    // Text is made here, not in the thread that sums.
    let text = wants_text.then(|| exposition(&answer));
    Ok(text.map_or(answer, |text| json!({ "version": VERSION, "ok": true, "text": text })))
}

fn refuse(problem: &str) -> Value {
    json!({ "version": VERSION, "ok": false, "error": cut(problem) })
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
        let protocol = Http { desk };
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || reception::serve(&listener, &protocol))?;
        Ok(endpoint)
    }
}

/// As much of HTTP/1 as a scraper needs.
struct Http {
    desk: Desk,
}

impl Protocol<TcpStream> for Http {
    const MAX_BYTES: usize = MAX_HEAD;

    fn whole(heard: &[u8]) -> Option<usize> {
        heard
            .windows(END_OF_HEAD.len())
            .position(|part| part == END_OF_HEAD)
            .map(|at| at + END_OF_HEAD.len())
    }

    fn answer(&self, _: &TcpStream, request: Option<&[u8]>) -> Reply {
        let is_metrics = request.is_some_and(|head| head.starts_with(b"GET /metrics "));
        let status = is_metrics.then(|| self.desk.ask(Request::Status {})).flatten();
        let text = status.as_ref().map(exposition);
        let found = text.as_deref().map(|text| ("200 OK", text));
        let (status, body) = found.unwrap_or(("404 Not Found", "see /metrics\n"));
        Reply::Leave(format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    }
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
}
