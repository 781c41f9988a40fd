// SPDX-License-Identifier: Apache-2.0
/* Where packets go: up by the ways of the plan, down in copies, and others by their destination. */
#ifndef WIRESUM_FORWARDING_P4
#define WIRESUM_FORWARDING_P4

#include "check.p4"
#include "headers.p4"
#include "work.p4"

/* Most hosts that are routed to, most ways up, and most copies of results of all streams. */
#define ROUTES 1024
#define WAYS 4096
#define COPIES 4096

/* Up: by stream, address and, where two sums with one address part, by worker. */
control Ways(inout headers_t hdr, out bit<9> port, out bit<1> is_known) {
    action way(bit<9> to, bit<48> mac, bit<32> address) {
        port = to;
        hdr.ethernet.destination = mac;
        hdr.ipv4.destination = address;
        is_known = 1;
    }

    action unknown() {
        port = 0;
        is_known = 0;
    }

    table ways {
        key = {
            hdr.wiresum.job: exact;
            hdr.wiresum.sub_model: exact;
            hdr.wiresum.node: exact;
            hdr.wiresum.contributor: ternary;
        }
        actions = { way; unknown; }
        const default_action = unknown();
        size = WAYS;
    }

    apply {
        ways.apply();
    }
}

/* By the destination's address: other traffic, and of ours what has no way in the tables. */
control Routes(inout headers_t hdr, out bit<9> port, out bit<1> is_routed) {
    action route(bit<9> to, bit<48> mac) {
        port = to;
        hdr.ethernet.destination = mac;
        is_routed = 1;
    }

    action unknown() {
        port = 0;
        is_routed = 0;
    }

    table routes {
        key = { hdr.ipv4.destination: exact; }
        actions = { route; unknown; }
        const default_action = unknown();
        size = ROUTES;
    }

    apply {
        routes.apply();
    }
}

/* A copy of a result at its port: for those of its contributors who are below, and for no one else. The check changes by as much
 * as the set of contributors does. */
control Copy(inout headers_t hdr, in bit<9> port, out bit<1> is_wanted) {
    HeaderSum() before;
    HeaderSum() after;
    cohort_t cohort;
    bit<32> old_sum;
    bit<32> new_sum;

    action below(contributors_t members, bit<48> mac, bit<32> address) {
        hdr.switched.contributors = hdr.switched.contributors & members;
        hdr.ethernet.destination = mac;
        hdr.ipv4.destination = address;
    }

    action nobody() {
        hdr.switched.contributors = 0;
    }

    table copies {
        key = {
            hdr.wiresum.job: exact;
            hdr.wiresum.sub_model: exact;
            cohort: exact;
            port: exact;
        }
        actions = { below; nobody; }
        const default_action = nobody();
        size = COPIES;
    }

    apply {
        before.apply(hdr.wiresum, hdr.switched, old_sum);
        cohort = hdr.wiresum.contributor[7:6];
        copies.apply();
        after.apply(hdr.wiresum, hdr.switched, new_sum);
        hdr.wiresum.check = hdr.wiresum.check + new_sum - old_sum;
        is_wanted = hdr.switched.contributors != 0 ? 1w1 : 0;
    }
}

#endif
