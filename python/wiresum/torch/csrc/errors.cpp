#include "errors.h"

#include <array>

namespace wiresum {

namespace {

std::array<PyObject *, WIRESUM_WORKER_LOST + 1> error_types{};

} // namespace

PyObject *CollectiveError::python_type() {
    PyObject *type = error_types.at(outcome);
    return type != nullptr ? type : PyExc_RuntimeError;
}

void set_error_type(wiresum_outcome outcome, PyObject *type) {
    Py_INCREF(type);
    error_types.at(outcome) = type;
}

const char *remedy(wiresum_outcome outcome) {
    switch (outcome) {
    case WIRESUM_MISMATCH:
        return "Every rank must pass the same collective, with the same number of elements, type and "
               "operation.";
    case WIRESUM_TIMED_OUT:
        return "Look at the rank or node that is named; if it is only slow, give init_process_group() a "
               "longer timeout.";
    case WIRESUM_WORKER_LOST:
        return "Destroy this group and create it again with all its ranks, as torchrun does with "
               "--max-restarts.";
    default:
        return "This group cannot sum in the network any more: destroy it and create it again.";
    }
}

} // namespace wiresum
