#include "forked.h"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/utils/pybind.h>

#include "errors.h"

namespace wiresum {

namespace {

std::atomic<uint64_t> forks{0}; // between the first process with this code and this one
std::atomic<int> process_rank{-1};
std::atomic<uint64_t> forks_at_rank{0}; // when the rank was noted

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });

CollectiveError forked_error(const char *call, int rank) {
    return {WIRESUM_FAILED,
            c10::str("wiresum: ", call, ": this process was forked from rank ", rank,
                     "; create a group here. The threads and connections of the parent's group are not "
                     "in this process. Call destroy_process_group(), which raises this error once more "
                     "and forgets that group, then init_process_group().")};
}

bool handles_exception() {
    const py::tuple current = py::module_::import("sys").attr("exc_info")();
    return !current[0].is_none();
}

} // namespace

Owner::Owner() : forks_(forks), rank_(process_rank) {}

bool Owner::is_this_process() const { return forks_ == forks; }

void Owner::check(const char *call) const {
    if (!is_this_process()) {
        throw forked_error(call, rank_);
    }
}

void note_rank(int rank) {
    process_rank = rank;
    forks_at_rank = forks.load();
}

void check_process(const char *call) {
    if (process_rank >= 0 && forks_at_rank != forks) {
        throw forked_error(call, process_rank);
    }
}

// PyTorch shuts a group down before it forgets it, and forgets none if that fails.
void forget_groups() {
    static bool is_forgetting = false;
    if (is_forgetting) {
        return;
    }
    is_forgetting = true;
    const auto forgotten = c10::make_scope_exit([] { is_forgetting = false; });
    const CollectiveError error = forked_error("destroy_process_group", process_rank);
    py::gil_scoped_acquire lock;
    const py::module_ distributed = py::module_::import("torch.distributed");
    // Groups of other backends, whose destructors would change the parent's connections.
    const py::object groups = distributed.attr("distributed_c10d").attr("_world").attr("pg_map");
    leave_to_parent(py::list(groups));
    distributed.attr("destroy_process_group")();
    if (!handles_exception()) {
        throw error;
    }
    TORCH_WARN(error.what());
}

} // namespace wiresum
