//! What sums at a site, as the scenario's programs have it there.

use wiresum_switch::policy::Key;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{
    Contributors, Egress, Outcome, Packet, ParameterServer, Place, Serving, Switch, Verdict,
};
use wiresum_wire::{Kind, NodeId};

use super::content::{Content, LANES};
use super::job::{Job, sub_models};
use crate::scenario::Program;
use crate::{Scenario, SimulationError};

pub(super) enum Summer<V: Content> {
    Nobody,
    Switch {
        switch: Box<Switch<V>>,
        /// Contributors of each stream that it sums, by number − 1: with all of them a sum is complete here.
        members: Vec<Contributors>,
    },
    Server(Box<ParameterServer<V>>),
}

impl<V: Content> Summer<V> {
    /// A site with its programs, and nothing summed yet.
    pub fn at(site: usize, scenario: &Scenario, jobs: &[Job]) -> Result<Self, SimulationError> {
        let mut summer = Self::Nobody;
        for (number, (program, job)) in scenario.programs.iter().zip(jobs).enumerate() {
            for stream in sub_models(program) {
                for at in stream.1.switches.iter().filter(|(of, _)| *of == site) {
                    for place in job.places(number, stream, *at) {
                        summer.install(site, place, program, job)?;
                    }
                }
                if site == job.ways_of(stream.0).root && !scenario.sites[site].forwards {
                    summer.serve(job.serving(number, stream));
                }
            }
        }
        Ok(summer)
    }

    /// A stream at its root, if that is no switch.
    fn serve(&mut self, serving: Serving) {
        if !matches!(self, Self::Server(_)) {
            *self = Self::Server(Box::default());
        }
        if let Self::Server(server) = self {
            server.serve(serving);
        }
    }

    /// A stream at a switch.
    fn install(
        &mut self,
        site: usize,
        place: Place,
        program: &Program,
        job: &Job,
    ) -> Result<(), SimulationError> {
        let wrong = |problem: String| SimulationError::Job { job: program.name.clone(), problem };
        if matches!(self, Self::Nobody) {
            let (node, policy) = (NodeId(site as u16), job.policy);
            let made = Switch::new(node, policy, program.memory_slots, LANES, &Profile::UNLIMITED);
            let switch = Box::new(made.map_err(|misfit| wrong(misfit.to_string()))?);
            *self = Self::Switch { switch, members: Vec::new() };
        }
        if let Self::Switch { switch, members } = self {
            switch.install(place).map_err(|error| wrong(error.to_string()))?;
            members.push(place.members);
        }
        Ok(())
    }

    /// Deals with a packet, in place; says where what is left goes.
    #[inline]
    pub fn handle(&mut self, packet: &mut Packet<V>) -> Outcome {
        match self {
            Self::Nobody => {
                let is_up = packet.kind == Kind::Contribution;
                let egress = if is_up { Egress::Up } else { Egress::Down };
                Outcome { verdict: Verdict::Passed, egress }
            }
            Self::Switch { switch, .. } => switch.handle(packet),
            Self::Server(server) => server.handle(packet),
        }
    }

    /// The results for other cohorts' workers beside one that has been handled.
    pub fn other_results(&self, result: &Packet<V>) -> Vec<Packet<V>> {
        match self {
            Self::Server(server) => server.other_results(result),
            _ => Vec::new(),
        }
    }

    /// Slots with a sum of some of their workers, but not of all; `None` where no switch sums.
    pub fn unfinished(&self) -> Option<u32> {
        let Self::Switch { switch, members } = self else { return None };
        let array = |name| switch.memory().arrays().find(|(of, _)| *of == name).map(|(_, a)| a);
        let (keys, contributors) = (array("key")?, array("contributors")?);
        let is_unfinished = |(key, held): &(&u64, &u64)| {
            let number = usize::from(Key::of(**key).number());
            let all = number.checked_sub(1).and_then(|index| members.get(index));
            **held != 0 && all.is_some_and(|all| all.0 != **held)
        };
        Some(keys.iter().zip(contributors).filter(is_unfinished).count() as u32)
    }
}
