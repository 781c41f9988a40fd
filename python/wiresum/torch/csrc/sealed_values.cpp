#include "sealed_values.h"

#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace wiresum {

namespace {

int64_t elements_of(const std::vector<at::Tensor> &tensors) {
    int64_t elements = 0;
    for (const at::Tensor &tensor : tensors) {
        TORCH_CHECK(tensor.layout() == at::kStrided, "wiresum: this collective takes no sparse tensors.");
        TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(),
                    "wiresum: the tensors of one collective must have one type.");
        elements += tensor.numel();
    }
    return elements;
}

} // namespace

// Memory is written as Gloo writes it: autograd does not see it.
HostValues::HostValues(std::vector<at::Tensor> tensors, bool reads)
    : tensors_(std::move(tensors)),
      is_in_place_(tensors_.size() == 1 && tensors_[0].is_cpu() && tensors_[0].is_contiguous() &&
                   tensors_[0].layout() == at::kStrided) {
    at::NoGradGuard no_grad;
    TORCH_CHECK(!tensors_.empty(), "wiresum: a collective needs a tensor.");
    const int64_t elements = elements_of(tensors_);
    const auto options = at::TensorOptions(tensors_[0].scalar_type());
    if (is_in_place_ && elements > 0) {
        flat_ = at::from_blob(tensors_[0].mutable_data_ptr(), {elements}, options);
        return;
    }
    flat_ = at::empty({elements}, options);
    int64_t offset = 0;
    for (const at::Tensor &tensor : tensors_) {
        if (reads) {
            flat_.narrow(0, offset, tensor.numel()).view(tensor.sizes()).copy_(tensor);
        }
        offset += tensor.numel();
    }
}

void HostValues::write_back() const {
    if (is_in_place_) {
        return;
    }
    at::NoGradGuard no_grad;
    int64_t offset = 0;
    for (const at::Tensor &tensor : tensors_) {
        tensor.detach().copy_(flat_.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
        offset += tensor.numel();
    }
}

HostParts HostParts::of_lists(const std::vector<std::vector<at::Tensor>> &lists, bool reads) {
    HostParts parts;
    for (const auto &list : lists) {
        parts.owners.push_back(std::make_shared<HostValues>(list, reads));
        parts.flat.push_back(parts.owners.back()->flat());
    }
    return parts;
}

HostParts HostParts::of_whole(const at::Tensor &whole, const std::vector<int64_t> &lengths, bool reads) {
    HostParts parts;
    parts.owners.push_back(std::make_shared<HostValues>(std::vector<at::Tensor>{whole}, reads));
    const int64_t all = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    TORCH_CHECK(all == whole.numel(), "wiresum: the parts of a tensor with ", whole.numel(),
                " elements have ", all, " elements together.");
    int64_t offset = 0;
    for (const int64_t length : lengths) {
        parts.flat.push_back(parts.owners[0]->flat().narrow(0, offset, length));
        offset += length;
    }
    return parts;
}

HostParts HostParts::of_whole(const at::Tensor &whole, int parts, bool reads) {
    TORCH_CHECK(whole.numel() % parts == 0, "wiresum: a tensor with ", whole.numel(),
                " elements has no equal parts for ", parts, " ranks.");
    return of_whole(whole, std::vector<int64_t>(parts, whole.numel() / parts), reads);
}

HostParts HostParts::of_one(const std::vector<at::Tensor> &tensors, int rank, int ranks, bool reads) {
    HostParts parts;
    parts.owners.push_back(std::make_shared<HostValues>(tensors, reads));
    parts.flat.resize(ranks);
    parts.flat.at(rank) = parts.owners[0]->flat();
    return parts;
}

SealedLink::Bytes HostParts::bytes() const {
    SealedLink::Bytes bytes;
    for (const at::Tensor &part : flat) {
        bytes.push_back(part.defined() ? memory_of(part) : at::Tensor());
    }
    return bytes;
}

void HostParts::write_back() const {
    for (const auto &owner : owners) {
        owner->write_back();
    }
}

} // namespace wiresum
