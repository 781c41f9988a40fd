#include "progress.h"

#include <algorithm>

#include <c10/util/StringUtil.h>

namespace wiresum {

namespace {

// While nothing is due: a bound, so that a clock that jumps cannot hold a wait up.
constexpr std::chrono::seconds kLook{10};

} // namespace

uint64_t Progress::begin(const char *collective) {
    std::lock_guard lock(mutex_);
    pending_.emplace(begun_, Pending{collective, Clock::now()});
    if (!absences_.empty()) {
        changed_.notify_all();
    }
    return begun_++;
}

void Progress::end(uint64_t number, bool is_well) {
    std::lock_guard lock(mutex_);
    pending_.erase(number);
    if (!is_well && number < begun_) {
        first_failed_ = std::min(first_failed_.value_or(number), number);
    }
    if (!absences_.empty()) {
        changed_.notify_all();
    }
}

void Progress::begin_again(uint64_t number, const char *collective) {
    std::lock_guard lock(mutex_);
    pending_.insert_or_assign(number, Pending{collective, Clock::now()});
    changed_.notify_all();
}

Progress::Count Progress::count() const {
    std::lock_guard lock(mutex_);
    const uint64_t ended = pending_.empty() ? begun_ : std::min(begun_, pending_.begin()->first);
    return {std::min(ended, first_failed_.value_or(ended)), begun_};
}

void Progress::note_absence(int rank, Count count, bool is_lost) {
    std::lock_guard lock(mutex_);
    absences_.emplace(rank, Absence{count, is_lost, Clock::now()});
    changed_.notify_all();
}

void Progress::forget_absences(const std::vector<int> &ranks) {
    std::lock_guard lock(mutex_);
    for (const int rank : ranks) {
        absences_.erase(rank);
    }
}

std::string Progress::absentees() const {
    std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (const auto &[rank, absence] : absences_) {
        ranks.push_back(rank);
    }
    return ranks.empty() ? "" : c10::str(ranks.size() > 1 ? "ranks " : "rank ", c10::Join(", ", ranks));
}

// The collective that this rank keeps from ending, if it is known by now; else when to look again. Those that
// the rank has ended itself come first: they end as usual.
std::optional<uint64_t> Progress::stalled_by(const Absence &absence, Clock::time_point now,
                                             Clock::time_point &look) const {
    const auto first = pending_.begin();
    if (!absence.is_lost || first == pending_.end() || first->first < absence.count.ended) {
        return std::nullopt;
    }
    const auto due = std::max(first->second.since, absence.since) + kGrace;
    if (first->first >= absence.count.begun || now >= due) {
        return first->first;
    }
    look = std::min(look, due);
    return std::nullopt;
}

std::optional<Stalled> Progress::await_stalled() {
    std::unique_lock lock(mutex_);
    while (!is_closed_) {
        const auto now = Clock::now();
        auto look = now + kLook;
        std::optional<Stalled> stalled;
        for (const auto &[rank, absence] : absences_) {
            const auto number = stalled_by(absence, now, look);
            if (number && !stalled) {
                const bool was_told = absence.count.begun != kUnknown.begun;
                stalled = Stalled{{}, *number, pending_.at(*number).collective, was_told};
            }
            if (number) {
                stalled->ranks.push_back(rank);
            }
        }
        if (stalled) {
            return stalled;
        }
        changed_.wait_until(lock, look);
    }
    return std::nullopt;
}

void Progress::close() {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
}

} // namespace wiresum
