//! How much the hot set gets of what the truly most popular rows get, while popularity drifts: as servers track it, as
//! one would choose it who knows the truth, and chosen once.
//!
//! A million rows by Zipf's law with exponent 1.05, 16 workers of 4,000 lookups a round, 10,000 hot rows. In each round a
//! share of the first 20,000 ranks gets fresh rows. All ways see the same rounds.

#[path = "../../sparse/examples/support/zipf.rs"]
mod zipf;

use std::collections::BTreeSet;

use wiresum_netem::Rng;
use wiresum_sparse::hot::RowId;
use wiresum_sparse::popularity::{Tracker, choose};
use wiresum_sparse::table::TableId;
use wiresum_sparse::tracking::{Decaying, Follow};

use zipf::{Zipf, unit};

/// Rows of the table.
pub const ROWS: usize = 1_000_000;
/// Rows that may be hot.
pub const HOT: usize = 10_000;
/// Ranks that get fresh rows.
pub const DRIFTING: usize = 20_000;
/// Workers, and what each looks up in a round.
pub const LOOKUPS: [usize; 2] = [16, 4_000];
/// Shares of these ranks that get fresh rows in a round.
pub const REPLACED: [f64; 3] = [0.0, 0.0002, 0.002];
const EXPONENT: f64 = 1.05;
/// Rounds before those that count: the set fills.
pub const LEAD_IN: usize = 20;
/// Rounds that are counted where the set is chosen once.
const ONCE_AFTER: usize = 10;
/// Rows that keep their counts at a server.
const COUNTED: usize = 3 * HOT;

/// Which ranks get fresh rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Each as likely as another.
    Even,
    /// Each as likely as ten times that rank and its neighbours: the first one most often.
    Logarithmic,
}

impl Drift {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Logarithmic => "logarithmic",
        }
    }

    fn rank(self, rng: &mut Rng) -> usize {
        let place = unit(rng);
        let rank = match self {
            Self::Even => (place * DRIFTING as f64) as usize,
            Self::Logarithmic => (place * (DRIFTING as f64).ln()).exp() as usize - 1,
        };
        rank.min(DRIFTING - 1)
    }
}

/// How the hot set is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As servers do: by counts that decay, in every period of so many rounds.
    Tracked(u32),
    /// In every such period, by the true popularity of the round before.
    Known(u32),
    /// By the counts of the first rounds, for ever.
    Once,
}

/// All that are compared.
pub const WAYS: [Way; 6] =
    [Way::Tracked(10), Way::Known(10), Way::Tracked(2), Way::Known(2), Way::Known(1), Way::Once];

impl Way {
    /// For people.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Tracked(period) => format!("tracked, period {period}"),
            Self::Known(period) => format!("known, period {period}"),
            Self::Once => format!("once, after {ONCE_AFTER} rounds"),
        }
    }
}

/// What a way has reached.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// Which ranks got fresh rows, and how many.
    pub drift: Drift,
    /// The share of them in a round.
    pub replaced: f64,
    /// How the set was found.
    pub way: Way,
    /// What the set gets, over what the most popular rows get, in the mean over rounds.
    pub coverage: f64,
    /// The share of the set that changes in ten rounds.
    pub exchanged: f64,
}

/// All ways, for each drift: the mean over the rounds after a lead-in of 20.
///
/// # Panics
/// If there are no more rounds than that.
#[must_use]
pub fn measure(rounds: usize, seed: u64) -> Vec<Reached> {
    let drifts = [Drift::Even, Drift::Logarithmic];
    let cases = drifts.into_iter().flat_map(|drift| REPLACED.map(|replaced| (drift, replaced)));
    cases.flat_map(|(drift, replaced)| follow(drift, replaced, rounds, seed)).collect()
}

/// All ways, for one drift.
///
/// # Panics
/// As [`measure`] does.
#[must_use]
pub fn follow(drift: Drift, replaced: f64, rounds: usize, seed: u64) -> Vec<Reached> {
    assert!(rounds > LEAD_IN, "{rounds} rounds, of which the first {LEAD_IN} do not count");
    let zipf = &Zipf::new(ROWS, EXPONENT);
    let mut popularity = Popularity::new(seed);
    let mut followers = WAYS.map(Follower::new);
    for round in 1..=rounds {
        popularity.step(drift, replaced);
        let touched = popularity.round(zipf);
        for follower in &mut followers {
            follower.see(round, zipf, &popularity, &touched);
        }
    }
    let counted = (rounds - LEAD_IN) as f64;
    let reached = |one: Follower| Reached {
        drift,
        replaced,
        way: one.way,
        coverage: one.coverage / counted,
        exchanged: one.exchanged as f64 / HOT as f64 / counted * 10.0,
    };
    followers.map(reached).into()
}

/// Which row has which rank.
struct Popularity {
    rows: Vec<u32>,
    ranks: Vec<u32>,
    rng: Rng,
    owed: f64,
}

impl Popularity {
    fn new(seed: u64) -> Self {
        let rows: Vec<u32> = (0..ROWS as u32).collect();
        Self { ranks: rows.clone(), rows, rng: Rng::new(seed), owed: 0.0 }
    }

    fn step(&mut self, drift: Drift, replaced: f64) {
        self.owed += replaced * DRIFTING as f64;
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            let rank = drift.rank(&mut self.rng);
            let fresh = DRIFTING + (unit(&mut self.rng) * (ROWS - DRIFTING) as f64) as usize;
            self.rows.swap(rank, fresh);
            self.ranks[self.rows[rank] as usize] = rank as u32;
            self.ranks[self.rows[fresh] as usize] = fresh as u32;
        }
    }

    /// How many workers touch which row.
    fn round(&mut self, zipf: &Zipf) -> Vec<(RowId, u32)> {
        let [workers, lookups] = LOOKUPS;
        let mut touched = Vec::new();
        for _ in 0..workers {
            let mut ranks: Vec<usize> = (0..lookups).map(|_| zipf.draw(&mut self.rng)).collect();
            ranks.sort_unstable();
            ranks.dedup();
            touched.extend(ranks.into_iter().map(|rank| self.rows[rank]));
        }
        touched.sort_unstable();
        touched.chunk_by(|a, b| a == b).map(|same| (row(same[0]), same.len() as u32)).collect()
    }

    /// What a set gets, over what the most popular rows get.
    fn coverage(&self, zipf: &Zipf, hot: &BTreeSet<RowId>) -> f64 {
        let share = |row: &RowId| zipf.share(self.ranks[row.key as usize] as usize);
        hot.iter().map(share).sum::<f64>() / zipf.of_first(HOT)
    }

    fn most_popular(&self) -> Vec<RowId> {
        self.rows[..HOT].iter().map(|number| row(*number)).collect()
    }
}

fn row(number: u32) -> RowId {
    RowId { table: TableId(0), key: number.into() }
}

/// A way, and how it has gone so far.
struct Follower {
    way: Way,
    tracker: Tracker,
    hot: BTreeSet<RowId>,
    coverage: f64,
    exchanged: usize,
}

impl Follower {
    fn new(way: Way) -> Self {
        let (hot, tracker) = (BTreeSet::new(), Tracker::bounded(COUNTED));
        Self { way, tracker, hot, coverage: 0.0, exchanged: 0 }
    }

    /// A round with the set that was chosen before, and a choice for the next one.
    fn see(
        &mut self,
        round: usize,
        zipf: &Zipf,
        popularity: &Popularity,
        touched: &[(RowId, u32)],
    ) {
        let is_counted = round > LEAD_IN;
        if is_counted {
            self.coverage += popularity.coverage(zipf, &self.hot);
        }
        if let Some(next) = self.choose(round, popularity, touched) {
            let next: BTreeSet<RowId> = next.into_iter().collect();
            let came = next.difference(&self.hot).count();
            self.exchanged += if is_counted { came } else { 0 };
            self.hot = next;
        }
    }

    /// The set of the next round, if it is chosen now.
    fn choose(
        &mut self,
        round: usize,
        popularity: &Popularity,
        touched: &[(RowId, u32)],
    ) -> Option<Vec<RowId>> {
        match self.way {
            Way::Known(period) => {
                round.is_multiple_of(period as usize).then(|| popularity.most_popular())
            }
            Way::Once => {
                let is_over = round > ONCE_AFTER;
                (!is_over).then(|| {
                    self.tracker.observe(touched);
                    self.ranking(1.0)
                })
            }
            Way::Tracked(period) => {
                let decaying = Decaying::every(period);
                self.tracker.observe(touched);
                decaying.is_due(round as u32).then(|| {
                    let ranking = self.ranking(decaying.reach());
                    self.tracker.decay(decaying.decay());
                    choose(&self.hot, &ranking, HOT, decaying.reach())
                })
            }
        }
    }

    /// Rows by count, as many as are reported.
    fn ranking(&self, reach: f64) -> Vec<RowId> {
        let most = (HOT as f64 * reach) as usize;
        self.tracker.candidates(most).into_iter().map(|(row, _)| row).collect()
    }
}
