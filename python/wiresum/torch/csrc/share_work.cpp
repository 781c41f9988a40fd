#include "share_work.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "errors.h"
#include "rank_order.h"
#include "work.h"

namespace wiresum {

namespace {

// What ranks compare: the type as ATen numbers it, which is below 16 for all that Gloo knows.
uint32_t tag_of(const at::Tensor &share) {
    return share.defined() ? static_cast<uint32_t>(share.scalar_type()) : 0;
}

wiresum_kind small(wiresum_kind kind) {
    switch (kind) {
    case WIRESUM_BARRIER:
    case WIRESUM_SMALL_GATHER:
    case WIRESUM_SMALL_SCATTER:
        return kind;
    case WIRESUM_REDUCE:
        return WIRESUM_SMALL_REDUCE;
    case WIRESUM_REDUCE_SCATTER:
        return WIRESUM_SMALL_REDUCE_SCATTER;
    case WIRESUM_ALL_GATHER:
        return WIRESUM_SMALL_ALL_GATHER;
    case WIRESUM_BROADCAST:
        return WIRESUM_SMALL_BROADCAST;
    default:
        return WIRESUM_SMALL_ALL_REDUCE;
    }
}

} // namespace

ShareWork::ShareWork(std::shared_ptr<GroupContext> group, Request request)
    : CarriedWork(std::move(group), std::move(request), title_of(request.kind)) {
    if (request_.kind == WIRESUM_BARRIER) {
        return;
    }
    at::NoGradGuard no_grad;
    share_ = contiguous_values(request_.inputs).reshape(-1);
    if (request_.kind == WIRESUM_SMALL_SCATTER && request_.root != group_->ledger->rank) {
        share_ = at::zeros_like(share_);
    }
    shares_ = at::empty({group_->ledger->size, share_.numel()}, share_.options());
}

wiresum_collective ShareWork::collective(void *context) {
    const bool is_barrier = request_.kind == WIRESUM_BARRIER;
    return {
        .kind = static_cast<uint32_t>(small(request_.kind)),
        .root = static_cast<uint32_t>(request_.root),
        .source = is_barrier ? nullptr : share_.const_data_ptr(),
        .sink = is_barrier ? nullptr : shares_.mutable_data_ptr(),
        .elements = is_barrier ? 0 : static_cast<uint64_t>(share_.nbytes()),
        .element_type = tag_of(share_),
        .operation = static_cast<uint32_t>(request_.operation.op_),
        .timeout_us = static_cast<uint64_t>(std::chrono::microseconds(request_.timeout).count()),
        .done = &ShareWork::done,
        .context = context,
    };
}

// What other ranks may need again must not change, and results replace it where it is the user's memory.
void ShareWork::set_apart() {
    ReplayMemory::Lease kept = group_->going_over->keep(share_.defined() ? share_.nbytes() : 0);
    if (kept && share_.defined()) {
        share_ = share_.clone();
    }
    number_ = group_->going_over->note_share(share_, std::move(kept));
}

void ShareWork::submit(const wiresum_engine_abi *engine, const std::string &why_closed) {
    const auto work = c10::intrusive_ptr<ShareWork>::reclaim_copy(this);
    give_up_after(request_.timeout + NetworkWork::kEngineGrace);
    remaining_ = group_->groups().remaining;
    if (remaining_ && !remaining_->allows(request_.kind, request_.root)) {
        // On all ranks alike, so the engine numbers all others as they do.
        TaskPool::instance().post([work] {
            const auto error = work->refusal(*work->remaining_);
            work->tell(Reason::Failed, error);
            work->call_back(error);
        });
        return;
    }
    if (group_->going_over) {
        set_apart();
    }
    // The reference that `done` takes back.
    auto reference = std::make_unique<c10::intrusive_ptr<ShareWork>>(work);
    const wiresum_collective collective = this->collective(reference.get());
    if (engine != nullptr && engine->submit(engine->engine, &collective) == 0) {
        reference.release();
        return;
    }
    TaskPool::instance().post([work, why_closed] {
        const auto error = work->end(WIRESUM_FAILED, why_closed.empty() ? kEngineIsClosed : why_closed);
        work->call_back(error);
    });
}

void ShareWork::leave(const std::string &why) {
    give_up_after(request_.timeout + NetworkWork::kEngineGrace);
    group_->going_over->leave_share([work = c10::intrusive_ptr<ShareWork>::reclaim_copy(this), why] {
        const std::exception_ptr error = work->go_over(why);
        TaskPool::instance().post([work, error] { work->call_back(error); });
    });
}

// On the engine's thread: reduces what is small, and wakes whoever waits without another thread between.
// Callbacks may take long, and the last reference may take Python's lock to go away: both are the pool's.
void ShareWork::done(void *context, int32_t outcome, const char *message) {
    std::unique_ptr<c10::intrusive_ptr<ShareWork>> reference(
        static_cast<c10::intrusive_ptr<ShareWork> *>(context));
    c10::intrusive_ptr<ShareWork> work = std::move(*reference);
    const std::string text = message != nullptr ? message : "";
    if (const std::shared_ptr<GoingOver> over = work->group_->going_over) {
        if (outcome == WIRESUM_NOT_SERVED) {
            work->leave(text);
            return;
        }
        if (outcome == WIRESUM_OK) {
            over->end_share();
        }
    }
    const std::exception_ptr error = work->end(outcome, text);
    TaskPool::instance().post([work = std::move(work), error] { work->call_back(error); });
}

std::exception_ptr ShareWork::end(int32_t outcome, const std::string &message) {
    std::exception_ptr error;
    if (outcome == WIRESUM_OK) {
        try {
            write_results();
        } catch (...) {
            error = std::current_exception();
        }
    } else {
        const bool known = outcome > WIRESUM_OK && outcome <= WIRESUM_WORKER_LOST;
        const auto code = known ? static_cast<wiresum_outcome>(outcome) : WIRESUM_FAILED;
        const std::string text = c10::str(describe(), ": ", message, ". ", remedy(code));
        error = std::make_exception_ptr(CollectiveError(code, text));
    }
    tell(error ? Reason::Failed : Reason::Shared, error);
    return error;
}

std::exception_ptr ShareWork::go_over(const std::string &why) {
    give_up_after(request_.timeout + NetworkWork::kEngineGrace);
    std::exception_ptr error;
    Reason reason = Reason::NotServed;
    try {
        GoingOver &over = *group_->going_over;
        if (number_ && over.has_ended_share(*number_)) {
            reason = Reason::Shared;
            shares_ = over.shares(*number_);
        } else {
            share_by_gloo(over.gloo());
        }
        write_results();
    } catch (const std::exception &trouble) {
        error = not_gone_over(why, trouble);
    }
    tell(error ? Reason::Failed : reason, error);
    return error;
}

void ShareWork::share_by_gloo(c10d::Backend &gloo) {
    if (shares_.defined()) {
        const Remaining *remaining = remaining_of(gloo);
        if (remaining != nullptr && !remaining->allows(request_.kind, request_.root)) {
            remaining->refuse(request_.collective);
        }
        shares_ = gather_rows(gloo, share_, request_.timeout);
        return;
    }
    c10d::BarrierOptions options;
    options.timeout = request_.timeout;
    gloo.barrier(options)->wait();
}

at::Tensor ShareWork::taken_of(const at::Tensor &rows, const Remaining *remaining) const {
    const int rank = group_->ledger->rank;
    switch (request_.kind) {
    case WIRESUM_ALL_GATHER:
    case WIRESUM_SMALL_GATHER:
        return rows.reshape(-1);
    case WIRESUM_SMALL_SCATTER:
        return rows[request_.root].view({group_->ledger->size, -1})[rank];
    case WIRESUM_BROADCAST:
        return rows[remaining != nullptr ? remaining->place_of(request_.root, "broadcast") : request_.root];
    default:
        break;
    }
    at::Tensor reduced = reduce_in_rank_order(rows, request_.operation);
    scale_sum(reduced, request_.operation, remaining != nullptr ? remaining->scale() : 1);
    if (request_.kind == WIRESUM_REDUCE_SCATTER) {
        const int64_t length = reduced.numel() / group_->ledger->size;
        return reduced.narrow(0, rank * length, length);
    }
    return reduced;
}

// Rows are of all ranks, or of those who are left: the engine leaves room for the others, and Gloo does not.
void ShareWork::write_results() {
    if (!shares_.defined() || !takes_part(request_, group_->ledger->rank)) {
        return;
    }
    at::NoGradGuard no_grad;
    const bool has_room_for_all = shares_.size(0) == group_->ledger->size;
    const auto remaining = has_room_for_all ? remaining_ : group_->groups().remaining;
    const at::Tensor rows = has_room_for_all && remaining ? remaining->rows(shares_) : shares_;
    const at::Tensor taken = taken_of(rows, remaining.get());
    int64_t offset = 0;
    for (const at::Tensor &tensor : request_.outputs) {
        tensor.detach().copy_(taken.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
        offset += tensor.numel();
    }
}

void ShareWork::release() {
    share_.reset();
    shares_.reset();
}

} // namespace wiresum
