//! Fewer set-ups at the completion that was reached: ruin and recreate, as everywhere, at other prices.
//!
//! A set-up costs more than any circuit that is there, a circuit more than one that is lit already. A place counts, too,
//! so that switches sum those for whom circuits would have to be set up, and others use circuits that there are.

use super::insertion::Prices;
use super::kept;
use super::search::Search;

/// Transfers that are looked at for one that needs a set-up.
const LOOKS: usize = 8;
/// Transfers that are inserted, times slots that are looked at, in all rounds: long horizons have fewer rounds.
const MOST_WORK: usize = 400_000;

impl Search<'_> {
    /// Makes set-ups fewer, in at most so many rounds. Nothing is complete after what has been complete last, and with
    /// idle circuits kept lit, as they are in the end, there are never more set-ups than before.
    pub fn fewer_setups(&mut self, rounds: usize) {
        self.hasten(self.completion_s());
        let first = (kept::setups(&mut self.board), self.clone());
        self.prices = Prices::SETUPS;
        self.saves_setups = true;
        let began = self.work;
        for _ in 0..rounds {
            let least = self.board.setups();
            if least == 0 || self.work > began + MOST_WORK {
                break;
            }
            let around = self.who_needs_a_setup();
            self.attempt(around, |search, left| left.is_empty() && search.board.setups() <= least);
        }
        // Who had a circuit in two slots apart may keep it lit between them, which the rounds do not see.
        if kept::setups(&mut self.board) > first.0 {
            *self = first.1;
        }
    }

    /// When the last transfer is complete, in seconds.
    fn completion_s(&self) -> f64 {
        let problem = self.board.problem;
        let turns = self.turns.iter().zip(&problem.transfers);
        let ends = turns.filter_map(|(turn, transfer)| {
            let turn = turn.as_ref()?;
            let slots = turn.shares.last().map_or(0, |(slot, _)| slot + 1) as f64;
            Some(slots * problem.instance.slot_s + transfer.mode(turn.summed).update_s)
        });
        ends.fold(0.0, f64::max)
    }

    /// A transfer by chance, if possible one on whose pairs a circuit is set up while it sends.
    fn who_needs_a_setup(&mut self) -> usize {
        let mut any = 0;
        for _ in 0..LOOKS {
            any = self.rng.below(self.turns.len() as u64) as usize;
            if self.needs_a_setup(any) {
                break;
            }
        }
        any
    }

    fn needs_a_setup(&self, index: usize) -> bool {
        let Some(turn) = &self.turns[index] else { return false };
        let crossings = &self.board.problem.transfers[index].mode(turn.summed).crossings;
        turn.shares.iter().any(|(slot, _)| {
            let is_new = |pair| self.board.circuits(*slot, pair) > self.board.lit(*slot, pair);
            crossings.iter().any(|crossing| is_new(crossing.pair))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{RIVALS, ends_s, finish, last};
    use super::*;
    use crate::problem::Problem;
    use crate::scheduler::{Options, Plan, Slots, window};
    use crate::timetable::intervals;
    use crate::{Cost, Instance, judge};

    /// Units of two ports and a place, each with a circuit to either neighbour; circuits carry a byte in a slot.
    fn network(units: usize, jobs: &[Value]) -> Instance {
        let unit = |index| json!({ "name": format!("u{index}"), "ports": 2, "switch_bps": 800.0, "places": 1 });
        let document = json!({
            "format": "wiresum-circuit-instance/1", "slot_s": 1.0, "dark_s": 0.1, "port_bps": 8.0, "host_bps": 8.0,
            "server_bps": 800.0, "before": "even", "units": (0..units).map(unit).collect::<Vec<_>>(), "jobs": jobs,
        });
        Instance::from_json(&document.to_string()).expect("an instance")
    }

    fn job(
        id: usize,
        [home, server]: [usize; 2],
        workers: u32,
        bytes: f64,
        arrival_s: u32,
    ) -> Value {
        let workers = json!({ format!("u{home}"): workers });
        let star = json!({ "workers": workers, "server": format!("u{server}"), "bytes": bytes, "update_s": 0.1 });
        json!({ "id": id, "arrival_s": arrival_s, "traffic": { "star": star } })
    }

    fn instances() -> impl Strategy<Value = Instance> {
        let job_of = (0usize..6, 0usize..6, 1u32..4, 0.1f64..3.0, 0u32..3);
        (2usize..7, prop::collection::vec(job_of, 1..24)).prop_map(|(units, jobs)| {
            let jobs: Vec<Value> = jobs
                .into_iter()
                .enumerate()
                .map(|(id, (home, server, workers, bytes, arrival_s))| {
                    job(id + 1, [home % units, server % units], workers, bytes, arrival_s)
                })
                .collect();
            network(units, &jobs)
        })
    }

    fn cost(instance: &Instance, plan: &Plan<'_>) -> Cost {
        judge(instance, &intervals(&plan.board, &plan.turns)).expect("it keeps the rules")
    }

    /// A search that has taken over a plan.
    fn search<'a>(problem: &'a Problem<'a>, plan: Plan<'a>) -> Search<'a> {
        let mut search = Search::one_by_one(problem, 1);
        let ends_s = last(&ends_s(problem, &plan));
        search.adopt(plan, ends_s);
        search
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn neither_the_end_nor_set_ups_ever_grow(instance in instances(), rounds in 0usize..60) {
            let problem = Problem::new(&instance, true).expect("a problem");
            for rival in RIVALS {
                let plan = || rival(&problem, &Options::default()).and_then(Slots::finish);
                // Who changes circuits refuses jobs that must not pause.
                let (Ok(one), Ok(same)) = (plan(), plan()) else { continue };
                let before = cost(&instance, &finish(search(&problem, one)));
                let mut search = search(&problem, same);
                search.fewer_setups(rounds);
                search.use_free_places();
                let after = cost(&instance, &finish(search));
                prop_assert!(after.completion_s <= before.completion_s);
                prop_assert!(after.setups <= before.setups);
            }
        }
    }

    /// Forty jobs between six units, which time windows serve with circuits that come and go.
    #[test]
    fn set_ups_fall_where_jobs_can_share_circuits() {
        let mut rng = wiresum_netem::Rng::new(5);
        let mut below = |most: u64| rng.below(most) as usize;
        let jobs: Vec<Value> = (0..40)
            .map(|id| job(id + 1, [below(6), below(6)], 1, 0.2 + 0.1 * below(10) as f64, 0))
            .collect();
        let instance = network(6, &jobs);
        let problem = Problem::new(&instance, true).expect("a problem");
        let plan =
            || window::run(&problem, &Options::default()).and_then(Slots::finish).expect("a plan");
        let before = cost(&instance, &finish(search(&problem, plan())));
        let mut search = search(&problem, plan());
        search.fewer_setups(500);
        let after = cost(&instance, &finish(search));
        assert!(after.completion_s <= before.completion_s);
        assert!(2 * after.setups <= before.setups, "{} of {}", after.setups, before.setups);
    }
}
