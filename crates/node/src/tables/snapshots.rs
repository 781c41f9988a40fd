//! Snapshots of a server's tables as files: written in pieces between two batches of packets, and whole or not there.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wiresum_sparse::live::Host;
use wiresum_wire::JobId;

/// Time between the beginnings of two snapshots, unless the command line says otherwise: workers keep what they send for
/// so long.
pub const DEFAULT_SNAPSHOT_INTERVAL: Duration = Duration::from_secs(30);
/// Rows that are written between two batches of packets: half a millisecond of work.
const ROWS_OF_A_PIECE: usize = 4096;

/// Where the servers of a daemon keep their snapshots.
#[derive(Clone, Debug)]
pub struct SnapshotSettings {
    /// The folder, which is made if it is missing.
    pub folder: PathBuf,
    /// Time between the beginnings of two.
    pub interval: Duration,
}

/// The file that a server's tables are kept in, and when it is written next.
pub struct Snapshots {
    path: PathBuf,
    interval: Duration,
    next: Instant,
    /// When the last one was whole.
    finished: Option<Instant>,
    part: Option<Part>,
}

/// A snapshot in the making.
struct Part {
    file: File,
    /// The version when it was begun: an older one later is that of another job.
    begun_at: u32,
    is_walked: bool,
}

impl Snapshots {
    /// Snapshots of a job's node.
    ///
    /// # Errors
    /// Why the folder cannot be made.
    pub fn new(settings: &SnapshotSettings, job: JobId, node: u16) -> io::Result<Self> {
        let (folder, interval) = (&settings.folder, settings.interval);
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("job-{job}-tables-{node}.snapshot"));
        Ok(Self { path, interval, next: Instant::now() + interval, finished: None, part: None })
    }

    /// The bytes of the last whole snapshot.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn last(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// How old the last snapshot of this process is.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.finished.map(|finished| finished.elapsed())
    }

    /// How long nothing is due.
    #[must_use]
    pub fn idle_time(&self) -> Duration {
        match &self.part {
            Some(part) if !part.is_walked => Duration::ZERO,
            Some(_) => self.interval,
            None => self.next.saturating_duration_since(Instant::now()),
        }
    }

    /// Does what is due. What the disk refuses is said in the log, and tried again after the interval.
    pub fn turn(&mut self, host: &mut Host) {
        if let Err(error) = self.try_turn(host) {
            eprintln!(
                "wiresum-node: snapshot {}: cannot be written ({error}); look at the disk; the next attempt is in {} s",
                self.path.display(),
                self.interval.as_secs_f64()
            );
            self.part = None;
            self.next = Instant::now() + self.interval;
        }
    }

    fn try_turn(&mut self, host: &mut Host) -> io::Result<()> {
        if let Some((version, last_piece)) = host.poll_snapshot()
            && let Some(part) = self.part.take()
        {
            self.finish(part, &last_piece)?;
            self.finished = Some(Instant::now());
            host.confirm_snapshot(version);
            return Ok(());
        }
        let is_due = self.next <= Instant::now();
        match &mut self.part {
            Some(part) if part.begun_at <= host.version() => {
                if !part.is_walked {
                    let piece = host.walk_snapshot(ROWS_OF_A_PIECE);
                    part.is_walked = piece.is_empty();
                    part.file.write_all(&piece)?;
                }
                Ok(())
            }
            _ if is_due => self.begin(host),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, host: &mut Host) -> io::Result<()> {
        self.next = Instant::now() + self.interval;
        let Some(piece) = host.begin_snapshot() else { return Ok(()) };
        let mut file = File::create(self.path_in_the_making())?;
        file.write_all(&piece)?;
        self.part = Some(Part { file, begun_at: host.version(), is_walked: false });
        Ok(())
    }

    fn finish(&self, mut part: Part, last_piece: &[u8]) -> io::Result<()> {
        part.file.write_all(last_piece)?;
        part.file.sync_all()?;
        fs::rename(self.path_in_the_making(), &self.path)?;
        // The new name is on the disk when its folder is.
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    fn path_in_the_making(&self) -> PathBuf {
        self.path.with_extension("part")
    }
}
