//! One round of flows, whose starts are known: what planners compare trees by.

use super::current::{Begins, Brings, Pattern, Template};
use super::flowing::{Current, Flowing, Stage};
use crate::SimulationError;

/// A flow starts once, ends once and catches up a few times; more events mean that the simulation makes no progress.
const EVENTS_PER_FLOW: usize = 64;

/// Bytes from one node to another, in order; or in one, those of all edges of a tree that move in step.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Capacities that it crosses, each once, and how often.
    pub uses: Vec<(u32, u32)>,
    /// All of it, headers included.
    pub wire_bytes: f64,
    /// When its first byte may leave.
    pub start_s: f64,
    /// Flows that bring what this one sends on: it is never ahead of any of them.
    pub feeds: Vec<u32>,
}

/// A rate that stayed the same for a while: from, until, bit/s.
pub type Span = (f64, f64, f64);

/// What became of flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowSpans {
    /// The times in which each flow was not idle; neighbours with the same rate are one.
    pub spans: Vec<Vec<Span>>,
    /// Flows that wait for each other for ever.
    pub waiting: Vec<u32>,
}

/// The rates of flows over time, by the model of [`super::run`].
///
/// A feed that has ended holds nobody up; one that has not started holds up those that have caught up with it.
///
/// # Errors
/// [`SimulationError::Invariant`], if a capacity gave more than it has.
pub fn predict(capacities_bps: &[f64], flows: &[Flow]) -> Result<FlowSpans, SimulationError> {
    let mut flowing = Flowing::new(vec![pattern(flows)], capacities_bps);
    flowing.currents = (0..flows.len() as u32).map(current).collect();
    let mut spans = vec![Vec::new(); flows.len()];
    for _ in 0..EVENTS_PER_FLOW * flows.len() {
        let next_start_s = open(&mut flowing, flows);
        flowing.share()?;
        let Some(next_s) = flowing.next_event_s(next_start_s) else { break };
        record(&flowing, next_s, &mut spans);
        flowing.flow_until(next_s);
        for number in flowing.close() {
            flowing.currents[number as usize].stage = Stage::Ended;
            flowing.sharing.leave(number);
        }
    }
    let is_left = |number: &u32| flowing.currents[*number as usize].stage != Stage::Ended;
    Ok(FlowSpans { waiting: (0..flows.len() as u32).filter(is_left).collect(), spans })
}

/// Opens the flows whose time has come; when the next one's comes.
fn open(flowing: &mut Flowing, flows: &[Flow]) -> Option<f64> {
    let mut next_s: Option<f64> = None;
    for (number, flow) in (0..).zip(flows) {
        let current = &mut flowing.currents[number as usize];
        if current.stage != Stage::Waiting {
            continue;
        }
        if flow.start_s > flowing.now_s {
            next_s = Some(next_s.map_or(flow.start_s, |next_s| next_s.min(flow.start_s)));
            continue;
        }
        current.stage = Stage::Open;
        flowing.sharing.enter(number, &flow.uses);
        flowing.open.push(number);
    }
    next_s
}

fn record(flowing: &Flowing, next_s: f64, spans: &mut [Vec<Span>]) {
    for &number in &flowing.open {
        let (rate_bps, spans) = (flowing.sharing.rate_bps(number), &mut spans[number as usize]);
        match spans.last_mut() {
            _ if rate_bps == 0.0 || next_s == flowing.now_s => {}
            Some((_, until_s, before_bps))
                if (*until_s, *before_bps) == (flowing.now_s, rate_bps) =>
            {
                *until_s = next_s;
            }
            _ => spans.push((flowing.now_s, next_s, rate_bps)),
        }
    }
}

fn current(number: u32) -> Current {
    Current {
        job: 0,
        round: 0,
        call: 0,
        pattern: 0,
        template: number,
        base: 0,
        stage: Stage::Waiting,
        sent_bytes: 0.0,
    }
}

fn pattern(flows: &[Flow]) -> Pattern {
    let template = |flow: &Flow| Template {
        uses: flow.uses.clone(),
        wire_bytes: flow.wire_bytes,
        begins: Begins::Fed,
        brings: Brings::Nothing,
        feeds: flow.feeds.clone(),
        fed: Vec::new(),
        into_root: false,
        source: 0,
        target: 0,
    };
    let mut pattern = Pattern { currents: flows.iter().map(template).collect(), needed: 0 };
    pattern.mirror();
    pattern
}
