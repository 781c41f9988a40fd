#include "sparse_work.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "errors.h"

namespace wiresum {

SparseWork::SparseWork(std::shared_ptr<GroupContext> group, std::shared_ptr<RowChannel> channel,
                       Request request)
    : PendingWork(std::move(group), std::move(request), "wiresum:all_reduce_sparse"),
      channel_(std::move(channel)), turn_(channel_->submissions->reserve()),
      notice_(RowNotice::of(request_.inputs[0], request_.operation)) {}

// Without a limit to give up at, as Gloo and the engine have theirs.
void SparseWork::start(const c10::intrusive_ptr<SparseWork> &work) {
    work->channel_->order->post([work] { work->run(); });
}

// Errors that all ranks come to alike leave the group as it is. After any other, other ranks may have
// submitted what this one has not, so nothing more may be.
void SparseWork::run() {
    at::NoGradGuard no_grad;
    try {
        reduce();
    } catch (const CollectiveError &) {
        fail(std::current_exception());
    } catch (const std::exception &error) {
        channel_->submissions->close();
        const std::string text =
            c10::str(describe(), ": the ranks could not exchange their rows: ", error.what(), ". ",
                     remedy(WIRESUM_FAILED));
        fail(std::make_exception_ptr(CollectiveError(WIRESUM_FAILED, text)));
    }
}

void SparseWork::reduce() {
    const std::vector<RowSet> sets = exchange();
    all_ = united(sets);
    const auto longest = std::max_element(sets.begin(), sets.end(),
                                          [](const auto &a, const auto &b) { return a.size() < b.size(); });
    const RowTraffic traffic{static_cast<int64_t>(sets.size()), static_cast<int64_t>(all_.size()),
                             static_cast<int64_t>(longest->size()), notice_.width()};
    const Reason reason = decide(traffic, request_.inputs[0].scalar_type(), channel_->ability);
    if (reason == Reason::Summed) {
        sum_in_network();
        return;
    }
    channel_->submissions->fill(turn_, nullptr);
    finish_later([this, reason, sums = sum_gathered(sets)] { succeed(reason, sums); });
}

// The rows of each rank.
std::vector<RowSet> SparseWork::exchange() {
    share_ = share_of(request_.inputs[0], notice_);
    rows_passed_ = share_.rows.size();
    const EncodedRows mine =
        notice_.fault == RowFault::None ? encode(share_.rows, notice_.limit()) : EncodedRows();
    notice_.form = mine.form;
    notice_.bytes = static_cast<int64_t>(mine.bytes.size());

    at::Tensor notice = at::empty({sizeof(RowNotice)}, at::kByte);
    std::memcpy(notice.mutable_data_ptr(), &notice_, sizeof(RowNotice));
    std::vector<RowNotice> notices;
    int64_t longest = 0;
    for (const at::Tensor &each : gather(notice)) {
        std::memcpy(&notices.emplace_back(), each.const_data_ptr(), sizeof(RowNotice));
        longest = std::max(longest, notices.back().bytes);
    }
    check(notices, describe());

    at::Tensor bytes = at::zeros({longest}, at::kByte);
    std::copy(mine.bytes.begin(), mine.bytes.end(), bytes.mutable_data_ptr<uint8_t>());
    const std::vector<at::Tensor> encoded = gather(bytes);
    std::vector<RowSet> sets;
    for (size_t rank = 0; rank < notices.size(); ++rank) {
        const RowNotice &its = notices[rank];
        sets.push_back(
            decode(its.form, encoded[rank].const_data_ptr<uint8_t>(), its.bytes, its.rows, notice_.limit()));
    }
    return sets;
}

void SparseWork::sum_in_network() {
    const at::Tensor &tensor = request_.inputs[0];
    at::Tensor sums = at::zeros({static_cast<int64_t>(all_.size()), notice_.width()}, tensor.scalar_type());
    add_rows(sums, all_, share_.values, share_.rows);
    Request request = request_;
    request.inputs = {sums};
    request.outputs = {sums};
    request.is_part = true;
    auto work = c10::make_intrusive<NetworkWork>(group_, std::move(request));
    work->getFuture()->addCallback(
        [self = c10::intrusive_ptr<SparseWork>::reclaim_copy(this), work, sums](c10::ivalue::Future &) {
            if (const std::exception_ptr error = work->exception()) {
                self->settle(Reason::Failed, error);
                return;
            }
            self->succeed(work->reason(), sums);
        });
    channel_->submissions->fill(turn_, std::move(work));
}

// Adds all ranks' values in the order of ranks, so every rank has the same bits.
at::Tensor SparseWork::sum_gathered(const std::vector<RowSet> &sets) {
    const at::ScalarType type = request_.inputs[0].scalar_type();
    const int64_t width = notice_.width();
    size_t longest = 0;
    for (const RowSet &rows : sets) {
        longest = std::max(longest, rows.size());
    }
    at::Tensor mine = at::zeros({static_cast<int64_t>(longest), width}, type);
    mine.narrow(0, 0, share_.values.size(0)).copy_(share_.values);
    const std::vector<at::Tensor> everyones = gather(mine.view(-1).view(at::kByte));
    at::Tensor sums = at::zeros({static_cast<int64_t>(all_.size()), width}, at::toOpMathType(type));
    for (size_t rank = 0; rank < sets.size(); ++rank) {
        const at::Tensor values = everyones[rank].view(type).view({static_cast<int64_t>(longest), width});
        add_rows(sums, all_, values.to(sums.scalar_type()), sets[rank]);
    }
    if (request_.operation.op_ == c10d::ReduceOp::AVG) {
        sums.div_(static_cast<int64_t>(sets.size()));
    }
    return sums.to(type);
}

std::vector<at::Tensor> SparseWork::gather(const at::Tensor &bytes) {
    std::vector<at::Tensor> mine{bytes};
    std::vector<std::vector<at::Tensor>> everyones(1);
    for (int rank = 0; rank < channel_->gloo->getSize(); ++rank) {
        everyones[0].push_back(at::empty_like(bytes));
    }
    if (bytes.numel() > 0) {
        c10d::AllgatherOptions options;
        options.timeout = request_.timeout;
        channel_->gloo->allgather(everyones, mine, options)->wait();
    }
    return everyones[0];
}

void SparseWork::succeed(Reason reason, const at::Tensor &sums) {
    at::NoGradGuard no_grad;
    try {
        const at::Tensor &tensor = request_.outputs[0];
        at::Tensor(tensor).copy_(tensor_of(tensor, {all_, sums}));
    } catch (...) {
        settle(Reason::Failed, std::current_exception());
        return;
    }
    settle(reason, nullptr);
}

void SparseWork::fail(std::exception_ptr error) {
    channel_->submissions->fill(turn_, nullptr);
    finish_later([this, error = std::move(error)] { settle(Reason::Failed, error); });
}

// On a thread of its own: a callback may wait for the next sparse tensor, which waits for this strand.
void SparseWork::finish_later(std::function<void()> finish) {
    TaskPool::instance().post([self = c10::intrusive_ptr<SparseWork>::reclaim_copy(this),
                               finish = std::move(finish)] { finish(); });
}

Amount SparseWork::amount() const {
    const uint64_t elements = rows_passed_ * (notice_.fault == RowFault::None ? notice_.width() : 0);
    return {elements, elements * request_.inputs[0].element_size(), rows_passed_, all_.size()};
}

void SparseWork::release() { share_ = {}; }

} // namespace wiresum
