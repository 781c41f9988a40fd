// Tensors of a call as the network and Gloo take them: dense, and in memory of the host.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "pending_work.h"

namespace wiresum {

// Whether the elements lie one behind the other in memory of the host, each aligned to its size.
bool is_dense(const at::Tensor &tensor);

// The tensor, or a dense copy.
at::Tensor dense(const at::Tensor &tensor);

// A dense tensor as bytes.
at::Tensor bytes_of(const at::Tensor &tensor);

// Whether two elements of these tensors, or of one of them, share memory. Exact for every layout.
bool do_share_memory(const std::vector<at::Tensor> &tensors);

// Replaces inputs by dense ones. Outputs that are not dense have stand-ins, which `copy_back` copies from.
void make_dense(Request &request, bool takes);

// Copies stand-ins to the caller's tensors.
void copy_back(const Request &request);

// The caller's own tensors with the results.
const std::vector<at::Tensor> &results_of(const Request &request);

// One dense tensor with the elements of all: the caller's own memory where they lie there one behind the
// other already.
at::Tensor values_of(const std::vector<at::Tensor> &tensors);

// Contiguous memory that a collective reads, and that its results go to; the same where it works in place.
struct Ends {
    at::Tensor source;
    at::Tensor sink;
};

// The ends of a collective of dense tensors. This rank's own share is in its place already.
Ends ends_of(const Request &request, int rank);

// Copies results from the sink to the outputs, unless they are there.
void spread(const Request &request, const at::Tensor &sink);

// Turns sums of integers into averages, rounded toward zero as NCCL rounds them.
void divide_average(const Request &request, at::Tensor &sums, int64_t ranks);

} // namespace wiresum
