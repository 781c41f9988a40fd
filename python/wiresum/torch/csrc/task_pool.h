// Threads on which collectives are completed: the engine's own thread must never run a user's callback.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace wiresum {

using Task = std::function<void()>;

// Threads for the whole process, started when no idle one is left: a callback may wait for a later collective
// (PowerSGD's hook does), whose completion then needs another thread. Lives until the process ends.
class TaskPool {
  public:
    // Collectives whose callbacks wait for each other; more would wait for a thread.
    static constexpr size_t kMaxThreads = 64;

    // Starts the first thread, or throws std::system_error.
    static TaskPool &instance();
    void post(Task task);
    // Whether this thread is one of them.
    static bool is_own_thread();

  private:
    TaskPool();
    void start_thread();
    void run();

    std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<Task> tasks_;
    size_t threads_ = 0;
    size_t idle_ = 0;
};

// Runs tasks one after another, in the order in which they were posted, on threads of the pool.
class Strand : public std::enable_shared_from_this<Strand> {
  public:
    void post(Task task);

  private:
    void drain();

    std::mutex mutex_;
    std::deque<Task> tasks_;
    bool draining_ = false;
};

} // namespace wiresum
