// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The aggregator: sums contributions in the driver's receive path, answers and broadcasts from there. What it
// does with each packet is written in spec/aggregation.md, and must be what crates/protocol does.
#include "contribution.h"
#include "control.h"
#include "egress.h"
#include "survey.h"

static __always_inline enum verdict handle(struct xdp_md *ctx, struct arrival *arrival) {
    switch (arrival->packet.header->kind) {
    case WIRESUM_KIND_CONTRIBUTION:
        return contribute(ctx, arrival);
    case WIRESUM_KIND_RESULT:
        return store_result(ctx, arrival);
    case WIRESUM_KIND_PROBE:
        return answer_probe(ctx, arrival);
    case WIRESUM_KIND_STATUS:
        return pass_up(ctx, arrival, 1, WIRESUM_STATUS_WORDS);
    case WIRESUM_KIND_READY:
        return pass_up(ctx, arrival, 0, WIRESUM_READY_WORDS);
    case WIRESUM_KIND_RATE:
        return pass_up(ctx, arrival, 1, WIRESUM_RATE_WORDS);
    default:
        return hear(ctx, arrival);
    }
}

static __always_inline int aggregate_packet(struct xdp_md *ctx) {
    struct arrival arrival;
    begin_arrival(&arrival);
    enum parsed form = parse(ctx, &arrival.packet);
    if (form == NOT_OURS)
        return XDP_PASS;
    enum verdict verdict = form == WELL_FORMED ? handle(ctx, &arrival) : MALFORMED;
    return conclude(ctx, &arrival, verdict);
}

SEC("xdp") int aggregate(struct xdp_md *ctx) { return aggregate_packet(ctx); }

SEC("xdp") int survey(struct xdp_md *ctx) { return survey_group(ctx); }

SEC("xdp/devmap") int send_copy(struct xdp_md *ctx) { return address_copy(ctx, ctx->egress_ifindex); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
