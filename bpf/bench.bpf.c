// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The aggregator with what its tests and benchmarks need beside it.
#include "aggregator.bpf.c"

// The kernel's test-run refuses devmap programs; this one addresses a copy as if it left through the port it
// came in by.
SEC("xdp") int test_copy(struct xdp_md *ctx) { return address_copy(ctx, ctx->ingress_ifindex); }
