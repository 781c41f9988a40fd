//! Which transport a worker takes on this host, and why not the other.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::str::FromStr;

use wiresum_protocol::Plan;
use wiresum_protocol::plan::Child;
use wiresum_xdp::{AfXdp, AttachMode, require_a_page};

use super::interfaces;
use super::udp::under_way;

/// What a worker is told of transports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Datagrams: a program that comes to an interface may stop its link for a moment, and frames pass queues that shape.
    #[default]
    Auto,
    /// Datagrams.
    Udp,
    /// Frames where they can be had, or else datagrams.
    AfXdp,
}

impl FromStr for Preference {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            "udp" => Ok(Self::Udp),
            "af_xdp" => Ok(Self::AfXdp),
            _ => Err(format!("there is no transport `{name}`: use `auto`, `udp` or `af_xdp`")),
        }
    }
}

/// Sockets for frames between this rank and its nodes, with words for people; or why there are none.
///
/// `local` is where the rank's UDP socket is bound.
pub fn open_frames(
    plan: &Plan,
    rank: u32,
    local: SocketAddr,
    preference: Preference,
) -> Result<(AfXdp, String), String> {
    match preference {
        Preference::Auto => return Err("AF_XDP has to be asked for".to_owned()),
        Preference::Udp => return Err("it was asked for".to_owned()),
        Preference::AfXdp if plan.fabric.is_some() => {
            return Err("switches know no other way".to_owned());
        }
        Preference::AfXdp => {}
    }
    require_a_page(plan).map_err(|error| error.to_string())?;
    let addresses = own_addresses(plan, rank, local)?;
    let names = addresses.iter().map(|address| interface(address.ip()));
    let names = names.collect::<Result<BTreeSet<_>, _>>()?.into_iter().collect::<Vec<_>>();
    let opened = AfXdp::open(&names, &addresses, under_way(plan), AttachMode::Native);
    let frames = opened.map_err(|error| error.to_string())?;
    let copies = if frames.zero_copy_ports() == frames.port_count() { "" } else { ", copied" };
    let said = format!("AF_XDP frames of {}{copies}", names.join(" and "));
    Ok((frames, said))
}

/// Where answers of this rank's nodes arrive.
fn own_addresses(plan: &Plan, rank: u32, local: SocketAddr) -> Result<Vec<SocketAddr>, String> {
    let towards = |node| Some((node, towards(local, node)?));
    let ways: Vec<_> = nodes(plan, rank).into_iter().filter_map(towards).collect();
    if ways.is_empty() {
        return Err("this host has no route to a node".to_owned());
    }
    let away = ways.into_iter().filter(|(node, own)| node.ip() != own.ip());
    let addresses: BTreeSet<_> = away.map(|(_, own)| own).collect();
    if addresses.is_empty() {
        return Err("its nodes are on the same host".to_owned());
    }
    Ok(addresses.into_iter().collect())
}

fn interface(address: IpAddr) -> Result<String, String> {
    if address.to_canonical().is_loopback() {
        return Err("the loopback interface has no native XDP".to_owned());
    }
    interfaces::with_address(address)
        .ok_or_else(|| format!("no interface has the address {address}"))
}

/// Addresses of the nodes that a rank sends to.
fn nodes(plan: &Plan, rank: u32) -> Vec<SocketAddr> {
    let parents = plan.streams.iter().filter_map(|s| s.parent_of(Child::Worker(rank)));
    parents.filter_map(|(node, _)| plan.node(node)).map(|node| node.address).collect()
}

/// The address and port at which what a node answers arrives; `None` if there is no way to it.
fn towards(local: SocketAddr, node: SocketAddr) -> Option<SocketAddr> {
    if !local.ip().is_unspecified() {
        return Some(local);
    }
    // Connecting a UDP socket sends nothing; it only asks for a route.
    let probe = UdpSocket::bind(SocketAddr::new(local.ip(), 0)).ok()?;
    probe.connect(node).ok()?;
    let ip: IpAddr = probe.local_addr().ok()?.ip();
    Some(SocketAddr::new(ip, local.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_longer_than_a_page_go_by_udp() {
        let text = include_str!("../../../../protocol/tests/plans/tree.json");
        let mut plan = Plan::from_json(text).expect("a valid plan");
        plan.job.values_per_packet = 2232;
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let refusal = open_frames(&plan, 0, local, Preference::AfXdp).err().expect("UDP");
        assert!(refusal.contains("packets of 2232 values"), "{refusal}");
    }
}
