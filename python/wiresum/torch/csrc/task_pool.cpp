#include "task_pool.h"

#include <exception>
#include <system_error>
#include <thread>

#include <c10/util/Exception.h>

namespace wiresum {

namespace {

// A task reports its own failures; one that escapes is a callback's, which has no one else to tell.
void run_guarded(const Task &task) {
    try {
        task();
    } catch (const std::exception &error) {
        TORCH_WARN("wiresum: a callback of a collective raised: ", error.what());
    } catch (...) {
        TORCH_WARN("wiresum: a callback of a collective raised an unknown exception");
    }
}

} // namespace

TaskPool &TaskPool::instance() {
    // Never destroyed: its threads outlive static destruction.
    static auto *pool = new TaskPool;
    return *pool;
}

TaskPool::TaskPool() { start_thread(); }

void TaskPool::start_thread() {
    std::thread([this] { run(); }).detach();
    ++threads_;
}

void TaskPool::post(Task task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_ && threads_ < kMaxThreads) {
        try {
            start_thread();
        } catch (const std::system_error &) {
            // The system has no thread left: one that runs will come to this task.
        }
    }
    ready_.notify_one();
}

namespace {

thread_local bool is_of_pool = false;

} // namespace

bool TaskPool::is_own_thread() { return is_of_pool; }

void TaskPool::run() {
    is_of_pool = true;
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        ready_.wait(lock, [this] { return !tasks_.empty(); });
        --idle_;
        Task task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        run_guarded(task);
        task = nullptr; // what it holds may take Python's lock to go away
        lock.lock();
    }
}

void Strand::post(Task task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (!draining_) {
        draining_ = true;
        TaskPool::instance().post([self = shared_from_this()] { self->drain(); });
    }
}

void Strand::drain() {
    for (;;) {
        Task task;
        {
            std::lock_guard lock(mutex_);
            if (tasks_.empty()) {
                draining_ = false;
                return;
            }
            task = std::move(tasks_.front());
            tasks_.pop_front();
        }
        run_guarded(task);
    }
}

} // namespace wiresum
