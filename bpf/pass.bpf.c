// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Passes everything. A veth delivers what an XDP program sends through its peer only if it runs a program
// itself.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp") int pass(struct xdp_md *ctx __attribute__((unused))) { return XDP_PASS; }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
