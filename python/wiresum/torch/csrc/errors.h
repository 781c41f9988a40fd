// Exceptions of collectives, which Python sees as classes of `wiresum.errors` wherever they surface.
#pragma once

#include <exception>
#include <string>

#include <torch/csrc/Exceptions.h>

#include "engine_abi.h"

namespace wiresum {

// What a collective is told that was to be submitted after the end.
inline constexpr const char *kEngineIsClosed =
    "the connection to the network is closed, by an earlier error or by shutdown";

// torch turns a PyTorchError into its `python_type` on every way out of C++: wait(), futures, and the
// autograd engine.
struct CollectiveError : public torch::PyTorchError {
    CollectiveError(wiresum_outcome outcome, std::string message)
        : PyTorchError(std::move(message)), outcome(outcome) {}

    PyObject *python_type() override;

    const wiresum_outcome outcome;
};

// Sets the Python class for an outcome; it is kept for the life of the process.
void set_error_type(wiresum_outcome outcome, PyObject *type);

// What a user can do about an outcome.
const char *remedy(wiresum_outcome outcome);

} // namespace wiresum
