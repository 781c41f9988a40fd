#include "tail.h"

#include <cstring>

namespace wiresum {

namespace {

int64_t length_of(const wiresum_span &span) { return static_cast<int64_t>(span.end - span.start); }

} // namespace

Tail::Tail(const wiresum_engine_abi &engine, const wiresum_collective &collective)
    : spans_{{0, collective.elements}} {
    if (engine.tail == nullptr) {
        return;
    }
    const auto written_to = [&](wiresum_span *spans, uint64_t room) {
        return engine.tail(engine.engine, collective.elements, collective.element_type, collective.bits,
                           spans, room);
    };
    spans_.resize(written_to(nullptr, 0));
    written_to(spans_.data(), spans_.size());
}

int64_t Tail::elements() const {
    int64_t sum = 0;
    for (const wiresum_span &span : spans_) {
        sum += length_of(span);
    }
    return sum;
}

// Byte by byte and not as tensors: the engine's thread, which gathers, has no use for PyTorch's threads.
void Tail::gather(const at::Tensor &values, at::Tensor &tail) const {
    const auto width = static_cast<size_t>(values.element_size());
    const auto *from = static_cast<const char *>(values.const_data_ptr());
    auto *to = static_cast<char *>(tail.mutable_data_ptr());
    for (const wiresum_span &span : spans_) {
        const size_t bytes = (span.end - span.start) * width;
        std::memcpy(to, from + span.start * width, bytes);
        to += bytes;
    }
}

void Tail::scatter(const at::Tensor &tail, at::Tensor &values) const {
    const auto width = static_cast<size_t>(values.element_size());
    const auto *from = static_cast<const char *>(tail.const_data_ptr());
    auto *to = static_cast<char *>(values.mutable_data_ptr());
    for (const wiresum_span &span : spans_) {
        const size_t bytes = (span.end - span.start) * width;
        std::memcpy(to + span.start * width, from, bytes);
        from += bytes;
    }
}

} // namespace wiresum
