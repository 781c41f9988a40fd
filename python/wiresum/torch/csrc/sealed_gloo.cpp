#include "sealed_gloo.h"

#include <algorithm>
#include <future>
#include <numeric>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "errors.h"
#include "pending_work.h"
#include "rank_order.h"
#include "sealed_sums.h"
#include "sealed_values.h"
#include "sealed_work.h"

namespace wiresum {

namespace {

using WorkPtr = SealedGloo::WorkPtr;
using Tensors = SealedGloo::Tensors;

uint64_t bytes_of_all(const Tensors &tensors) {
    return std::accumulate(tensors.begin(), tensors.end(), uint64_t{0},
                           [](uint64_t sum, const at::Tensor &tensor) { return sum + tensor.nbytes(); });
}

void check_one(const Tensors &tensors) {
    TORCH_CHECK(tensors.size() == 1, "wiresum: this collective takes one tensor, not ", tensors.size(), ".");
}

void check_lists(const std::vector<Tensors> &lists, size_t count) {
    TORCH_CHECK(lists.size() == 1 && lists[0].size() == count, "wiresum: this collective takes a list of ",
                count, " tensors, one for each rank.");
}

void check_lengths(const Tensors &tensors, const at::Tensor &like) {
    for (const at::Tensor &tensor : tensors) {
        TORCH_CHECK(tensor.numel() == like.numel() && tensor.scalar_type() == like.scalar_type(),
                    "wiresum: the tensors of all ranks must have the same size and type.");
    }
}

void check_operation(const at::Tensor &tensor, const c10d::ReduceOp &operation) {
    TORCH_CHECK(is_reducible(tensor.scalar_type(), operation), "wiresum: Gloo cannot reduce ",
                name_of_type(tensor.scalar_type()), " by operation ", static_cast<int>(operation.op_), ".");
}

// Each tensor alone in a list.
std::vector<Tensors> alone(const Tensors &tensors) {
    std::vector<Tensors> lists;
    for (const at::Tensor &tensor : tensors) {
        lists.push_back({tensor});
    }
    return lists;
}

// The elements of each part along the first dimension; equal parts if no sizes are given.
std::vector<int64_t> lengths_of(const at::Tensor &tensor, const std::vector<int64_t> &sizes, int ranks) {
    if (sizes.empty()) {
        TORCH_CHECK(tensor.size(0) % ranks == 0, "wiresum: the first dimension has ", tensor.size(0),
                    " entries, and no equal parts for ", ranks, " ranks.");
        return std::vector<int64_t>(ranks, tensor.numel() / ranks);
    }
    TORCH_CHECK(static_cast<int>(sizes.size()) == ranks, "wiresum: all_to_all takes a size for each rank.");
    const int64_t width = tensor.size(0) == 0 ? 0 : tensor.numel() / tensor.size(0);
    std::vector<int64_t> lengths;
    std::transform(sizes.begin(), sizes.end(), std::back_inserter(lengths),
                   [width](int64_t size) { return size * width; });
    return lengths;
}

} // namespace

SealedGloo::SealedGloo(const c10::intrusive_ptr<c10d::Backend> &gloo, GlooKeys keys, std::vector<int> names)
    : Backend(gloo->getRank(), gloo->getSize()), options_(gloo->getBackendOptions()),
      link_(std::make_shared<SealedLink>(gloo, std::move(keys), std::move(names))),
      timeout_(options_->timeout) {
    init();
}

// As Gloo: what was asked for comes to its end first.
SealedGloo::~SealedGloo() {
    std::promise<void> idle;
    order_->post([&idle] { idle.set_value(); });
    idle.get_future().wait();
}

SealedGloo::Call SealedGloo::call_of(c10d::OpType op_type, const char *title, Tensors inputs, Tensors outputs,
                                     std::chrono::milliseconds timeout) const {
    Call call{op_type, title, std::move(inputs), std::move(outputs), timeout, {}};
    call.timeout = std::min(timeout == c10d::kUnsetTimeout ? timeout_.load() : timeout, kLongestTimeout);
    call.header.kind = static_cast<uint8_t>(op_type);
    call.header.bytes = bytes_of_all(call.inputs);
    return call;
}

// What fails here is not as far as on the other ranks, so it breaks the group.
WorkPtr SealedGloo::start(Call call, Body body) {
    std::lock_guard lock(calls_);
    call.header.number = ++collectives_;
    auto work = c10::make_intrusive<SealedWork>(getRank(), call.op_type, call.title, call.inputs,
                                                std::move(call.outputs), call.header.number, call.timeout);
    order_->post([link = link_, work, body = std::move(body), header = call.header, timeout = call.timeout] {
        work->run([&] {
            SealedLink::Step step{header, std::chrono::steady_clock::now() + timeout};
            try {
                body(*link, step);
            } catch (const std::exception &trouble) {
                link->fail(c10::str("an earlier collective of this group failed: ", trouble.what()));
                throw;
            }
        });
    });
    return work;
}

// --- Sums
// ----------------------------------------------------------------------------------------------------

WorkPtr SealedGloo::sum_all(c10d::OpType op_type, const char *title, const Tensors &tensors,
                            const c10d::ReduceOp &operation, std::chrono::milliseconds timeout) {
    const auto values = std::make_shared<HostValues>(tensors, true);
    check_operation(values->flat(), operation);
    Call call = call_of(op_type, title, tensors, tensors, timeout);
    call.header.operation = static_cast<uint8_t>(operation.op_);
    call.header.element_type = static_cast<uint8_t>(values->flat().scalar_type());
    return start(std::move(call), [values, operation](SealedLink &link, SealedLink::Step &step) {
        sum_everywhere(link, step, values->flat(), operation);
        values->write_back();
    });
}

WorkPtr SealedGloo::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
    check_one(tensors);
    if (tensors[0].layout() == at::kSparse) {
        return allreduce_sparse(tensors, options);
    }
    return sum_all(c10d::OpType::ALLREDUCE, "gloo:all_reduce", tensors, options.reduceOp, options.timeout);
}

WorkPtr SealedGloo::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) {
    return sum_all(c10d::OpType::ALLREDUCE_COALESCED, "gloo:all_reduce", tensors, options.reduceOp,
                   options.timeout);
}

WorkPtr SealedGloo::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
    check_one(tensors);
    TORCH_CHECK(tensors[0].layout() == at::kSparse && options.reduceOp == c10d::ReduceOp::SUM,
                "wiresum: Gloo sums sparse tensors, and has no other operation for them.");
    at::NoGradGuard no_grad;
    const at::Tensor mine = tensors[0].detach().to(at::kCPU).coalesce();
    Call call =
        call_of(c10d::OpType::_ALLREDUCE_SPARSE, "gloo:sparse_all_reduce", {}, tensors, options.timeout);
    call.header.element_type = static_cast<uint8_t>(mine.scalar_type());
    return start(std::move(call), [mine, tensor = tensors[0]](SealedLink &link, SealedLink::Step &step) {
        at::Tensor(tensor).copy_(sum_sparse(link, step, mine));
    });
}

WorkPtr SealedGloo::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
    check_one(tensors);
    const auto values = std::make_shared<HostValues>(tensors, true);
    check_operation(values->flat(), options.reduceOp);
    Call call = call_of(c10d::OpType::REDUCE, "gloo:reduce", tensors, tensors, options.timeout);
    call.header.operation = static_cast<uint8_t>(options.reduceOp.op_);
    call.header.element_type = static_cast<uint8_t>(values->flat().scalar_type());
    call.header.root = static_cast<uint32_t>(options.rootRank);
    return start(std::move(call), [values, options](SealedLink &link, SealedLink::Step &step) {
        const auto root = static_cast<int>(options.rootRank);
        sum_at_root(link, step, root, values->flat(), options.reduceOp);
        if (link.rank() == root) {
            values->write_back();
        }
    });
}

WorkPtr SealedGloo::sum_parts(c10d::OpType op_type, const char *title, HostParts parts,
                              const at::Tensor &output, const c10d::ReduceOp &operation,
                              std::chrono::milliseconds timeout) {
    const auto sum = std::make_shared<HostValues>(Tensors{output}, false);
    check_lengths(parts.flat, sum->flat());
    check_operation(output, operation);
    Call call = call_of(op_type, title, {output}, {output}, timeout);
    call.header.operation = static_cast<uint8_t>(operation.op_);
    call.header.element_type = static_cast<uint8_t>(output.scalar_type());
    const auto body = [parts = std::move(parts), sum, operation](SealedLink &link, SealedLink::Step &step) {
        sum_own_part(link, step, parts.flat, sum->flat(), operation);
        sum->write_back();
    };
    return start(std::move(call), body);
}

WorkPtr SealedGloo::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                   const c10d::ReduceScatterOptions &options) {
    check_one(outputs);
    check_lists(inputs, getSize());
    return sum_parts(c10d::OpType::REDUCE_SCATTER, "gloo:reduce_scatter",
                     HostParts::of_lists(alone(inputs[0]), true), outputs[0], options.reduceOp,
                     options.timeout);
}

WorkPtr SealedGloo::reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                          const c10d::ReduceScatterOptions &options) {
    return sum_parts(c10d::OpType::_REDUCE_SCATTER_BASE, "gloo:reduce_scatter",
                     HostParts::of_whole(input, getSize(), true), output, options.reduceOp, options.timeout);
}

WorkPtr SealedGloo::reduce_scatter_single_coalesced(Tensors &outputs, Tensors &inputs,
                                                    const c10d::ReduceScatterOptions &options) {
    TORCH_CHECK(!outputs.empty() && outputs.size() == inputs.size(),
                "wiresum: reduce_scatter takes as many outputs as inputs.");
    WorkPtr work;
    for (size_t index = 0; index < outputs.size(); ++index) {
        work = reduce_scatter_single(outputs[index], inputs[index], options);
    }
    return work; // the last one, which ends after the others
}

// --- Copies
// ----------------------------------------------------------------------------------------------------

WorkPtr SealedGloo::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
    check_one(tensors);
    const auto root = static_cast<int>(options.rootRank);
    const auto values = std::make_shared<HostValues>(tensors, root == getRank());
    Call call = call_of(c10d::OpType::BROADCAST, "gloo:broadcast", tensors, tensors, options.timeout);
    call.header.root = static_cast<uint32_t>(root);
    return start(std::move(call), [values, root](SealedLink &link, SealedLink::Step &step) {
        copy_from_root(link, step, root, memory_of(values->flat()));
        if (link.rank() != root) {
            values->write_back();
        }
    });
}

WorkPtr SealedGloo::gather_all(c10d::OpType op_type, const Tensors &inputs, HostParts taken, Tensors outputs,
                               std::chrono::milliseconds timeout) {
    const auto mine = std::make_shared<HostValues>(inputs, true);
    check_lengths(taken.flat, mine->flat());
    Call call = call_of(op_type, "gloo:all_gather", inputs, std::move(outputs), timeout);
    const auto body = [mine, taken = std::move(taken)](SealedLink &link, SealedLink::Step &step) {
        gather_everywhere(link, step, memory_of(mine->flat()), taken.bytes());
        taken.write_back();
    };
    return start(std::move(call), body);
}

WorkPtr SealedGloo::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                              const c10d::AllgatherOptions &options) {
    check_one(inputs);
    check_lists(outputs, getSize());
    return gather_all(c10d::OpType::ALLGATHER, inputs, HostParts::of_lists(alone(outputs[0]), false),
                      outputs[0], options.timeout);
}

WorkPtr SealedGloo::all_gather_single(at::Tensor &output, at::Tensor &input,
                                      const c10d::AllgatherOptions &options) {
    return gather_all(c10d::OpType::_ALLGATHER_BASE, {input}, HostParts::of_whole(output, getSize(), false),
                      {output}, options.timeout);
}

// The lists are by rank, and each has a tensor for each input.
WorkPtr SealedGloo::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                        const c10d::AllgatherOptions &options) {
    TORCH_CHECK(outputs.size() == static_cast<size_t>(getSize()),
                "wiresum: all_gather_coalesced takes a list of outputs for each rank.");
    Tensors all;
    for (const Tensors &list : outputs) {
        all.insert(all.end(), list.begin(), list.end());
    }
    return gather_all(c10d::OpType::ALLGATHER_COALESCED, inputs, HostParts::of_lists(outputs, false),
                      std::move(all), options.timeout);
}

WorkPtr SealedGloo::all_gather_single_coalesced(Tensors &outputs, Tensors &inputs,
                                                const c10d::AllgatherOptions &options) {
    TORCH_CHECK(!outputs.empty() && outputs.size() == inputs.size(),
                "wiresum: all_gather takes as many outputs as inputs.");
    WorkPtr work;
    for (size_t index = 0; index < outputs.size(); ++index) {
        work = all_gather_single(outputs[index], inputs[index], options);
    }
    return work; // the last one, which ends after the others
}

WorkPtr SealedGloo::swap(Call call, HostParts sent, HostParts taken) {
    const auto body = [sent = std::move(sent), taken = std::move(taken)](SealedLink &link,
                                                                         SealedLink::Step &step) {
        link.exchange(step, sent.bytes(), taken.bytes());
        taken.write_back();
    };
    return start(std::move(call), body);
}

WorkPtr SealedGloo::gather_parts(const at::Tensor &input, HostParts taken, Tensors outputs, int root,
                                 std::chrono::milliseconds timeout) {
    Call call = call_of(c10d::OpType::GATHER, "gloo:gather", {input}, std::move(outputs), timeout);
    call.header.root = static_cast<uint32_t>(root);
    if (root == getRank()) {
        check_lengths(taken.flat, input);
    }
    taken.flat.resize(getSize()); // nothing but at the root
    return swap(std::move(call), HostParts::of_one({input}, root, getSize(), true), std::move(taken));
}

WorkPtr SealedGloo::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                           const c10d::GatherOptions &options) {
    check_one(inputs);
    const bool is_root = options.rootRank == getRank();
    if (is_root) {
        check_lists(outputs, getSize());
    }
    return gather_parts(inputs[0], is_root ? HostParts::of_lists(alone(outputs[0]), false) : HostParts(),
                        is_root ? outputs[0] : Tensors(), static_cast<int>(options.rootRank),
                        options.timeout);
}

WorkPtr SealedGloo::gather_single(at::Tensor &output, at::Tensor &input, const c10d::GatherOptions &options) {
    const bool is_root = options.rootRank == getRank();
    return gather_parts(input, is_root ? HostParts::of_whole(output, getSize(), false) : HostParts(),
                        is_root ? Tensors{output} : Tensors(), static_cast<int>(options.rootRank),
                        options.timeout);
}

WorkPtr SealedGloo::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                            const c10d::ScatterOptions &options) {
    check_one(outputs);
    const auto root = static_cast<int>(options.rootRank);
    HostParts sent;
    if (root == getRank()) {
        check_lists(inputs, getSize());
        check_lengths(inputs[0], outputs[0]);
        sent = HostParts::of_lists(alone(inputs[0]), true);
    }
    sent.flat.resize(getSize());
    Call call = call_of(c10d::OpType::SCATTER, "gloo:scatter", outputs, outputs, options.timeout);
    call.header.root = static_cast<uint32_t>(root);
    return swap(std::move(call), std::move(sent), HostParts::of_one(outputs, root, getSize(), false));
}

// Two ranks know only what passes between them, so headers say nothing of sizes; messages that differ in
// length do not open.
WorkPtr SealedGloo::all_to_all_single(at::Tensor &output, at::Tensor &input,
                                      std::vector<int64_t> &output_sizes, std::vector<int64_t> &input_sizes,
                                      const c10d::AllToAllOptions &options) {
    Call call = call_of(c10d::OpType::ALLTOALL_BASE, "gloo:all_to_all", {input}, {output}, options.timeout);
    call.header.bytes = 0;
    return swap(std::move(call), HostParts::of_whole(input, lengths_of(input, input_sizes, getSize()), true),
                HostParts::of_whole(output, lengths_of(output, output_sizes, getSize()), false));
}

WorkPtr SealedGloo::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
    TORCH_CHECK(inputs.size() == static_cast<size_t>(getSize()) && outputs.size() == inputs.size(),
                "wiresum: all_to_all takes one input and one output for each rank.");
    Call call = call_of(c10d::OpType::ALLTOALL, "gloo:all_to_all", inputs, outputs, options.timeout);
    call.header.bytes = 0;
    return swap(std::move(call), HostParts::of_lists(alone(inputs), true),
                HostParts::of_lists(alone(outputs), false));
}

// --- Messages
// ----------------------------------------------------------------------------------------------------

WorkPtr SealedGloo::send(Tensors &tensors, int destination, int tag) {
    check_one(tensors);
    const HostValues values(tensors, true);
    return link_->send(memory_of(values.flat()), destination, tag);
}

WorkPtr SealedGloo::recv(Tensors &tensors, int source, int tag) {
    check_one(tensors);
    return link_->receive(tensors[0], source, tag);
}

WorkPtr SealedGloo::recvAnysource(Tensors &tensors, int tag) {
    check_one(tensors);
    return link_->receive(tensors[0], -1, tag);
}

// --- The group itself
// ----------------------------------------------------------------------------------------------------

WorkPtr SealedGloo::barrier(const c10d::BarrierOptions &options) {
    Call call = call_of(c10d::OpType::BARRIER, "gloo:barrier", {}, {}, options.timeout);
    return start(std::move(call), [](SealedLink &link, SealedLink::Step &step) { meet(link, step); });
}

void SealedGloo::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) {
    Call call = call_of(c10d::OpType::BARRIER, "gloo:monitored_barrier", {}, {}, options.timeout);
    start(std::move(call), [options, wait_all_ranks](SealedLink &link, SealedLink::Step &step) {
        link.gloo()->monitoredBarrier(options, wait_all_ranks);
        meet(link, step);
    })->wait();
}

void SealedGloo::meet(SealedLink &link, SealedLink::Step &step) {
    const at::Tensor nothing = at::empty({0}, at::kByte);
    link.all_gather(step, nothing, SealedLink::Bytes(link.size(), nothing));
}

void SealedGloo::setTimeout(std::chrono::milliseconds timeout) {
    timeout_ = timeout;
    link_->gloo()->setTimeout(timeout);
}

void SealedGloo::setGroupUid(const std::string &name) {
    Backend::setGroupUid(name);
    link_->gloo()->setGroupUid(name);
}

c10::intrusive_ptr<c10d::Backend> SealedGloo::merge(const c10::intrusive_ptr<c10d::Store> & /*store*/,
                                                    const c10::intrusive_ptr<Options> & /*options*/,
                                                    const int & /*rank*/, const int & /*size*/) {
    TORCH_CHECK(false, "wiresum: groups of a sealed or proven job cannot be merged, as Gloo would carry the "
                       "merged group in the clear. Set WIRESUM_OPEN_GLOO=1 on all ranks to permit that.");
}

} // namespace wiresum
