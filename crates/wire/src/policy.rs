//! The slot policies: where a fragment's slot is, and what becomes of a fragment that finds none.
//!
//! [`policies!`](crate::policies) is the one list. A policy's own programs are `crates/switch/src/policy/MODULE.rs`,
//! `bpf/switch/policy_KERNEL.h` and `p4/policies/NAME.p4`; whatever else needs to know a policy asks for its properties.

/// The list of policies: hands each row to the macro that is named, for what must be made of every one.
///
/// A row is documentation, variant, name, module in Rust, program in the kernel, and properties: see [`Policy`](crate::Policy).
#[macro_export]
macro_rules! policies {
    ($each:ident) => {
        $each! {
            /// SwitchML: two versions of a slot, clocked by the window.
            Pool "pool" pool, "versions": { server: Never, addressed: false, shared: false, exact: true, clocked: true, copies: 2 };
            /// ATP: slots by hash, first come, first served; what collides goes to the parameter server.
            Hash "hash" hash, "hash": { server: Always, addressed: false, shared: true, exact: true, clocked: false, copies: 1 };
            /// ESA: as ATP, but the more urgent fragment has the slot.
            Preempt "preempt" preempt, "preempt": { server: Always, addressed: false, shared: true, exact: true, clocked: false, copies: 1 };
            /// GOAT: each fragment its own slot at the switch that it is addressed to.
            Exclusive "exclusive" exclusive, "exclusive": { server: Always, addressed: true, shared: false, exact: true, clocked: false, copies: 1 };
            /// InGo: registers named by the packet, complete when every contributor's bit is in.
            Register "register" register, "register": { server: Always, addressed: true, shared: false, exact: true, clocked: false, copies: 1 };
            /// InGo as printed: complete when the sum of worker numbers is reached. **Sums may be wrong**; for showing that.
            RegisterCounter "register-counter" counter, "counter": { server: Always, addressed: true, shared: false, exact: false, clocked: false, copies: 1 };
            /// P4INC-AOI: a job's own segment, a copy of the last result in each slot, marks for who is early.
            Segment "segment" segment, "segment": { server: AsPlanned, addressed: false, shared: false, exact: true, clocked: false, copies: 2 };
            /// XAgg: a slot for each fragment of the gradient.
            Cache "cache" cache, "versions": { server: Never, addressed: false, shared: false, exact: true, clocked: true, copies: 2 };
        }
    };
}

/// Whether a parameter server completes what switches did not sum; otherwise the topmost switch has the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerNeed {
    /// Without one: the topmost switch has every contribution.
    Never,
    /// Always: switches may leave any sum unfinished.
    Always,
    /// The plan decides: a job has one if its workers are below several switches.
    AsPlanned,
}

impl ServerNeed {
    /// Whether a stream with a server, or without one, is right.
    #[must_use]
    pub fn allows(self, has_server: bool) -> bool {
        match self {
            Self::Never => !has_server,
            Self::Always => has_server,
            Self::AsPlanned => true,
        }
    }
}

macro_rules! declare {
    ($(
        #[doc = $doc:literal]
        $variant:ident $name:literal $module:ident, $kernel:literal: {
            server: $server:ident, addressed: $addressed:literal, shared: $shared:literal, exact: $exact:literal,
            clocked: $clocked:literal, copies: $copies:literal
        };
    )+) => {
        /// What a switch does with fragments; `spec/switch.md` has the tables.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        pub enum Policy {
            $(#[doc = $doc] #[serde(rename = $name)] $variant,)+
        }

        impl Policy {
            /// Every policy.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Its name in plans, reports and traces.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it is, in a line.
            #[must_use]
            pub fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)+ }
            }

            /// The part of its header's name in `bpf/switch` that tells it from others; policies with the same rows share one.
            #[must_use]
            pub fn kernel_program(self) -> &'static str {
                match self { $(Self::$variant => $kernel,)+ }
            }

            /// Whether a parameter server completes its sums.
            #[must_use]
            pub fn server(self) -> ServerNeed {
                match self { $(Self::$variant => ServerNeed::$server,)+ }
            }

            /// Whether packets name the switch that is to sum them; otherwise every switch on the way does that knows the stream.
            #[must_use]
            pub fn is_addressed(self) -> bool {
                match self { $(Self::$variant => $addressed,)+ }
            }

            /// Whether streams may be given the same slots; otherwise the plan keeps them apart.
            #[must_use]
            pub fn shares_slots(self) -> bool {
                match self { $(Self::$variant => $shared,)+ }
            }

            /// Whether every result is right, whatever the network does.
            #[must_use]
            pub fn is_exact(self) -> bool {
                match self { $(Self::$variant => $exact,)+ }
            }

            /// Whether only a result lets a slot's next fragment in: windows lie within the slots, which are a power of two.
            #[must_use]
            pub fn is_clocked(self) -> bool {
                match self { $(Self::$variant => $clocked,)+ }
            }

            /// How often a slot holds values: twice where it has two versions, or the sum and the last result.
            #[must_use]
            pub fn copies(self) -> u32 {
                match self { $(Self::$variant => $copies,)+ }
            }
        }
    };
}

policies!(declare);

impl Policy {
    /// Whether a parameter server must complete its sums.
    #[must_use]
    pub fn needs_server(self) -> bool {
        self.server() == ServerNeed::Always
    }

    /// The policy of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
