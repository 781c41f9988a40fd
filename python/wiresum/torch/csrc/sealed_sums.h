// Sums and copies over encrypted messages, with bounded memory.
#pragma once

#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "sealed_link.h"

namespace wiresum {

// Reduces the ranks' values, in the order of the ranks: every rank gets the same bits.
void sum_everywhere(SealedLink &link, SealedLink::Step &step, const at::Tensor &flat,
                    const c10d::ReduceOp &operation);

// The same, for the root only; other ranks keep their values.
void sum_at_root(SealedLink &link, SealedLink::Step &step, int root, const at::Tensor &flat,
                 const c10d::ReduceOp &operation);

// Reduces all ranks' parts for this rank into `sum`. `parts` has one run for each rank.
void sum_own_part(SealedLink &link, SealedLink::Step &step, const std::vector<at::Tensor> &parts,
                  const at::Tensor &sum, const c10d::ReduceOp &operation);

// Copies every rank's bytes to all ranks.
void gather_everywhere(SealedLink &link, SealedLink::Step &step, const at::Tensor &mine,
                       const SealedLink::Bytes &taken);

// Copies the root's bytes to all ranks.
void copy_from_root(SealedLink &link, SealedLink::Step &step, int root, const at::Tensor &bytes);

// The sum of sparse tensors. This rank's is coalesced, and on the host.
at::Tensor sum_sparse(SealedLink &link, SealedLink::Step &step, const at::Tensor &mine);

} // namespace wiresum
