#include "sealed_sums.h"

#include <algorithm>
#include <functional>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "rank_order.h"

namespace wiresum {

namespace {

// Bytes of values that are on their way at once: messages and rows take about three times this memory.
constexpr int64_t kSliceBytes = 8 << 20;
// Up to here every rank sends all its values to every other one, which takes one step in place of two.
constexpr int64_t kSmallBytes = 16 << 10;
// Dimensions of a sparse tensor, its own bound in PyTorch's Gloo doubled.
constexpr int64_t kMostDimensions = 16;

// Calls `visit` with the start and the length of each slice, in elements.
void in_slices(int64_t elements, int64_t most_bytes, int64_t element_bytes,
               const std::function<void(int64_t, int64_t)> &visit) {
    const int64_t length = std::max<int64_t>(1, most_bytes / element_bytes);
    int64_t start = 0;
    do {
        visit(start, std::min(length, elements - start));
        start += length;
    } while (start < elements);
}

SealedLink::Bytes memory_of_each(const std::vector<at::Tensor> &tensors) {
    SealedLink::Bytes bytes;
    for (const at::Tensor &tensor : tensors) {
        bytes.push_back(memory_of(tensor));
    }
    return bytes;
}

at::Tensor reduce_rows(SealedLink &link, SealedLink::Step &step, const std::vector<at::Tensor> &parts,
                       const c10d::ReduceOp &operation) {
    const at::Tensor &own = parts[link.rank()];
    const at::Tensor rows = at::empty({link.size(), own.numel()}, own.options());
    link.exchange(step, memory_of_each(parts), memory_of_each(rows.unbind()));
    return reduce_in_rank_order(rows, operation);
}

at::Tensor all_rows(SealedLink &link, SealedLink::Step &step, const at::Tensor &flat) {
    const at::Tensor rows = at::empty({link.size(), flat.numel()}, flat.options());
    link.all_gather(step, memory_of(flat), memory_of_each(rows.unbind()));
    return rows;
}

// Equal parts of a run, but for the last ones, which may be shorter or empty.
std::vector<at::Tensor> parts_of(const at::Tensor &run, int64_t length, int ranks) {
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < ranks; ++rank) {
        const int64_t start = std::min(rank * length, run.numel());
        parts.push_back(run.narrow(0, start, std::min(length, run.numel() - start)));
    }
    return parts;
}

int64_t part_length(const at::Tensor &run, int ranks) { return (run.numel() + ranks - 1) / ranks; }

// Gives every rank the parts that the ranks have summed.
void spread(SealedLink &link, SealedLink::Step &step, const at::Tensor &sum,
            const std::vector<at::Tensor> &parts, int64_t length) {
    const auto whole = [length](const at::Tensor &part) {
        return part.numel() == length ? part : at::zeros({length}, part.options());
    };
    std::vector<at::Tensor> sinks;
    std::transform(parts.begin(), parts.end(), std::back_inserter(sinks), whole);
    const at::Tensor own = whole(sum);
    own.narrow(0, 0, sum.numel()).copy_(sum);
    link.all_gather(step, memory_of(own), memory_of_each(sinks));
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        if (!sinks[rank].is_same(parts[rank])) {
            at::Tensor(parts[rank]).copy_(sinks[rank].narrow(0, 0, parts[rank].numel()));
        }
    }
}

} // namespace

void sum_everywhere(SealedLink &link, SealedLink::Step &step, const at::Tensor &flat,
                    const c10d::ReduceOp &operation) {
    if (static_cast<int64_t>(flat.nbytes()) <= kSmallBytes) {
        at::Tensor(flat).copy_(reduce_in_rank_order(all_rows(link, step, flat), operation));
        return;
    }
    in_slices(flat.numel(), kSliceBytes, flat.element_size(), [&](int64_t start, int64_t elements) {
        const at::Tensor run = flat.narrow(0, start, elements);
        const int64_t length = part_length(run, link.size());
        const std::vector<at::Tensor> parts = parts_of(run, length, link.size());
        spread(link, step, reduce_rows(link, step, parts, operation), parts, length);
    });
}

void sum_at_root(SealedLink &link, SealedLink::Step &step, int root, const at::Tensor &flat,
                 const c10d::ReduceOp &operation) {
    in_slices(flat.numel(), kSliceBytes, flat.element_size(), [&](int64_t start, int64_t elements) {
        const at::Tensor run = flat.narrow(0, start, elements);
        const std::vector<at::Tensor> parts = parts_of(run, part_length(run, link.size()), link.size());
        const at::Tensor sum = reduce_rows(link, step, parts, operation);
        SealedLink::Bytes sent(link.size());
        sent[root] = memory_of(sum);
        link.exchange(step, sent,
                      link.rank() == root ? memory_of_each(parts) : SealedLink::Bytes(link.size()));
    });
}

void sum_own_part(SealedLink &link, SealedLink::Step &step, const std::vector<at::Tensor> &parts,
                  const at::Tensor &sum, const c10d::ReduceOp &operation) {
    const int64_t most = kSliceBytes / link.size();
    in_slices(sum.numel(), most, sum.element_size(), [&](int64_t start, int64_t elements) {
        std::vector<at::Tensor> slices;
        for (const at::Tensor &part : parts) {
            slices.push_back(part.narrow(0, start, elements));
        }
        at::Tensor(sum).narrow(0, start, elements).copy_(reduce_rows(link, step, slices, operation));
    });
}

void gather_everywhere(SealedLink &link, SealedLink::Step &step, const at::Tensor &mine,
                       const SealedLink::Bytes &taken) {
    in_slices(mine.numel(), kSliceBytes / link.size(), 1, [&](int64_t start, int64_t length) {
        SealedLink::Bytes slices;
        for (const at::Tensor &bytes : taken) {
            slices.push_back(bytes.narrow(0, start, length));
        }
        link.all_gather(step, mine.narrow(0, start, length), slices);
    });
}

void copy_from_root(SealedLink &link, SealedLink::Step &step, int root, const at::Tensor &bytes) {
    in_slices(bytes.numel(), kSliceBytes, 1, [&](int64_t start, int64_t length) {
        link.broadcast(step, root, bytes.narrow(0, start, length));
    });
}

// Ranks tell each other the shapes first, then pad indices and values to the longest.
at::Tensor sum_sparse(SealedLink &link, SealedLink::Step &step, const at::Tensor &mine) {
    TORCH_CHECK(mine.dim() <= kMostDimensions, "wiresum: a sparse tensor has at most ", kMostDimensions,
                " dimensions.");
    at::Tensor shape = at::zeros({kMostDimensions + 2}, at::kLong);
    shape[0] = mine._nnz();
    shape[1] = mine.sparse_dim();
    for (int64_t dimension = 0; dimension < mine.dim(); ++dimension) {
        shape[dimension + 2] = mine.size(dimension);
    }
    const at::Tensor shapes = all_rows(link, step, shape);
    TORCH_CHECK(shapes.narrow(1, 1, kMostDimensions + 1)
                    .eq(shape.narrow(0, 1, kMostDimensions + 1))
                    .all()
                    .item<bool>(),
                "wiresum: the ranks passed sparse tensors of different shapes.");
    const at::Tensor counts = shapes.select(1, 0).contiguous();
    const int64_t longest = std::max<int64_t>(1, counts.max().item<int64_t>());
    const auto gathered = [&](const at::Tensor &entries) { // one for each row
        std::vector<int64_t> sizes = entries.sizes().vec();
        sizes[0] = longest;
        at::Tensor padded = at::zeros(sizes, entries.options());
        padded.narrow(0, 0, entries.size(0)).copy_(entries);
        std::vector<at::Tensor> rows(link.size());
        std::generate(rows.begin(), rows.end(), [&] { return at::empty_like(padded); });
        gather_everywhere(link, step, memory_of(padded), memory_of_each(rows));
        for (int rank = 0; rank < link.size(); ++rank) {
            rows[rank] = rows[rank].narrow(0, 0, counts[rank].item<int64_t>());
        }
        return at::cat(rows);
    };
    const at::Tensor indices = gathered(mine._indices().t().contiguous()).t();
    const at::Tensor values = gathered(mine._values().contiguous());
    return at::_sparse_coo_tensor_unsafe(indices, values, mine.sizes()).coalesce();
}

} // namespace wiresum
