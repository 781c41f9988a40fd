#include "tensors.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "reusable_memory.h"
#include "work.h"

namespace wiresum {

namespace {

using Tensors = std::vector<at::Tensor>;

// Sizes and strides of the dimensions with more than one element, from the smallest stride on.
using Dimensions = std::vector<std::pair<int64_t, int64_t>>;

Dimensions dimensions_of(const at::Tensor &tensor) {
    Dimensions dimensions;
    for (int64_t at = 0; at < tensor.dim(); ++at) {
        if (tensor.size(at) > 1) {
            dimensions.emplace_back(tensor.stride(at), tensor.size(at));
        }
    }
    std::sort(dimensions.begin(), dimensions.end());
    return dimensions;
}

// Whether each stride passes all elements of the smaller ones: then no two elements meet.
bool are_nested(const Dimensions &dimensions) {
    int64_t reach = 0;
    for (const auto &[stride, size] : dimensions) {
        if (stride <= reach) {
            return false;
        }
        reach += stride * (size - 1);
    }
    return true;
}

// Bytes of memory, from the first to behind the last.
struct Span {
    uintptr_t start;
    uintptr_t end;
};

Span span_of(const at::Tensor &tensor) {
    const auto start = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    int64_t last = 0;
    for (const auto &[stride, size] : dimensions_of(tensor)) {
        last += stride * (size - 1);
    }
    return {start, start + static_cast<uintptr_t>((last + 1) * tensor.element_size())};
}

// Which units of a span of memory are taken.
class Taken {
  public:
    Taken(Span span, int64_t unit)
        : start_(span.start), unit_(unit), units_((span.end - span.start) / unit + 1, false) {}

    // Takes the elements; false if one of them meets what is taken.
    bool take(const at::Tensor &tensor) {
        const auto first = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) - start_;
        return take(dimensions_of(tensor), 0, static_cast<int64_t>(first), tensor.element_size());
    }

  private:
    bool take(const Dimensions &dimensions, size_t at, int64_t offset, int64_t width) {
        if (at == dimensions.size()) {
            return take(offset / unit_, width / unit_);
        }
        const auto &[stride, size] = dimensions[at];
        for (int64_t index = 0; index < size; ++index) {
            if (!take(dimensions, at + 1, offset + index * stride * width, width)) {
                return false;
            }
        }
        return true;
    }

    bool take(int64_t first, int64_t count) {
        for (int64_t unit = first; unit < first + count; ++unit) {
            if (units_[unit]) {
                return false;
            }
            units_[unit] = true;
        }
        return true;
    }

    const uintptr_t start_;
    const int64_t unit_;
    std::vector<bool> units_;
};

// Tensors whose spans meet, in a row.
bool do_meet(const Tensors &tensors) {
    Span whole = span_of(tensors[0]);
    int64_t unit = 0;
    for (const at::Tensor &tensor : tensors) {
        whole.end = std::max(whole.end, span_of(tensor).end);
        unit = std::gcd(unit, tensor.element_size());
        unit = std::gcd(unit, static_cast<int64_t>(span_of(tensor).start - whole.start));
    }
    Taken taken(whole, unit);
    return !std::all_of(tensors.begin(), tensors.end(),
                        [&taken](const at::Tensor &tensor) { return taken.take(tensor); });
}

bool shares_memory(const at::Tensor &tensor) {
    return !are_nested(dimensions_of(tensor)) && do_meet({tensor});
}

bool is_in_memory(const at::Tensor &tensor) {
    return tensor.layout() == at::kStrided && tensor.numel() > 0 && tensor.has_storage() &&
           tensor.const_data_ptr() != nullptr;
}

} // namespace

bool do_share_memory(const Tensors &tensors) {
    Tensors sorted;
    std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(sorted), is_in_memory);
    if (std::any_of(sorted.begin(), sorted.end(), shares_memory)) {
        return true;
    }
    const auto start = [](const at::Tensor &tensor) { return tensor.const_data_ptr(); };
    std::sort(sorted.begin(), sorted.end(),
              [start](const at::Tensor &one, const at::Tensor &other) { return start(one) < start(other); });
    Tensors row;
    uintptr_t end = 0;
    for (const at::Tensor &tensor : sorted) {
        const Span span = span_of(tensor);
        if (span.start >= end) {
            if (row.size() > 1 && do_meet(row)) {
                return true;
            }
            row.clear();
        }
        row.push_back(tensor);
        end = std::max(end, span.end);
    }
    return row.size() > 1 && do_meet(row);
}

bool is_dense(const at::Tensor &tensor) {
    return tensor.layout() == at::kStrided && tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_neg() &&
           !tensor.is_conj() && !tensor._is_zerotensor() &&
           reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % tensor.element_size() == 0;
}

at::Tensor dense(const at::Tensor &tensor) {
    if (is_dense(tensor)) {
        return tensor;
    }
    at::NoGradGuard no_grad;
    return ReusableMemory::for_copies().copy(tensor);
}

at::Tensor bytes_of(const at::Tensor &tensor) { return tensor.detach().view(-1).view(at::kByte); }

void make_dense(Request &request, bool takes) {
    const Tensors outputs = request.outputs;
    for (at::Tensor &output : request.outputs) {
        if (takes && !is_dense(output)) {
            const at::Tensor stand_in =
                ReusableMemory::for_copies().empty(output.sizes(), output.scalar_type());
            request.stand_ins.push_back({output, stand_in});
            output = stand_in;
        }
    }
    for (at::Tensor &input : request.inputs) {
        const auto same = std::find_if(outputs.begin(), outputs.end(),
                                       [&input](const at::Tensor &output) { return output.is_same(input); });
        if (same == outputs.end() || !takes || is_dense(input)) {
            input = dense(input);
            continue;
        }
        // In place: what the stand-in holds is summed.
        at::NoGradGuard no_grad;
        at::Tensor stand_in = request.outputs[same - outputs.begin()];
        stand_in.copy_(input);
        input = stand_in;
    }
    if (!request.stand_ins.empty() && request.results.empty()) {
        request.results = outputs;
    }
}

void copy_back(const Request &request) {
    at::NoGradGuard no_grad;
    const c10::InferenceMode mode; // the caller's tensors may be of it
    for (const StandIn &pair : request.stand_ins) {
        pair.output.detach().copy_(pair.dense);
    }
}

const Tensors &results_of(const Request &request) {
    return request.results.empty() ? request.outputs : request.results;
}

namespace {

// Whether each tensor's memory begins where that of the one before ends, in one allocation.
bool are_adjacent(const Tensors &tensors) {
    const char *end = nullptr;
    for (const at::Tensor &tensor : tensors) {
        const auto *start = static_cast<const char *>(tensor.const_data_ptr());
        if (!tensor.is_contiguous() || !tensor.is_alias_of(tensors[0]) || (end != nullptr && start != end)) {
            return false;
        }
        end = start + tensor.nbytes();
    }
    return true;
}

// All of them as one tensor, where they are adjacent.
at::Tensor joined(const Tensors &tensors) {
    return tensors[0].detach().as_strided({static_cast<int64_t>(size_of(tensors).elements)}, {1});
}

at::Tensor room_for_all(const Tensors &tensors) {
    return ReusableMemory::for_copies().empty({static_cast<int64_t>(size_of(tensors).elements)},
                                              tensors[0].scalar_type());
}

} // namespace

at::Tensor values_of(const Tensors &tensors) {
    if (tensors.size() == 1) {
        return tensors[0].detach();
    }
    if (are_adjacent(tensors)) {
        return joined(tensors);
    }
    at::Tensor flat = room_for_all(tensors);
    int64_t offset = 0;
    for (const at::Tensor &tensor : tensors) {
        bytes_of(flat.narrow(0, offset, tensor.numel())).copy_(bytes_of(tensor)); // for types without copy_
        offset += tensor.numel();
    }
    return flat;
}

namespace {

// What a rank gives that gives nothing: as many elements as the root has, none of which is anywhere.
at::Tensor nothing_like(const Tensors &tensors) {
    const auto elements = static_cast<int64_t>(size_of(tensors).elements);
    return at::empty({1}, tensors[0].options()).expand({elements});
}

// Whether two contiguous tensors have a byte in common.
bool overlap(const at::Tensor &a, const at::Tensor &b) {
    const auto *a_start = static_cast<const char *>(a.const_data_ptr());
    const auto *b_start = static_cast<const char *>(b.const_data_ptr());
    return a_start < b_start + b.nbytes() && b_start < a_start + a.nbytes();
}

// Where results go: the user's memory where it is one contiguous tensor already.
at::Tensor room_for(const Tensors &outputs) {
    if (outputs.size() == 1) {
        return outputs[0].detach();
    }
    if (outputs.size() > 1 && are_adjacent(outputs)) {
        return joined(outputs);
    }
    return room_for_all(outputs);
}

// This rank's place in something that has one for each rank.
at::Tensor place_in(const at::Tensor &whole, int rank, int64_t length) {
    return whole.view(-1).narrow(0, rank * length, length);
}

// A source that is not at this place of the sink, and shares memory with it, is copied.
void part(Ends &ends, const void *place) {
    if (overlap(ends.source, ends.sink) && ends.source.const_data_ptr() != place) {
        ends.source = ReusableMemory::for_copies().copy(ends.source);
    }
}

} // namespace

Ends ends_of(const Request &request, int rank) {
    at::NoGradGuard no_grad;
    const bool takes = takes_part(request, rank);
    const bool gives = gives_part(request, rank);
    Ends ends{gives ? values_of(request.inputs) : nothing_like(request.inputs), {}};
    ends.sink = ends.source;
    switch (request.kind) {
    case WIRESUM_ALL_GATHER:
    case WIRESUM_GATHER:
        if (takes) {
            ends.sink = room_for(request.outputs);
            const at::Tensor own = place_in(ends.sink, rank, ends.source.numel());
            part(ends, own.const_data_ptr());
            if (ends.source.const_data_ptr() != own.const_data_ptr()) {
                bytes_of(own).copy_(bytes_of(ends.source));
            }
        }
        break;
    case WIRESUM_SCATTER:
        ends.sink = room_for(request.outputs);
        if (gives) {
            part(ends, nullptr);
            bytes_of(ends.sink).copy_(bytes_of(place_in(ends.source, rank, ends.sink.numel())));
        }
        break;
    case WIRESUM_REDUCE_SCATTER: {
        ends.sink = room_for(request.outputs);
        const auto *own = static_cast<const char *>(ends.source.const_data_ptr()) + rank * ends.sink.nbytes();
        if (overlap(ends.source, ends.sink) && ends.sink.const_data_ptr() != own) {
            ends.source = ReusableMemory::for_copies().copy(ends.source);
        }
        break;
    }
    case WIRESUM_AGREEMENT:
        ends.sink = room_for(request.outputs);
        part(ends, nullptr);
        break;
    default:
        break;
    }
    return ends;
}

void spread(const Request &request, const at::Tensor &sink) {
    at::NoGradGuard no_grad;
    const c10::InferenceMode mode; // the caller's tensors may be of it
    int64_t offset = 0;
    for (const at::Tensor &output : request.outputs) {
        if (output.is_alias_of(sink)) {
            return;
        }
        bytes_of(output).copy_(bytes_of(sink.reshape(-1).narrow(0, offset, output.numel())));
        offset += output.numel();
    }
}

void divide_average(const Request &request, at::Tensor &sums, int64_t ranks) {
    if (request.operation.op_ == c10d::ReduceOp::AVG && !is_copy(request.kind) &&
        c10::isIntegralType(sums.scalar_type(), /*includeBool=*/false)) {
        at::NoGradGuard no_grad;
        sums.div_(ranks, "trunc");
    }
}

} // namespace wiresum
