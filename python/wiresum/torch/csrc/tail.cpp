#include "tail.h"

#include <ATen/core/grad_mode.h>

namespace wiresum {

namespace {

int64_t length_of(const wiresum_span &span) { return static_cast<int64_t>(span.end - span.start); }

at::Tensor part_of(const at::Tensor &values, const wiresum_span &span) {
    return values.view(-1).narrow(0, static_cast<int64_t>(span.start), length_of(span));
}

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

void Tail::gather(const at::Tensor &values, at::Tensor &tail) const {
    at::NoGradGuard no_grad;
    int64_t offset = 0;
    for (const wiresum_span &span : spans_) {
        tail.narrow(0, offset, length_of(span)).copy_(part_of(values, span));
        offset += length_of(span);
    }
}

void Tail::scatter(const at::Tensor &tail, at::Tensor &values) const {
    at::NoGradGuard no_grad;
    int64_t offset = 0;
    for (const wiresum_span &span : spans_) {
        part_of(values, span).copy_(tail.narrow(0, offset, length_of(span)));
        offset += length_of(span);
    }
}

} // namespace wiresum
