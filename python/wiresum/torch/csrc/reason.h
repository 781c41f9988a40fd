// Where a collective was summed, or why not in the network.
#pragma once

#include <array>
#include <cstdint>

namespace wiresum {

// `wiresum.torch.Reason` mirrors these by name and explains them.
enum class Reason : uint8_t {
    Pending,     // not over yet
    Summed,      // summed in the network
    Collective,  // one that the network does not take
    ElementType, // neither f32, f16 nor bf16
    Operation,   // neither SUM nor AVG
    Device,      // in other memory than that of CPUs or of one NVIDIA GPU
    Layout,      // sparse, overlapping, or of mixed types
    TooSmall,    // fewer elements than the threshold
    NoNetwork,   // this group is not connected to an aggregator
    NotFinite,   // Inf or NaN on some rank: Gloo repeated it
    Unforeseen,  // exponents were not those expected: Gloo repeated it
    NotServed,   // the job has no turn in the network: Gloo summed it
    Failed,      // ended in an exception
    Missed,      // summed in the network without this rank's values, which were late
    Gathered,    // rows of a sparse tensor: Gloo gathered them, as that moved fewer bytes
    Copied,      // copied by the network to those who take it
    Shared,      // all ranks' bytes came with the packets that open a collective; each rank reduced them
};

inline constexpr std::array<const char *, 17> kReasonNames = {
    "pending", "summed",    "collective", "element_type", "operation",  "device",
    "layout",  "too_small", "no_network", "not_finite",   "unforeseen", "not_served",
    "failed",  "missed",    "gathered",   "copied",       "shared",
};

inline const char *name_of(Reason reason) { return kReasonNames.at(static_cast<size_t>(reason)); }

} // namespace wiresum
