//! Workers of `wiresum bench sparse`: each replays what a trace says it pushes, and pulls what it needs next.

mod push_pull;

use std::time::{Duration, Instant};

use wiresum_node::clock::process_cpu_time;
use wiresum_node::tables::{ClientError, RowClient};
use wiresum_sparse::table::TableId;

pub use push_pull::{push_pull, serve_push_pull};

/// The gradient of every value: small, so that sums of any workers are in range.
const GRADIENT: f32 = 1.0 / 1024.0;

/// What one worker of a trace touches: for each round and table, the distinct keys.
pub type Touched = Vec<Vec<Vec<u64>>>;

/// What a worker's rounds took.
#[derive(Clone, Debug)]
pub struct Played {
    /// Seconds of each round, from the first gradient to the last weight of the rows of the next.
    pub seconds: Vec<f64>,
    /// Processor time of this process in all of them; what it takes to join is not in it.
    pub cpu_seconds: f64,
}

/// Plays a worker through all rounds but the last, whose rows are only pulled.
///
/// # Errors
/// [`ClientError`].
pub fn rounds(client: &mut RowClient, touched: &Touched) -> Result<Played, ClientError> {
    let before = process_cpu_time();
    let dims: Vec<(TableId, usize)> =
        client.job().tables.iter().map(|table| (table.id, table.dim.into())).collect();
    let mut seconds = Vec::new();
    for pair in touched.windows(2) {
        let begun = Instant::now();
        for ((table, dim), keys) in dims.iter().zip(&pair[0]) {
            client.push(*table, keys, &vec![GRADIENT; keys.len() * dim])?;
        }
        let round = client.end_round()?;
        let asked = dims.iter().zip(&pair[1]).map(|((table, _), keys)| client.ask(*table, keys));
        for rows in asked.collect::<Result<Vec<_>, _>>()? {
            rows.wait()?;
        }
        round.wait()?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    let cpu_seconds = (process_cpu_time() - before).as_secs_f64();
    Ok(Played { seconds, cpu_seconds })
}

/// Longest wait of a benchmark's worker for a round.
pub const PATIENCE: Duration = Duration::from_secs(300);
