//! A switch in the kernel as a station's data plane: the XDP program sums and forwards, and learns from here which jobs run and who is
//! next to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use thiserror::Error;
use wiresum_protocol::association::ValueKeys;
use wiresum_protocol::plan::fabric::{FabricEnd, FabricLink, site};
use wiresum_protocol::ways::Site;
use wiresum_protocol::{Plan, Quota};
use wiresum_switch::live::StationError;
use wiresum_switch::live::parts::{self, Room};
use wiresum_switch::live::plane::{DataPlane, PlaneError, passed};
use wiresum_switch::live::{PlaneState, Unfit};
use wiresum_switch::policy::Policy;
use wiresum_switch::{Forwarding, Neighbour, Outcome, Packet, Place, Values};
use wiresum_wire::{JobId, JobKey, NodeId, SubModelId};
use wiresum_xdp::{AttachMode, Estate, SwitchOptions, SwitchProgram, XdpAggregator, XdpError};

use crate::aggregators::kernel::{KernelError, failed};
use crate::takeover::KernelLegacy;

/// Slots of a switch that only forwards: maps have one element at least.
const LEAST_SLOTS: u32 = 1;

/// Why no program runs for these plans.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The kernel's reason.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The daemon's socket, which exchanges hellos, is of the other family than a link.
    #[error(
        "job {job} has a link to {neighbour} at this node, which listens on {listen}: give both IPv4 addresses, or both IPv6"
    )]
    Family {
        /// The job whose plan has the link.
        job: JobId,
        /// The other end of the link.
        neighbour: SocketAddr,
        /// Where the daemon listens.
        listen: SocketAddr,
    },
    /// The plans do not agree.
    #[error(transparent)]
    Station(#[from] StationError),
}

type Addresses = BTreeMap<(JobId, Neighbour), SocketAddr>;

/// The XDP program of a switch, as a station's data plane.
pub struct KernelSwitch {
    program: SwitchProgram,
    node: NodeId,
    /// Where the daemon listens.
    address: SocketAddr,
    room: Room,
    /// Forwarding by all plans.
    forwarding: Forwarding,
    /// By job and neighbour in its plan.
    addresses: Addresses,
    /// By address: what the program calls it, whichever plans name it.
    names: BTreeMap<SocketAddr, Neighbour>,
    met: BTreeSet<SocketAddr>,
}

impl KernelSwitch {
    /// Loads the program of a node's policy, with the memory that its plans want, and attaches it to the interfaces until this is dropped
    /// or the process dies. Its jobs are then to be admitted.
    ///
    /// # Errors
    /// [`LoadError`] with the remedy.
    pub fn load(
        plans: &[Plan],
        node: NodeId,
        address: SocketAddr,
        interfaces: &[String],
        mode: AttachMode,
    ) -> Result<Self, LoadError> {
        plans.iter().try_for_each(|plan| check_family(plan, node, address))?;
        let room = room(plans, node)?;
        let options = options(room, node, address);
        XdpAggregator::check_support().map_err(failed("the engine `xdp` is not available"))?;
        let mut program = SwitchProgram::load(options)
            .map_err(failed("the switch's XDP program cannot be loaded"))?;
        for interface in interfaces {
            let action = format!("the XDP program cannot be attached to `{interface}`");
            program.attach(interface, mode).map_err(failed(action))?;
        }
        let forwarding = Forwarding::default();
        let (addresses, names, met) = Default::default();
        Ok(Self { program, node, address, room, forwarding, addresses, names, met })
    }

    /// Goes on with what another process has begun, on the interfaces where that has put the program.
    ///
    /// # Errors
    /// [`LoadError`] with the remedy.
    pub fn take_over(
        plans: &[Plan],
        node: NodeId,
        address: SocketAddr,
        room: Room,
        estate: Estate,
    ) -> Result<Self, LoadError> {
        let (mut forwarding, mut by_job) = (Forwarding::default(), Addresses::new());
        for plan in plans {
            let mut ways = plan.ways().into_iter();
            let installed = ways.try_for_each(|ways| forwarding.install(Site::Node(node), &ways));
            installed.map_err(StationError::from)?;
            by_job.extend(addresses(plan, node));
        }
        let mut names = BTreeMap::new();
        for (&(_, neighbour), &address) in &by_job {
            let link = names.len() as u16;
            names.entry(address).or_insert(Neighbour { link, ..neighbour });
        }
        let program = SwitchProgram::take_over(options(room, node, address), estate, &names)
            .map_err(failed("the switch's XDP program cannot be taken over"))?;
        let is_met = |name: &(&SocketAddr, &Neighbour)| program.reaches(*name.1);
        let met = names.iter().filter(is_met).map(|(address, _)| *address).collect();
        Ok(Self { program, node, address, room, forwarding, addresses: by_job, names, met })
    }

    /// The program and memory that a plan wants in place of what is here, which it may have where no other job is.
    fn wanted(&self, plan: &Plan) -> Result<Option<Room>, StationError> {
        match parts::room(plan, self.node).filter(|room| *room != self.room) {
            Some(_) if !self.addresses.is_empty() => Err(StationError::Programs(self.node)),
            wanted => Ok(wanted),
        }
    }

    /// Its program and memory.
    #[must_use]
    pub fn room(&self) -> Room {
        self.room
    }

    /// Maps, links and counters for a successor.
    #[must_use]
    pub fn descriptors(&self) -> KernelLegacy<'_> {
        let (maps, links) = self.program.descriptors();
        KernelLegacy { maps, links, retired: self.program.retired() }
    }

    /// Takes back what a successor that has failed may have changed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn reattach(&self) -> Result<(), KernelError> {
        self.program.reattach().map_err(failed("the switch's XDP program cannot be put back"))
    }

    /// Lets an address be a neighbour's, whose name then is its own: numbers of links mean something else in every plan.
    fn expect(&mut self, neighbour: Neighbour, address: SocketAddr) -> Result<(), XdpError> {
        if !self.names.contains_key(&address) {
            self.program.expect(address)?;
            let taken: BTreeSet<u16> = self.names.values().map(|name| name.link).collect();
            let link = (0..).find(|link| !taken.contains(link)).expect("fewer neighbours");
            self.names.insert(address, Neighbour { link, ..neighbour });
        }
        Ok(())
    }

    /// Forgets neighbours that no plan names any more.
    fn forget_strangers(&mut self) -> Result<(), XdpError> {
        let wanted: BTreeSet<_> = self.addresses.values().copied().collect();
        let gone: Vec<_> = self.names.keys().copied().filter(|at| !wanted.contains(at)).collect();
        for address in gone {
            if let Some(name) = self.names.remove(&address) {
                self.program.unexpect(name, address)?;
            }
            self.met.remove(&address);
        }
        Ok(())
    }

    /// Tells the program the ways that lead to whom it has met.
    fn forward(&mut self) -> Result<(), XdpError> {
        let Self { program, forwarding, addresses, names, met, .. } = self;
        let name = |job, neighbour| {
            let address = addresses.get(&(job, neighbour))?;
            met.contains(address).then(|| names[address])
        };
        program.forward(&forwarding.renamed(name))
    }

    fn reinstall(
        &mut self,
        job: JobId,
        places: &[Place],
        key: Option<JobKey>,
    ) -> Result<(), XdpError> {
        self.program.stop(job)?;
        self.program.remove(job)?;
        places.iter().try_for_each(|place| self.program.install(place))?;
        key.map_or(Ok(()), |key| self.program.run(job, key))
    }

    /// As [`DataPlane::dismiss`].
    fn forget(&mut self, job: JobId) -> Result<(), XdpError> {
        self.reinstall(job, &[], None)?;
        self.forwarding.remove(job);
        self.addresses.retain(|(of, _), _| *of != job);
        self.forward()?;
        self.forget_strangers()?;
        self.program.release(job)
    }
}

impl DataPlane for KernelSwitch {
    fn admit(&mut self, plan: &Plan) -> Result<(), StationError> {
        if let Some(room) = self.wanted(plan)? {
            self.program.replace(options(room, self.node, self.address)).map_err(refused)?;
            self.room = room;
        }
        self.program.admit(plan.job_id()).map_err(refused)?;
        let added = addresses(plan, self.node);
        let site = Site::Node(self.node);
        plan.ways().iter().try_for_each(|ways| self.forwarding.install(site, ways))?;
        for (&(_, neighbour), &address) in &added {
            self.expect(neighbour, address).map_err(refused)?;
        }
        self.addresses.extend(added);
        // Those whom another job has met already need not be met again.
        Ok(self.forward().map_err(refused)?)
    }

    fn dismiss(&mut self, job: JobId) -> Result<(), PlaneError> {
        self.forget(job).map_err(refused)
    }

    /// The program sends to whom it has heard say hello, and nobody says hello in mid-job.
    fn readdress(&mut self, plan: &Plan) -> Result<(), PlaneError> {
        let now = addresses(plan, self.node);
        let is_same = now.iter().all(|(at, address)| self.addresses.get(at) == Some(address));
        if is_same { Ok(()) } else { Err(PlaneError::Carrier(Fixed.into())) }
    }

    /// None where the slots are there.
    fn memory_for(&self, plan: &Plan) -> Result<usize, StationError> {
        Ok(self.wanted(plan)?.map_or(0, |room| room.bytes()))
    }

    fn bound(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), PlaneError> {
        self.program.set_quota(job, quota).map_err(refused)
    }

    fn job_counters(&self, job: JobId) -> (Vec<(&'static str, u64)>, u64) {
        self.program.job_counters(job).unwrap_or_else(|error| {
            unreadable(&error);
            Default::default()
        })
    }

    fn install(
        &mut self,
        job: JobId,
        places: &[Place],
        key: Option<JobKey>,
    ) -> Result<(), PlaneError> {
        self.reinstall(job, places, key).map_err(refused)
    }

    fn renew(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        keys: ValueKeys,
    ) -> Result<(), PlaneError> {
        self.program.renew(job, sub_model, keys).map_err(refused)
    }

    /// All of it is in the program's maps.
    fn state(&self) -> Result<PlaneState, PlaneError> {
        Ok(PlaneState::default())
    }

    /// The maps have been taken over, and their jobs with them.
    fn resume(&mut self, _state: PlaneState, _jobs: &[(&Plan, &[Place])]) -> Result<(), Unfit> {
        Ok(())
    }

    fn bypass(&mut self, job: JobId) -> Result<(), PlaneError> {
        self.program.bypass(job).map_err(refused)
    }

    fn meet(&mut self, address: SocketAddr) -> Result<(), PlaneError> {
        let known = self.names.get(&address).copied();
        let neighbour = known.ok_or_else(|| PlaneError::Carrier(Stranger.into()))?;
        if self.program.meet(neighbour, address).map_err(refused)? {
            self.met.insert(address);
            self.forward().map_err(refused)?;
        }
        Ok(())
    }

    /// What the program hands up, it has done nothing with.
    fn handle(&mut self, packet: &mut Packet<Values>) -> Outcome {
        passed(packet)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.program.counters().unwrap_or_else(|error| {
            unreadable(&error);
            Vec::new()
        })
    }

    fn memory_bytes(&self) -> usize {
        self.program.memory_bytes()
    }
}

fn unreadable(error: &XdpError) {
    eprintln!("wiresum-node: the program's counters cannot be read: {error}");
}

#[derive(Debug, Error)]
#[error(
    "no plan has a link of this node that ends there; correct the plan, or have it sent over that link"
)]
struct Stranger;

#[derive(Debug, Error)]
#[error(
    "a switch in the kernel keeps the addresses of a job's neighbours until the job is removed"
)]
struct Fixed;

fn refused(error: XdpError) -> PlaneError {
    match error {
        XdpError::Place(place) => PlaneError::Place(place),
        other => PlaneError::Carrier(other.into()),
    }
}

/// The addresses of all neighbours: those that packets go to, and those that they only come from.
fn addresses(plan: &Plan, node: NodeId) -> Addresses {
    let links = plan.fabric.iter().flat_map(|fabric| &fabric.links).zip(0u16..);
    let opposites = links.filter_map(|(link, index)| Some((opposite(link, node)?, index)));
    let named = |(end, link): (&FabricEnd, u16)| {
        ((plan.job_id(), Neighbour { site: site(end.at), link }), end.address)
    };
    opposites.map(named).collect()
}

fn check_family(plan: &Plan, node: NodeId, listen: SocketAddr) -> Result<(), LoadError> {
    let neighbours = addresses(plan, node).into_values();
    let foreign = neighbours.into_iter().find(|at| at.is_ipv4() != listen.is_ipv4());
    let error = |neighbour| LoadError::Family { job: plan.job_id(), neighbour, listen };
    foreign.map_or(Ok(()), |neighbour| Err(error(neighbour)))
}

/// The other end of a node's link.
fn opposite(link: &FabricLink, node: NodeId) -> Option<&FabricEnd> {
    let is_here = |end: &FabricEnd| site(end.at) == Site::Node(node);
    let [one, other] = &link.ends;
    if is_here(one) { Some(other) } else { is_here(other).then_some(one) }
}

/// The program and memory of a switch, which may do nothing but forward.
fn room(plans: &[Plan], node: NodeId) -> Result<Room, LoadError> {
    let only_forwards = || {
        let plan = plans.first();
        let values = plan.map_or(1, |plan| u32::from(plan.job.values_per_packet));
        let policy = plan.and_then(Plan::switch_policy).unwrap_or(Policy::Hash);
        Room { policy, slots: LEAST_SLOTS, values }
    };
    Ok(parts::common_room(plans, node)?.unwrap_or_else(only_forwards))
}

fn options(room: Room, node: NodeId, address: SocketAddr) -> SwitchOptions {
    SwitchOptions {
        node,
        policy: room.policy,
        slots: room.slots,
        values_per_packet: room.values as usize,
        address,
        lock_slots: true,
    }
}
