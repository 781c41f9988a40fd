#include "pending_work.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "errors.h"

namespace wiresum {

namespace {

const char *name_of_operation(const c10d::ReduceOp &operation) {
    static constexpr std::array<const char *, 9> names = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                                          "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
    const auto index = static_cast<size_t>(operation.op_);
    return index < names.size() ? names[index] : "";
}

c10::intrusive_ptr<c10::ivalue::Future> tensors_future() {
    return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

} // namespace

const char *name_of_type(at::ScalarType type) {
    switch (type) {
    case at::kFloat:
        return "float32";
    case at::kDouble:
        return "float64";
    case at::kHalf:
        return "float16";
    case at::kBFloat16:
        return "bfloat16";
    case at::kLong:
        return "int64";
    case at::kInt:
        return "int32";
    case at::kByte:
        return "uint8";
    case at::kBool:
        return "bool";
    default:
        return c10::toString(type);
    }
}

RowKey row_of(const char *collective, const std::vector<at::Tensor> &tensors, const c10d::ReduceOp &operation,
              Reason reason) {
    const char *type = tensors.empty() ? "" : name_of_type(tensors[0].scalar_type());
    return {collective, type, name_of_operation(operation), reason};
}

RowKey row_of(const Request &request, Reason reason) {
    RowKey key = row_of(request.collective, request.inputs, request.operation, reason);
    if (is_copy(request.kind) || is_share_alone(request.kind)) {
        key.operation.clear();
    }
    return key;
}

Amount size_of(const std::vector<at::Tensor> &tensors) {
    Amount amount;
    for (const at::Tensor &tensor : tensors) {
        const bool is_sparse = tensor.layout() == at::kSparse;
        const uint64_t elements = is_sparse ? tensor._values().numel() : tensor.numel();
        amount.elements += elements;
        amount.bytes += elements * tensor.element_size();
        amount.rows += is_sparse ? tensor._nnz() : 0;
    }
    return amount;
}

void GroupContext::note_loss(std::string text, bool is_final) {
    std::lock_guard lock(mutex_);
    loss_ = {loss_.count + 1, std::move(text), is_final};
    changed_.notify_all();
}

void GroupContext::lose(const std::string &why) {
    note_loss(why, true);
    groups().inner->abort();
}

std::optional<GroupContext::Loss> GroupContext::loss_since(uint64_t count, bool awaits) const {
    std::unique_lock lock(mutex_);
    const auto limit = awaits ? loss_known_after : std::chrono::milliseconds(0);
    const bool is_there = changed_.wait_for(lock, limit, [this, count] { return loss_.count > count; });
    return is_there ? std::optional(loss_) : std::nullopt;
}

PendingWork::PendingWork(std::shared_ptr<GroupContext> group, Request request, const char *title)
    : ExplainedWork(group->ledger->rank, request.op_type, title, request.inputs), group_(std::move(group)),
      request_(std::move(request)), passed_(size_of(request_.inputs)), future_(tensors_future()),
      deadline_(Clock::now() + kLongestTimeout) {}

void PendingWork::give_up_after(std::chrono::milliseconds limit) {
    std::lock_guard lock(mutex_);
    deadline_ = Clock::now() + limit;
    cv_.notify_all();
}

// The counters first, so that whoever has waited reads them complete; waiters next, callbacks last, because
// those may take long.
void PendingWork::settle(Reason reason, std::exception_ptr error) {
    tell(reason, error);
    call_back(error);
}

void PendingWork::tell(Reason reason, std::exception_ptr error) {
    if (!request_.is_part) {
        group_->ledger->count(row_of(request_, reason), amount());
    }
    if (error && !request_.is_part) {
        try {
            std::rethrow_exception(error);
        } catch (const std::exception &known) {
            group_->ledger->note_error(known.what());
        } catch (...) {
            group_->ledger->note_error(describe());
        }
    }
    {
        std::lock_guard lock(mutex_);
        reason_ = reason;
        release();
    }
    finish(error);
}

void PendingWork::call_back(std::exception_ptr error) {
    if (has_called_back_.exchange(true)) {
        future_->wait();
    } else if (error) {
        future_->setError(error);
    } else {
        future_->markCompleted(c10::IValue(request_.outputs));
    }
}

Reason PendingWork::reason() const {
    std::lock_guard lock(mutex_);
    return reason_;
}

std::vector<at::Tensor> PendingWork::result() {
    TORCH_CHECK(isCompleted(),
                "Work needs to be completed before calling result(). Should call wait() before result().");
    return request_.outputs;
}

bool PendingWork::wait(std::chrono::milliseconds timeout) {
    const bool bounded = timeout > kNoTimeout;
    const Clock::time_point caller_limit = Clock::now() + std::min(timeout, kLongestTimeout);
    std::unique_lock lock(mutex_);
    while (!completed_) {
        // The deadline moves when the collective is submitted, or done again.
        const auto limit = bounded ? std::min(caller_limit, deadline_) : deadline_;
        if (cv_.wait_until(lock, limit) == std::cv_status::timeout && !completed_ && Clock::now() >= limit) {
            const bool gave_up_early = bounded && caller_limit < deadline_;
            throw CollectiveError(
                WIRESUM_TIMED_OUT,
                gave_up_early
                    ? c10::str(
                          describe(), ": still under way after the ", timeout.count(),
                          " ms given to wait(). Its tensor must not be used until it is over: wait again.")
                    : c10::str(describe(), ": the engine did not end it within its timeout of ",
                               request_.timeout.count(),
                               " ms. This is a defect of Wiresum: please report it."));
        }
    }
    const std::exception_ptr error = exception_;
    lock.unlock();
    call_back(error);
    if (error) {
        std::rethrow_exception(error);
    }
    return true;
}

std::string PendingWork::describe() const {
    const RowKey key = row_of(request_, Reason::Pending);
    const std::string operation = key.operation.empty() ? "" : c10::str(" (", key.operation, ")");
    const std::string values =
        request_.inputs.empty() ? "" : c10::str(" of ", passed_.elements, " ", key.element_type);
    return c10::str(key.collective, " #", request_.sequence, values, operation, " in group '",
                    group_->ledger->group(), "' on rank ", group_->ledger->rank);
}

std::exception_ptr CarriedWork::refusal(const Remaining &remaining) const {
    try {
        remaining.refuse(request_.collective);
    } catch (...) {
        return std::current_exception();
    }
}

std::exception_ptr CarriedWork::not_gone_over(const std::string &why, const std::exception &trouble) const {
    if (dynamic_cast<const CollectiveError *>(&trouble) != nullptr) {
        return std::current_exception(); // it says what this would, and more
    }
    const std::string text =
        c10::str(describe(), ": ", why, "; the ranks could not go over to Gloo: ", trouble.what(), ". ",
                 remedy(WIRESUM_FAILED));
    return std::make_exception_ptr(CollectiveError(WIRESUM_FAILED, text));
}

} // namespace wiresum
