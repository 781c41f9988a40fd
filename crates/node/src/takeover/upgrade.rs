//! Starting a successor: the daemon's own command line again, with `--take-over`.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

/// The option that makes a daemon a successor.
const OPTION: &str = "--take-over";

/// Starts successors, one at a time.
#[derive(Clone)]
pub struct Upgrade {
    /// Where the binary was when this process began: an upgrade puts another one there.
    binary: PathBuf,
    latest: Arc<Mutex<Latest>>,
}

#[derive(Default)]
enum Latest {
    #[default]
    None,
    Starting(u32),
    Failed(u32, String),
}

impl Upgrade {
    /// Upgrades of this process.
    ///
    /// # Errors
    /// If it does not know its own binary.
    pub fn of_this_process() -> io::Result<Self> {
        Ok(Self { binary: env::current_exe()?, latest: Arc::default() })
    }

    /// Starts the binary that is there now; returns its process. It asks to take over by itself.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn start(&self) -> Result<u32, String> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Latest::Starting(process) = *latest {
            return Err(format!("an upgrade is under way, to process {process}"));
        }
        let options: Vec<OsString> = env::args_os().skip(1).filter(|o| o != OPTION).collect();
        let started =
            Command::new(&self.binary).args(options).arg(OPTION).stdin(Stdio::null()).spawn();
        let child = started
            .map_err(|error| format!("{} cannot be started: {error}", self.binary.display()))?;
        let process = child.id();
        *latest = Latest::Starting(process);
        let shared = Arc::clone(&self.latest);
        thread::spawn(move || {
            let end = describe_end(child);
            eprintln!("wiresum-node: no upgrade: {end}; this daemon goes on");
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = Latest::Failed(process, end);
        });
        Ok(process)
    }

    /// How the latest upgrade stands, for the status. One that has succeeded is another process's past.
    #[must_use]
    pub fn status(&self) -> Value {
        match &*self.latest.lock().unwrap_or_else(PoisonError::into_inner) {
            Latest::None => Value::Null,
            Latest::Starting(process) => json!({ "process": process }),
            Latest::Failed(process, error) => json!({ "process": process, "error": error }),
        }
    }
}

/// Waits for a successor. As long as this process is there to see its end, it has not taken over.
fn describe_end(mut child: Child) -> String {
    match child.wait() {
        Ok(status) => {
            format!("the new daemon ended ({status}) before it took over: its log lines say why")
        }
        Err(error) => format!("the new daemon cannot be waited for: {error}"),
    }
}
