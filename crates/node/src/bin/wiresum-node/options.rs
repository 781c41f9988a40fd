//! Which options which kind of daemon cannot honour. None is ignored: it is refused, and says why.

use crate::arguments::{Arguments, EngineChoice};
use crate::exit::Failure;

/// What a daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// A switch or parameter server, not an aggregator.
    pub is_station: bool,
    /// What sums, as in a plan.
    pub engine: &'static str,
}

impl Kind {
    fn runs_on_interfaces(self) -> bool {
        matches!(self.engine, "xdp" | "af_xdp")
    }
}

struct Refusal {
    option: &'static str,
    is_given: fn(&Arguments) -> bool,
    at: fn(Kind) -> bool,
    reason: &'static str,
}

const NO_PROGRAM: &str = "this engine runs no program on interfaces; choose --engine xdp";
const NO_RATES: &str = "at switches no rates are negotiated: workers find theirs by loss and delay";
const OWN_CONTROL: &str = "TCP's own flow control replaces quotas";

const ONE_THREAD: &str = "several threads serve jobs of the engine udp alone";

const REFUSALS: [Refusal; 7] = [
    Refusal {
        option: "--interface",
        is_given: |a| !a.interfaces.is_empty() && a.engine != EngineChoice::Auto,
        at: |kind| !kind.runs_on_interfaces(),
        reason: NO_PROGRAM,
    },
    Refusal {
        option: "--generic",
        is_given: |a| a.generic && a.engine != EngineChoice::Auto,
        at: |kind| !kind.runs_on_interfaces(),
        reason: NO_PROGRAM,
    },
    Refusal {
        option: "--threads",
        is_given: |a| a.threads.is_some_and(|count| count > 1) && a.engine != EngineChoice::Auto,
        at: |kind| kind.is_station || kind.engine != "udp",
        reason: ONE_THREAD,
    },
    Refusal {
        option: "--ingress-bps",
        is_given: |a| a.ingress_bps.is_some(),
        at: |kind| kind.is_station,
        reason: NO_RATES,
    },
    Refusal {
        option: "--egress-bps",
        is_given: |a| a.egress_bps.is_some(),
        at: |kind| kind.is_station,
        reason: NO_RATES,
    },
    Refusal {
        option: "--quota",
        is_given: |a| !a.quotas.is_empty(),
        at: |kind| kind.engine == "tcp",
        reason: OWN_CONTROL,
    },
    Refusal {
        option: "--rate",
        is_given: |a| a.rate.is_some(),
        at: |kind| kind.engine == "tcp",
        reason: OWN_CONTROL,
    },
];

/// Refuses the first option that this kind of daemon cannot honour.
pub fn check(arguments: &Arguments, kind: Kind) -> Result<(), Failure> {
    match REFUSALS.iter().find(|refusal| (refusal.is_given)(arguments) && (refusal.at)(kind)) {
        Some(Refusal { option, reason, .. }) => {
            Err(Failure::Usage(format!("leave {option} out: {reason}")))
        }
        None => Ok(()),
    }
}
