#include "going_over.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "remaining.h"

namespace wiresum {

namespace {

// What ranks tell each other when they meet; of each word all get the largest.
enum Word { kFurthest, kLeast, kOldest, kUnkept, kMostShares, kLeastShares, kOldestShare, kWords };

c10d::ReduceOp largest() { return c10d::ReduceOp(c10d::ReduceOp::MAX); }

template <typename Options> Options with(std::chrono::milliseconds timeout) {
    Options options;
    options.timeout = timeout;
    return options;
}

at::Tensor bytes_of(const at::Tensor &tensor) { return tensor.view(-1).view(at::kByte); }

// As many parts of it as there are ranks.
std::vector<at::Tensor> parts_of(const at::Tensor &whole, int ranks) { return bytes_of(whole).chunk(ranks); }

void gather_by_gloo(c10d::Backend &gloo, int root, const at::Tensor &share, const at::Tensor &all,
                    std::chrono::milliseconds timeout) {
    auto options = with<c10d::GatherOptions>(timeout);
    options.rootRank = root;
    std::vector<at::Tensor> given{bytes_of(share)};
    std::vector<std::vector<at::Tensor>> taken;
    if (gloo.getRank() == root) {
        taken.push_back(parts_of(all, gloo.getSize()));
    }
    gloo.gather(taken, given, options)->wait();
}

void scatter_by_gloo(c10d::Backend &gloo, int root, const at::Tensor &all, const at::Tensor &part,
                     std::chrono::milliseconds timeout) {
    auto options = with<c10d::ScatterOptions>(timeout);
    options.rootRank = root;
    std::vector<at::Tensor> taken{bytes_of(part)};
    std::vector<std::vector<at::Tensor>> given;
    if (gloo.getRank() == root) {
        given.push_back(parts_of(all, gloo.getSize()));
    }
    gloo.scatter(taken, given, options)->wait();
}

// Room for what a rank takes of a copy of these values.
at::Tensor room_for(const c10d::Backend &gloo, wiresum_kind kind, int root, const at::Tensor &values) {
    const bool is_root = gloo.getRank() == root;
    const int64_t length = values.numel();
    switch (kind) {
    case WIRESUM_SCATTER:
        return at::empty({length / gloo.getSize()}, values.options());
    case WIRESUM_GATHER:
        return at::empty({is_root ? length * gloo.getSize() : 0}, values.options());
    case WIRESUM_ALL_GATHER:
        return at::empty({length * gloo.getSize()}, values.options());
    default:
        return is_root ? values : at::empty({length}, values.options());
    }
}

} // namespace

void copy_by_gloo(c10d::Backend &gloo, wiresum_kind kind, int root, const at::Tensor &source,
                  const at::Tensor &sink, std::chrono::milliseconds timeout) {
    at::NoGradGuard no_grad;
    if (kind == WIRESUM_GATHER) {
        gather_by_gloo(gloo, root, source, sink, timeout);
        return;
    }
    if (kind == WIRESUM_SCATTER) {
        scatter_by_gloo(gloo, root, source, sink, timeout);
        return;
    }
    at::Tensor bytes = bytes_of(sink);
    if (kind == WIRESUM_ALL_GATHER) {
        at::Tensor share = bytes_of(source);
        gloo.all_gather_single(bytes, share, with<c10d::AllgatherOptions>(timeout))->wait();
        return;
    }
    std::vector<at::Tensor> values{bytes};
    auto options = with<c10d::BroadcastOptions>(timeout);
    options.rootRank = root;
    gloo.broadcast(values, options)->wait();
}

void sum_by_gloo(c10d::Backend &gloo, wiresum_kind kind, int root, const c10d::ReduceOp &operation,
                 const at::Tensor &source, at::Tensor &sink, std::chrono::milliseconds timeout) {
    at::NoGradGuard no_grad;
    if (kind == WIRESUM_REDUCE_SCATTER) {
        auto options = with<c10d::ReduceScatterOptions>(timeout);
        options.reduceOp = operation;
        at::Tensor flat = source.reshape(-1);
        at::Tensor part = sink.view(-1);
        gloo.reduce_scatter_single(part, flat, options)->wait();
        return;
    }
    if (!sink.is_same(source)) {
        sink.copy_(source);
    }
    std::vector<at::Tensor> values{sink};
    if (kind == WIRESUM_REDUCE) {
        auto options = with<c10d::ReduceOptions>(timeout);
        options.reduceOp = operation;
        options.rootRank = root;
        gloo.reduce(values, options)->wait();
    } else {
        auto options = with<c10d::AllreduceOptions>(timeout);
        options.reduceOp = operation;
        gloo.allreduce(values, options)->wait();
    }
}

void GoingOver::go_on_without(c10::intrusive_ptr<c10d::Backend> gloo) {
    await();
    std::lock_guard lock(mutex_);
    gloo_ = std::move(gloo);
    has_lost_ranks_ = true;
}

void GoingOver::note_begun(bool is_kept) {
    std::lock_guard lock(mutex_);
    if (!is_kept) {
        unkept_.push_back(begun_);
    }
    ++begun_;
}

uint64_t GoingOver::note_share(at::Tensor share, ReplayMemory::Lease kept) {
    std::lock_guard lock(mutex_);
    if (!has_met_) {
        // Without room it may be a view of memory that the user wants back.
        given_shares_.push_back({kept ? std::move(share) : at::Tensor(), std::move(kept)});
    }
    return begun_shares_++;
}

void GoingOver::end_share() {
    std::lock_guard lock(mutex_);
    ++ended_shares_;
    const uint64_t open = begun_shares_ - ended_shares_;
    while (given_shares_.size() > open + kKeptShares) {
        given_shares_.pop_front();
    }
}

void GoingOver::leave_share(Task task) {
    leave();
    post(std::move(task));
}

void GoingOver::note(Ended ended) {
    next_ = ++ended_;
    if (!ended.kept) {
        kept_.clear();
        kept_bytes_ = 0;
        return;
    }
    if (!kept_.empty()) {
        kept_bytes_ += kept_.back().values.nbytes();
    }
    kept_.push_back(std::move(ended));
    while (kept_bytes_ > memory_.ended_limit()) {
        kept_bytes_ -= kept_.front().values.nbytes();
        kept_.pop_front();
    }
}

void GoingOver::leave(std::function<void(uint64_t)> task) {
    leave();
    post([task = std::move(task), number = next_++] { task(number); });
}

void GoingOver::leave() {
    if (!has_left_) {
        has_left_ = true;
        post([this] { meet(); });
    }
}

void GoingOver::post(Task task) {
    {
        std::lock_guard lock(mutex_);
        ++tasks_;
    }
    order_->post([self = shared_from_this(), task = std::move(task)] {
        task();
        std::lock_guard lock(self->mutex_);
        if (--self->tasks_ == 0) {
            self->idle_.notify_all();
        }
    });
}

void GoingOver::await() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return tasks_ == 0; });
}

void GoingOver::await_meeting() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return has_met_; });
    if (failure_) {
        std::rethrow_exception(failure_);
    }
}

void GoingOver::come_back() {
    std::lock_guard lock(mutex_);
    has_left_ = has_met_ = has_lost_ranks_ = false;
    begun_ = ended_ = next_ = kept_bytes_ = 0;
    begun_shares_ = ended_shares_ = 0;
    unkept_.clear();
}

// Gives those that are behind what this rank has; what they have not is their own task.
void GoingOver::meet() {
    try {
        agree();
        gather_shares();
        const uint64_t oldest = ended_ - kept_.size();
        for (uint64_t number = first_; number < ended_; ++number) {
            share(kept_.at(number - oldest));
        }
    } catch (...) {
        failure_ = std::current_exception();
    }
    kept_.clear();
    std::lock_guard lock(mutex_);
    given_shares_.clear();
    has_met_ = true;
    idle_.notify_all();
}

// The first collective that this rank has not ended, and cannot begin anew.
uint64_t GoingOver::first_unkept() {
    std::lock_guard lock(mutex_);
    const auto first = std::lower_bound(unkept_.begin(), unkept_.end(), ended_);
    return first == unkept_.end() ? kAllKept : *first;
}

// The first share from which on this rank has all that it has passed.
uint64_t GoingOver::first_kept_share() {
    std::lock_guard lock(mutex_);
    const auto lost = std::find_if(given_shares_.rbegin(), given_shares_.rend(),
                                   [](const GivenShare &given) { return !given.kept; });
    return begun_shares_ - static_cast<uint64_t>(lost - given_shares_.rbegin());
}

// A share that has ended on any rank was passed by all: each reduces it from the same bytes.
void GoingOver::gather_shares() {
    for (uint64_t number = first_share_; number < last_share_; ++number) {
        at::Tensor own;
        {
            std::lock_guard lock(mutex_);
            own = given_shares_.at(number - (begun_shares_ - given_shares_.size())).share;
        }
        at::Tensor all;
        if (own.defined()) {
            all = gather_rows(*gloo_, own, c10d::kUnsetTimeout);
        }
        shares_.push_back(all);
    }
}

void GoingOver::agree() {
    const int64_t ranks = gloo_->getSize();
    const int64_t before = ranks - 1 - gloo_->getRank(); // of ranks that are equally far the first one leads
    const auto ended = static_cast<int64_t>(ended_);
    at::Tensor words = at::empty({kWords}, at::kLong);
    words[kFurthest] = ended * ranks + before;
    words[kLeast] = -ended;
    words[kOldest] = ended - static_cast<int64_t>(kept_.size());
    words[kUnkept] = -static_cast<int64_t>(first_unkept());
    words[kOldestShare] = static_cast<int64_t>(first_kept_share());
    {
        std::lock_guard lock(mutex_);
        words[kMostShares] = static_cast<int64_t>(ended_shares_);
        words[kLeastShares] = -static_cast<int64_t>(ended_shares_);
    }
    std::vector<at::Tensor> told{words};
    c10d::AllreduceOptions options;
    options.reduceOp = largest();
    gloo_->allreduce(told, options)->wait();
    const auto word = [&](Word which) { return words[which].item<int64_t>(); };
    const int64_t first = -word(kLeast);
    TORCH_CHECK(word(kOldest) <= first, "a rank has no result of collective ", first,
                ", and those that had it have kept none before ", word(kOldest), memory_.advice());
    TORCH_CHECK(-word(kUnkept) == static_cast<int64_t>(kAllKept), "a rank has no input of collective ",
                -word(kUnkept), " any more, some of which results may have replaced", memory_.advice());
    first_share_ = static_cast<uint64_t>(-word(kLeastShares));
    last_share_ = static_cast<uint64_t>(word(kMostShares));
    shares_.clear();
    TORCH_CHECK(first_share_ == last_share_ || word(kOldestShare) <= -word(kLeastShares),
                "a rank has no result of small collective ", first_share_,
                ", and another one has not kept what it has passed", memory_.advice());
    TORCH_CHECK(first_share_ == last_share_ || !has_lost_ranks_, "a rank has no result of small collective ",
                first_share_, ", and one that took part in it is lost");
    first_ = static_cast<uint64_t>(first);
    leader_ = static_cast<int>(ranks - 1 - word(kFurthest) % ranks);
    agree_on_fates(word(kFurthest) / ranks);
}

// The leader tells how the collectives that some rank has not ended have ended.
void GoingOver::agree_on_fates(int64_t furthest) {
    const auto first = static_cast<int64_t>(first_);
    const auto ended = static_cast<int64_t>(ended_);
    fates_.clear();
    at::Tensor fates = at::zeros({furthest - first}, at::kLong);
    if (fates.numel() == 0) {
        return;
    }
    if (gloo_->getRank() == leader_) {
        const int64_t oldest = ended - static_cast<int64_t>(kept_.size());
        for (int64_t number = first; number < ended; ++number) {
            fates[number - first] = static_cast<int64_t>(kept_.at(number - oldest).reason);
        }
    }
    std::vector<at::Tensor> given{fates};
    c10d::BroadcastOptions from;
    from.rootRank = leader_;
    gloo_->broadcast(given, from)->wait();
    for (int64_t index = 0; index < fates.numel(); ++index) {
        fates_.push_back(static_cast<Reason>(fates[index].item<int64_t>()));
    }
}

void GoingOver::share(const Ended &ended) {
    if (ended.reason != Reason::Summed) {
        return; // it is summed again where it is on its way already
    }
    at::NoGradGuard no_grad;
    const auto timeout = c10d::kUnsetTimeout;
    if (ended.kind == WIRESUM_ALL_REDUCE) {
        at::Tensor results = gloo_->getRank() == leader_ ? ended.values : at::empty_like(ended.values);
        receive(results, timeout);
        return;
    }
    const Remaining *remaining = remaining_of(*gloo_);
    if (remaining != nullptr && !remaining->allows(ended.kind, ended.root)) {
        return; // who lacks it gets the error
    }
    if (is_copy(ended.kind)) {
        const at::Tensor sink = room_for(*gloo_, ended.kind, ended.root, ended.values);
        copy_by_gloo(*gloo_, ended.kind, ended.root, ended.values, sink, timeout);
        return;
    }
    const bool is_scattered = ended.kind == WIRESUM_REDUCE_SCATTER;
    at::Tensor scratch = is_scattered
                             ? at::empty({ended.values.numel() / gloo_->getSize()}, ended.values.options())
                             : at::empty_like(ended.values);
    sum_by_gloo(*gloo_, ended.kind, ended.root, ended.operation, ended.values, scratch, timeout);
}

Reason GoingOver::fate(uint64_t number) const {
    if (failure_) {
        std::rethrow_exception(failure_);
    }
    const uint64_t index = number - first_;
    return index < fates_.size() ? fates_[index] : Reason::NotServed;
}

bool GoingOver::has_ended_share(uint64_t number) const {
    if (failure_) {
        std::rethrow_exception(failure_);
    }
    return number >= first_share_ && number < last_share_;
}

void GoingOver::receive(at::Tensor &results, std::chrono::milliseconds timeout) {
    std::vector<at::Tensor> taken{results};
    auto options = with<c10d::BroadcastOptions>(timeout);
    options.rootRank = leader_;
    gloo_->broadcast(taken, options)->wait();
}

} // namespace wiresum
