// Forked processes: they have the memory of their parent and none of its threads, and share its descriptors.
#pragma once

#include <atomic>
#include <cstdint>

#include <pthread.h>

namespace wiresum {

// The process that an object belongs to. Thread-safe, takes no lock.
class Owner {
  public:
    Owner();

    // False in a process that was forked from the owner.
    bool is_this_process() const;
    // Throws CollectiveError in a process that was forked from the owner.
    void check(const char *call) const;

  private:
    const uint64_t forks_;
    const int rank_;
};

// Notes the rank of this process in its default group.
void note_rank(int rank);

// Throws CollectiveError if this process was forked from a rank and has no group yet.
void check_process(const char *call);

// Has PyTorch forget the groups of the parent, then throws CollectiveError. Only logs the error if Python
// handles an exception already, which it would hide: the program may end by that.
void forget_groups();

// Keeps these for the life of the process. Their destructors would join threads that only the parent has,
// and change what the parent's descriptors share with this process.
template <typename... Parts> void leave_to_parent(const Parts &...parts) {
    (static_cast<void>(new Parts(parts)), ...);
}

// One object for each process. A forked process begins with a new one: a thread of the parent may hold the
// locks of the old one. Never destroyed, as threads may outlive static destruction.
template <typename T> T &of_this_process() {
    static std::atomic<T *> object = [] {
        pthread_atfork(nullptr, nullptr, [] { object = new T; });
        return new T;
    }();
    return *object;
}

} // namespace wiresum
