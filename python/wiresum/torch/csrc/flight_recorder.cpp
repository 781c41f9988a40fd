#include "flight_recorder.h"

#include <string_view>
#include <thread>

#include <c10/util/ApproximateClock.h>
#include <c10/util/thread_name.h>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <torch/version.h>

namespace wiresum {

namespace {

float milliseconds(std::chrono::nanoseconds duration) {
    return std::chrono::duration<float, std::milli>(duration).count();
}

} // namespace

uint64_t CompletionHooks::next_key() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

void CompletionHooks::add(int64_t id, c10d::CompletionHook hook) {
    std::lock_guard lock(mutex_);
    hooks_[id] = std::make_shared<const c10d::CompletionHook>(std::move(hook));
}

void CompletionHooks::remove(int64_t id) {
    std::lock_guard lock(mutex_);
    hooks_.erase(id);
}

// A hook may remove itself, so it is called without the lock.
void CompletionHooks::call(uint64_t key, std::chrono::nanoseconds duration) const {
    std::vector<std::shared_ptr<const c10d::CompletionHook>> hooks;
    {
        std::lock_guard lock(mutex_);
        for (const auto &[id, hook] : hooks_) {
            hooks.push_back(hook);
        }
    }
    for (const auto &hook : hooks) {
        (*hook)({.completionKey = key, .duration_ms = milliseconds(duration)});
    }
}

// PyTorch exports the recorder but hides its `record`, so entries are written here, for the layout of 2.15.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 15

namespace {

using Recorder = c10d::FlightRecorder<c10::Event>;

Recorder &default_recorder() { return *c10d::getFlightRecorder(c10d::kDefaultFRBackend); }

// The names that PyTorch's analyzer of traces knows.
const char *name_in_traces(std::string_view collective) {
    static const std::map<std::string_view, const char *> names = {
        {"all_gather_coalesced", "allgather_coalesced"},
        {"all_gather_single_coalesced", "all_gather_into_tensor_coalesced"},
        {"all_reduce_coalesced", "allreduce_coalesced"},
        {"all_reduce_int8", "all_reduce"},
        {"gather_single", "gather"},
        {"reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"},
    };
    const auto known = names.find(collective);
    return known == names.end() ? collective.data() : known->second;
}

using Sizes = c10::SmallVector<int64_t, 4>;

void describe(const std::vector<at::Tensor> &tensors, Sizes &dims, std::vector<c10::ScalarType> &types,
              c10::SmallVector<int64_t, 8> &sizes) {
    for (const at::Tensor &tensor : tensors) {
        types.push_back(tensor.scalar_type());
        dims.push_back(tensor.dim());
        sizes.insert(sizes.end(), tensor.sizes().begin(), tensor.sizes().end());
    }
}

// The ring is full once it has `max_entries_`, and then overwrites its oldest entry.
void put(Recorder &recorder, Recorder::Entry entry) {
    if (recorder.entries_.size() < recorder.max_entries_) {
        recorder.entries_.push_back(std::move(entry));
    } else {
        recorder.entries_[recorder.next_] = std::move(entry);
    }
    recorder.next_ = (recorder.next_ + 1) % recorder.max_entries_;
}

Recorder::Entry *find(Recorder &recorder, size_t id, size_t epoch) {
    const auto start = recorder.reset_epoch_start_idx_.find(epoch);
    if (start == recorder.reset_epoch_start_idx_.end()) {
        return nullptr;
    }
    const size_t index = (start->second + id) % recorder.max_entries_;
    if (index >= recorder.entries_.size()) {
        return nullptr;
    }
    Recorder::Entry &entry = recorder.entries_[index];
    return entry.id_ == id && entry.reset_epoch_ == epoch ? &entry : nullptr;
}

} // namespace

FlightEntry::FlightEntry(const std::string &group, const std::string &description, uint64_t group_id,
                         uint64_t sequence, const char *collective, const std::vector<at::Tensor> &inputs,
                         const std::vector<at::Tensor> &outputs, std::chrono::milliseconds timeout) {
    Recorder &recorder = default_recorder();
    if (!recorder.enabled_) {
        return;
    }
    Recorder::Entry entry{};
    entry.traceback_ = torch::CapturedTraceback::gather(true, true, recorder.capture_cpp_stack_);
    entry.pg_id_ = group_id;
    entry.pg_name_ = {group, description};
    entry.collective_seq_id_ = entry.op_id_ = sequence;
    entry.profiling_name_ = c10::str("wiresum:", name_in_traces(collective));
    entry.time_created_ = c10::getTime();
    entry.timeout_ms_ = timeout.count();
    entry.thread_id_ = std::this_thread::get_id();
    entry.thread_name_ = c10::getThreadName();
    describe(inputs, entry.input_dims_, entry.input_dtypes_, entry.sizes_);
    describe(outputs, entry.output_dims_, entry.output_dtypes_, entry.sizes_);
    std::lock_guard lock(recorder.mutex_);
    entry.id_ = recorder.id_++;
    entry.reset_epoch_ = recorder.reset_epoch_;
    place_ = {entry.id_, entry.reset_epoch_};
    put(recorder, std::move(entry));
}

void FlightEntry::end(bool is_success, std::chrono::nanoseconds duration) const {
    if (!place_) {
        return;
    }
    Recorder &recorder = default_recorder();
    std::lock_guard lock(recorder.mutex_);
    Recorder::Entry *entry = find(recorder, place_->id, place_->epoch);
    if (entry == nullptr) {
        return;
    }
    entry->retired_ = true;
    if (is_success) {
        entry->time_discovered_completed_ = c10::getTime();
        entry->time_discovered_started_ = entry->time_created_;
        entry->duration_ = milliseconds(duration);
    }
}

#else

FlightEntry::FlightEntry(const std::string &, const std::string &, uint64_t, uint64_t, const char *,
                         const std::vector<at::Tensor> &, const std::vector<at::Tensor> &,
                         std::chrono::milliseconds) {}

void FlightEntry::end(bool, std::chrono::nanoseconds) const {}

#endif

} // namespace wiresum
