// What ranks compare before Gloo carries a collective: its signature, and whether each rank can take part in
// it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "pending_work.h"

namespace wiresum {

// Why a rank cannot take part in a collective. The numbers are those of WIRESUM_AGREEMENT.
enum class Refusal : uint8_t {
    None = 0,
    SharedMemory = 1, // outputs share memory
    Unsupported = 2,  // the type cannot be reduced, or not by this operation
    Misfit = 3,       // lists, lengths, types or the root do not fit
};

// Whether this rank can take part in a collective. `fits` says whether its lists and lengths do.
Refusal refusal_of(const Request &request, bool fits, int rank);

// What all ranks have to pass alike, as it travels. Plain bytes without gaps.
struct Signature {
    uint16_t collective; // wiresum_kind; or kGlooOnly and c10d::OpType
    uint8_t type;        // at::ScalarType
    uint8_t operation;   // c10d::ReduceOp::RedOpType; kNothing if nothing is reduced
    Refusal refusal;
    uint8_t is_uneven; // this rank's split sizes are its own
    uint16_t unused;
    int64_t root;
    int64_t elements; // of a rank: its share, or the whole tensor
    int64_t tensors;  // in a call that takes several
};
static_assert(sizeof(Signature) == 32);

// Collectives that no stream of the network has a kind for.
inline constexpr uint16_t kGlooOnly = 64;
inline constexpr uint8_t kNothing = 255;

Signature signature_of(const Request &request, Refusal refusal, bool is_uneven);

// The signature as a tensor of bytes.
at::Tensor bytes_of_signature(const Signature &signature);

// Throws what all ranks throw alike, if they cannot carry the collective together. `rows` has the signature
// of each of these ranks.
void check_signatures(const Request &request, const at::Tensor &rows, const std::vector<int> &ranks,
                      const std::string &description);

// Whether ranks have to compare their split sizes as well.
bool has_uneven(const at::Tensor &rows);

// Throws if a rank does not send as many elements to another one as that expects. `rows` has the sizes of
// each rank: those that it sends, then those that it receives.
void check_splits(const at::Tensor &rows, const std::string &description);

// An error of the network's in words, with the names of types in place of their numbers.
std::string with_type_names(const std::string &message);

} // namespace wiresum
