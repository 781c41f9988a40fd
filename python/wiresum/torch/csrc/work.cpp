#include "work.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "eligibility.h"
#include "errors.h"

namespace wiresum {

namespace {

// One contiguous tensor with the elements of all: the user's own memory where it is one contiguous tensor
// already.
at::Tensor contiguous_values(const std::vector<at::Tensor> &tensors) {
    at::NoGradGuard no_grad;
    if (tensors.size() == 1) {
        return tensors[0].contiguous();
    }
    std::vector<at::Tensor> flat;
    flat.reserve(tensors.size());
    for (const at::Tensor &tensor : tensors) {
        flat.push_back(tensor.reshape(-1));
    }
    return at::cat(flat);
}

// Whether two contiguous tensors have a byte in common.
bool overlap(const at::Tensor &a, const at::Tensor &b) {
    const auto *a_start = static_cast<const char *>(a.const_data_ptr());
    const auto *b_start = static_cast<const char *>(b.const_data_ptr());
    return a_start < b_start + b.nbytes() && b_start < a_start + a.nbytes();
}

// Where results go: the user's memory where it is one contiguous tensor already.
at::Tensor contiguous_results(const std::vector<at::Tensor> &outputs) {
    if (outputs.size() == 1 && outputs[0].is_contiguous()) {
        return outputs[0].detach();
    }
    return at::empty({static_cast<int64_t>(size_of(outputs).elements)}, outputs[0].options());
}

const char *title_of(wiresum_kind kind) {
    switch (kind) {
    case WIRESUM_REDUCE:
        return "wiresum:reduce";
    case WIRESUM_REDUCE_SCATTER:
        return "wiresum:reduce_scatter";
    default:
        return "wiresum:all_reduce";
    }
}

} // namespace

NetworkWork::NetworkWork(std::shared_ptr<GroupContext> group, Request request)
    : PendingWork(std::move(group), std::move(request), title_of(request.kind)),
      takes_(request_.kind != WIRESUM_REDUCE || request_.root == group_->ledger->rank),
      source_(contiguous_values(request_.inputs)), sink_(source_) {
    if (request_.kind != WIRESUM_REDUCE_SCATTER) {
        return;
    }
    at::NoGradGuard no_grad;
    sink_ = contiguous_results(request_.outputs);
    const auto *part =
        static_cast<const char *>(source_.const_data_ptr()) + group_->ledger->rank * sink_.nbytes();
    if (overlap(source_, sink_) && sink_.const_data_ptr() != part) {
        source_ = source_.clone();
    }
}

void NetworkWork::submit(const c10::intrusive_ptr<NetworkWork> &work, const wiresum_engine_abi *engine) {
    work->give_up_after(work->request_.timeout + kEngineGrace);
    // The reference that `done` takes back.
    auto reference = std::make_unique<c10::intrusive_ptr<NetworkWork>>(work);
    const wiresum_collective collective{
        .kind = static_cast<uint32_t>(work->request_.kind),
        .root = static_cast<uint32_t>(work->request_.root),
        .source = work->source_.const_data_ptr(),
        .sink = work->sink_.mutable_data_ptr(),
        .elements = static_cast<uint64_t>(work->source_.numel()),
        .element_type = static_cast<uint32_t>(element_type_of(work->source_.scalar_type())),
        .operation = static_cast<uint32_t>(operation_of(work->request_.operation)),
        .timeout_us = static_cast<uint64_t>(std::chrono::microseconds(work->request_.timeout).count()),
        .done = &NetworkWork::done,
        .context = reference.get(),
    };
    if (engine != nullptr && engine->submit(engine->engine, &collective) == 0) {
        reference.release();
        return;
    }
    TaskPool::instance().post([work] {
        work->complete(WIRESUM_FAILED,
                       "the connection to the network is closed, by an earlier error or by shutdown");
    });
}

// On the engine's thread: hands over to the pool and returns.
void NetworkWork::done(void *context, int32_t outcome, const char *message) {
    std::unique_ptr<c10::intrusive_ptr<NetworkWork>> reference(
        static_cast<c10::intrusive_ptr<NetworkWork> *>(context));
    c10::intrusive_ptr<NetworkWork> work = std::move(*reference);
    if (outcome == WIRESUM_NOT_FINITE || outcome == WIRESUM_UNFORESEEN) {
        const Reason reason = outcome == WIRESUM_NOT_FINITE ? Reason::NotFinite : Reason::Unforeseen;
        Strand &order = *work->group_->fallback_order;
        order.post([work = std::move(work), reason] { work->sum_again(reason); });
        return;
    }
    const bool known = (outcome >= WIRESUM_OK && outcome <= WIRESUM_FAILED) || outcome == WIRESUM_MISSED;
    TaskPool::instance().post([work = std::move(work), text = std::string(message != nullptr ? message : ""),
                               code = known ? static_cast<wiresum_outcome>(outcome) : WIRESUM_FAILED] {
        work->complete(code, text);
    });
}

void NetworkWork::complete(wiresum_outcome outcome, const std::string &message) {
    if (outcome == WIRESUM_OK || outcome == WIRESUM_MISSED) {
        succeed(outcome == WIRESUM_OK ? Reason::Summed : Reason::Missed);
        return;
    }
    const std::string text = c10::str(describe(), ": ", message, ". ", remedy(outcome));
    fail(std::make_exception_ptr(CollectiveError(outcome, text)));
}

// The sum of the fallback, into the sink.
void NetworkWork::sum_by_gloo() {
    const auto options = [this](auto options) {
        options.reduceOp = request_.operation;
        options.timeout = request_.timeout;
        return options;
    };
    std::vector<at::Tensor> values{source_};
    switch (request_.kind) {
    case WIRESUM_REDUCE: {
        if (!takes_) {
            values[0] = source_.clone(); // Gloo may use it as scratch memory
        }
        auto to_root = options(c10d::ReduceOptions());
        to_root.rootRank = request_.root;
        group_->fallback->reduce(values, to_root)->wait();
        break;
    }
    case WIRESUM_REDUCE_SCATTER: {
        at::Tensor flat = source_.reshape(-1);
        at::Tensor part = sink_.view(-1);
        group_->fallback->reduce_scatter_single(part, flat, options(c10d::ReduceScatterOptions()))->wait();
        break;
    }
    default:
        group_->fallback->allreduce(values, options(c10d::AllreduceOptions()))->wait();
    }
}

// Gloo's sum keeps Inf and NaN where they belong. The tensors are untouched so far.
void NetworkWork::sum_again(Reason reason) {
    give_up_after(request_.timeout + kEngineGrace);
    std::exception_ptr error;
    try {
        sum_by_gloo();
    } catch (...) {
        error = std::current_exception();
    }
    // On a thread of its own: a callback may wait for the next collective, and that may have to be summed
    // again too.
    TaskPool::instance().post([self = c10::intrusive_ptr<NetworkWork>::reclaim_copy(this), error, reason] {
        error ? self->fail(error) : self->succeed(reason);
    });
}

void NetworkWork::succeed(Reason reason) {
    try {
        copy_back();
    } catch (...) {
        fail(std::current_exception());
        return;
    }
    settle(reason, nullptr);
}

void NetworkWork::release() {
    source_.reset();
    sink_.reset();
}

void NetworkWork::copy_back() {
    if (!takes_) {
        return;
    }
    at::NoGradGuard no_grad;
    int64_t offset = 0;
    for (const at::Tensor &tensor : request_.outputs) {
        if (tensor.is_alias_of(sink_)) {
            return;
        }
        tensor.detach().copy_(sink_.reshape(-1).narrow(0, offset, tensor.numel()).view(tensor.sizes()));
        offset += tensor.numel();
    }
}

DelegatedWork::DelegatedWork(c10::intrusive_ptr<Work> inner, Reason reason)
    : ExplainedWork(-1, inner->retrieveOpType()), inner_(std::move(inner)), reason_(reason) {}

} // namespace wiresum
