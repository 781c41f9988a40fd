// Values of collectives as contiguous runs on the host, which can be encrypted and reduced there.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "sealed_link.h"

namespace wiresum {

// The values of some tensors, one after another: their own memory if that is one run on the host.
class HostValues {
  public:
    // If it `reads`, it starts with the tensors' values. On a GPU they are copied now.
    HostValues(std::vector<at::Tensor> tensors, bool reads);

    const at::Tensor &flat() const { return flat_; }
    // Copies the values back to tensors with memory of their own.
    void write_back() const;

  private:
    const std::vector<at::Tensor> tensors_;
    bool is_in_place_;
    at::Tensor flat_;
};

// One run of values for each rank, some of which may share memory.
struct HostParts {
    std::vector<std::shared_ptr<HostValues>> owners;
    std::vector<at::Tensor> flat; // by rank; undefined if this rank has none

    // One part for each list.
    static HostParts of_lists(const std::vector<std::vector<at::Tensor>> &lists, bool reads);
    // Parts of one tensor, with so many elements each.
    static HostParts of_whole(const at::Tensor &whole, const std::vector<int64_t> &lengths, bool reads);
    // Equal parts of one tensor.
    static HostParts of_whole(const at::Tensor &whole, int parts, bool reads);
    // One part, of this rank among so many.
    static HostParts of_one(const std::vector<at::Tensor> &tensors, int rank, int ranks, bool reads);

    SealedLink::Bytes bytes() const;
    void write_back() const;
};

} // namespace wiresum
