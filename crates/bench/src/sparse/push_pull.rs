//! The rival: parameter servers without sums on the way. Rows with keys of 8 bytes over TCP, sharded as the product's are;
//! sums, tables and optimizers are the product's own, so that only the way differs.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use wiresum_sparse::live::Job;
use wiresum_sparse::sum::RowSums;
use wiresum_sparse::table::Table;

use super::{GRADIENT, Touched};

/// How long a worker tries to reach a server that is not there yet.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Most rows of a message, so that a damaged length does not take the machine's memory.
const MAX_ROWS: u32 = 1 << 26;

/// A server's state in a round.
struct Shard {
    tables: Vec<Table>,
    sums: Vec<RowSums>,
    round: u32,
}

impl Shard {
    fn new(job: &Job, shard: u16) -> io::Result<Self> {
        let table = |spec: &wiresum_sparse::table::TableSpec| {
            Table::new(spec.clone(), job.shards().part(&spec.rows, shard))
        };
        let tables: Result<Vec<_>, _> = job.tables.iter().map(table).collect();
        let sums = job.tables.iter().map(|spec| RowSums::new(spec.dim.into())).collect();
        Ok(Self { tables: tables.map_err(io::Error::other)?, sums, round: 0 })
    }

    fn add(&mut self, table: usize, worker: u32, keys: &[u64], rows: &[f32]) -> io::Result<()> {
        self.tables[table].reserve(keys).map_err(io::Error::other)?;
        self.sums[table].add(worker, keys, rows).map_err(io::Error::other)
    }

    fn step(&mut self) {
        self.round += 1;
        for (table, sums) in self.tables.iter_mut().zip(&mut self.sums) {
            table.step_all(self.round, sums, None);
            sums.clear();
        }
    }

    fn read(&self, table: usize, keys: &[u64]) -> io::Result<Vec<f32>> {
        let dim = usize::from(self.tables[table].spec().dim);
        let mut rows = vec![0.0; keys.len() * dim];
        self.tables[table].read_all(keys, self.round, &mut rows).map_err(io::Error::other)?;
        Ok(rows)
    }
}

/// Serves one shard of a job over TCP, until all workers have left.
///
/// # Errors
/// What the kernel says, or a row that is none.
pub fn serve_push_pull(job: &Job, shard: u16) -> io::Result<()> {
    let listener = TcpListener::bind(job.servers[usize::from(shard)])?;
    let state = Arc::new(Mutex::new(Shard::new(job, shard)?));
    let barrier = Arc::new(Barrier::new(job.workers as usize));
    let serve = |worker| {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let (state, barrier, job) = (Arc::clone(&state), Arc::clone(&barrier), job.clone());
        Ok(thread::spawn(move || serve_worker(&job, worker, &stream, &state, &barrier)))
    };
    let threads: io::Result<Vec<_>> = (0..job.workers).map(serve).collect();
    for served in threads? {
        served.join().map_err(|_| io::Error::other("a thread of the rival has panicked"))??;
    }
    Ok(())
}

fn serve_worker(
    job: &Job,
    worker: u32,
    stream: &TcpStream,
    state: &Mutex<Shard>,
    barrier: &Barrier,
) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), BufWriter::new(stream));
    let lock = || state.lock().expect("no thread panics with it");
    loop {
        for (table, spec) in job.tables.iter().enumerate() {
            let Some(keys) = read_keys(&mut reader)? else { return Ok(()) };
            let rows = read_floats(&mut reader, keys.len() * usize::from(spec.dim))?;
            lock().add(table, worker, &keys, &rows)?;
        }
        if barrier.wait().is_leader() {
            lock().step();
        }
        barrier.wait();
        for table in 0..job.tables.len() {
            let Some(keys) = read_keys(&mut reader)? else { return Ok(()) };
            let rows = lock().read(table, &keys)?;
            write_floats(&mut writer, &rows)?;
            writer.flush()?;
        }
    }
}

/// Plays a worker through all rounds but the last, as [`super::rounds`] does; seconds of each.
///
/// # Errors
/// What the kernel says.
pub fn push_pull(job: &Job, touched: &Touched) -> io::Result<Vec<f64>> {
    let streams: io::Result<Vec<TcpStream>> = job.servers.iter().map(connect).collect();
    let streams = streams?;
    let mut seconds = Vec::new();
    for pair in touched.windows(2) {
        let begun = Instant::now();
        thread::scope(|scope| {
            let shards = (0..).zip(&streams);
            let play = |(shard, stream)| scope.spawn(move || play_round(job, shard, stream, pair));
            let threads: Vec<_> = shards.map(play).collect();
            threads.into_iter().try_for_each(|played| played.join().expect("no panic"))
        })?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

/// One round with one server: pushes, and pulls for the next round, which are asked for before the answers come.
fn play_round(job: &Job, shard: u16, stream: &TcpStream, pair: &[Vec<Vec<u64>>]) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), BufWriter::new(stream));
    let of_shard = |table: usize, keys: &[u64]| -> Vec<u64> {
        let rows = &job.tables[table].rows;
        keys.iter().copied().filter(|key| job.shards().of(rows, *key) == shard).collect()
    };
    for (table, keys) in pair[0].iter().enumerate() {
        let keys = of_shard(table, keys);
        write_keys(&mut writer, &keys)?;
        let values = keys.len() * usize::from(job.tables[table].dim);
        write_floats(&mut writer, &vec![GRADIENT; values])?;
    }
    let pulled: Vec<Vec<u64>> =
        pair[1].iter().enumerate().map(|(table, keys)| of_shard(table, keys)).collect();
    pulled.iter().try_for_each(|keys| write_keys(&mut writer, keys))?;
    writer.flush()?;
    for (table, keys) in pulled.iter().enumerate() {
        read_floats(&mut reader, keys.len() * usize::from(job.tables[table].dim))?;
    }
    Ok(())
}

fn connect(server: &SocketAddr) -> io::Result<TcpStream> {
    let deadline = Instant::now() + CONNECT_PATIENCE;
    loop {
        match TcpStream::connect(server) {
            Ok(stream) => return stream.set_nodelay(true).map(|()| stream),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => thread::sleep(CONNECT_PAUSE),
        }
    }
}

fn write_keys(writer: &mut impl Write, keys: &[u64]) -> io::Result<()> {
    writer.write_all(&(keys.len() as u32).to_le_bytes())?;
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    writer.write_all(&bytes)
}

/// None where the worker has left.
fn read_keys(reader: &mut impl Read) -> io::Result<Option<Vec<u64>>> {
    let mut count = [0; 4];
    match reader.read_exact(&mut count) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let count = u32::from_le_bytes(count);
    if count > MAX_ROWS {
        return Err(io::Error::other(format!("{count} rows in a message")));
    }
    let mut bytes = vec![0; count as usize * 8];
    reader.read_exact(&mut bytes)?;
    let key = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    Ok(Some(bytes.chunks_exact(8).map(key).collect()))
}

fn write_floats(writer: &mut impl Write, values: &[f32]) -> io::Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    writer.write_all(&bytes)
}

fn read_floats(reader: &mut impl Read, count: usize) -> io::Result<Vec<f32>> {
    let mut bytes = vec![0; count * 4];
    reader.read_exact(&mut bytes)?;
    let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    Ok(bytes.chunks_exact(4).map(value).collect())
}
