#include "reconfigurable.h"

#include <algorithm>
#include <variant>

#include <c10/util/Exception.h>

namespace wiresum {

namespace {

// What has ended before anybody could wait for it.
class EndedWork final : public c10d::Work {
  public:
    EndedWork() { finish(); }
};

using Handles = std::vector<c10d::ReconfigureHandle>;

Handles in_order(const c10d::ReconfigureOptions &options) {
    if (const auto *ordered = std::get_if<Handles>(&options.handles)) {
        return *ordered;
    }
    const auto &some = std::get<std::unordered_set<c10d::ReconfigureHandle>>(options.handles);
    Handles sorted(some.begin(), some.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
}

} // namespace

using BackendPtr = ReconfigurableBackend::BackendPtr;

BackendPtr ReconfigurableBackend::members() const {
    std::lock_guard lock(mutex_);
    return members_;
}

BackendPtr ReconfigurableBackend::now() const {
    BackendPtr present = members();
    TORCH_CHECK(present,
                "wiresum: this group has no members yet, as it was created with enable_reconfigure=True: "
                "call reconfigure() with their handles first.");
    return present;
}

c10::intrusive_ptr<c10d::Work> ReconfigurableBackend::reconfigure(const c10d::ReconfigureOptions &options) {
    if (const BackendPtr before = members()) {
        before->abort();
    }
    Handles handles = in_order(options);
    const auto own = std::find(handles.begin(), handles.end(), handle_());
    TORCH_CHECK(own != handles.end(),
                "wiresum: reconfigure() was called on a process whose handle is none of the ", handles.size(),
                " that it was given.");
    const auto rank = static_cast<int>(own - handles.begin());
    const auto size = static_cast<int>(handles.size());
    BackendPtr made = meet_(options.uuid, std::move(handles), options.timeout.value_or(timeout_));
    std::lock_guard lock(mutex_);
    if (!uid_.empty()) {
        made->setGroupUid(uid_);
    }
    made->setTimeout(timeout_);
    members_ = std::move(made);
    rank_ = rank;
    size_ = size;
    return c10::make_intrusive<EndedWork>();
}

c10::intrusive_ptr<c10d::Backend::Options> ReconfigurableBackend::getBackendOptions() {
    const BackendPtr present = members();
    return present ? present->getBackendOptions() : c10::make_intrusive<Options>(getBackendName(), timeout_);
}

uint64_t ReconfigurableBackend::getSequenceNumberForGroup() {
    const BackendPtr present = members();
    return present ? present->getSequenceNumberForGroup() : 0;
}

void ReconfigurableBackend::setTimeout(std::chrono::milliseconds timeout) {
    std::lock_guard lock(mutex_);
    timeout_ = timeout;
    if (members_) {
        members_->setTimeout(timeout);
    }
}

void ReconfigurableBackend::setGroupUid(const std::string &name) {
    Backend::setGroupUid(name);
    std::lock_guard lock(mutex_);
    uid_ = name;
    if (members_) {
        members_->setGroupUid(name);
    }
}

c10d::ErrorType ReconfigurableBackend::getError() {
    const BackendPtr present = members();
    return present ? present->getError() : c10d::ErrorType::SUCCESS;
}

void ReconfigurableBackend::abort() {
    if (const BackendPtr present = members()) {
        present->abort();
    }
}

void ReconfigurableBackend::shutdown() {
    if (const BackendPtr present = members()) {
        present->shutdown();
    }
}

} // namespace wiresum
