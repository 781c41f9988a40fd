// SPDX-License-Identifier: Apache-2.0
/* The switch in the architecture v1model, for the reference switch BMv2.
 *
 *   p4c-bm2-ss -I p4/v1model -D POLICY=hash -D SLOTS=8192 -D LANES=32 p4/v1model/switch.p4 -o hash.json
 *
 * TRACE, a number of packets, keeps their verdicts in a register, for tests. */
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

#define QUOTE(file) #file
#define POLICY_FILE(name) QUOTE(../policies/name.p4)
#include POLICY_FILE(POLICY)
#include "../include/aggregation.p4"
#include "../include/forwarding.p4"

/* Carries packets that go round once more, as far as the egress; no link has this number. */
const bit<9> RECIRCULATION_PORT = 510;
/* `instance_type` of a packet that went round. */
const bit<32> RECIRCULATED = 4;
const bit<8> NOTHING_PRESERVED = 0;

parser SwitchParser(packet_in packet, out headers_t hdr, inout work_t w, inout standard_metadata_t standard) {
    Datagram() datagram;
    state start {
        datagram.apply(packet, hdr);
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout work_t w) {
    apply {}
}

control SwitchIngress(inout headers_t hdr, inout work_t w, inout standard_metadata_t standard) {
    Form() form;
    Unseal() unseal;
    LaneSum() lane_sum;
    ByteOrder() from_wire;
    ByteOrder() to_wire;
    Aggregation() aggregation;
    Ways() ways;
    Routes() routes;
    counter<bit<32>>(VERDICTS, CounterType.packets) verdicts;
#ifdef TRACE
    register<bit<8>, bit<32>>(TRACE) trace;
    register<bit<32>, bit<32>>(1) trace_length;
#endif

    action count() {
        verdicts.count((bit<32>)w.verdict);
#ifdef TRACE
        bit<32> length;
        trace_length.read(length, 0);
        trace.write(length, w.verdict);
        trace_length.write(0, length + 1);
#endif
    }

    bool is_good;
    bit<32> sum;
    bit<9> port;
    bit<1> is_steered;
    bit<1> is_routed;

    action drop() {
        mark_to_drop(standard);
    }

    apply {
        @atomic {
            is_good = true;
            port = 0;
            is_routed = 1;
            is_steered = 0;
            w.is_second = standard.instance_type == RECIRCULATED ? 1w1 : 0;
            w.goes_again = 0;
            w.egress = EGRESS_UP;
            w.is_concerned = 0;
            bool is_ours = hdr.udp.isValid()
                && (hdr.udp.source == WIRESUM_DEFAULT_PORT || hdr.udp.destination == WIRESUM_DEFAULT_PORT);
            if (is_ours) {
                form.apply(hdr, is_good);
                if (is_good) {
                    unseal.apply(hdr, w);
                    from_wire.apply(hdr.lanes, hdr.wiresum.flags);
                    lane_sum.apply(hdr.lanes, hdr.wiresum.flags, sum);
                    /* Lanes that the program was not made for were not looked at. */
                    if ((hdr.lanes.isValid() || hdr.wiresum.value_count == 0) && sum != w.lane_sum) {
                        is_good = false;
                    }
                }
                if (is_good) {
                    aggregation.apply(hdr, w);
                    to_wire.apply(hdr.lanes, hdr.wiresum.flags);
                } else {
                    w.verdict = VERDICT_MALFORMED;
                }
                if (w.is_second == 0) {
                    count();
                }
            }
            if (is_ours && is_good && w.egress == EGRESS_UP) {
                ways.apply(hdr, port, is_steered);
            }
            if (!is_good || !hdr.ipv4.isValid() || w.egress == EGRESS_NOWHERE) {
                drop();
            } else if (w.goes_again == 1) {
                standard.egress_spec = RECIRCULATION_PORT;
            } else if (w.egress == EGRESS_DOWN && w.is_known == 1) {
                standard.mcast_grp = w.place.number;
            } else if (is_steered == 1) {
                standard.egress_spec = port;
            } else {
                routes.apply(hdr, port, is_routed);
                standard.egress_spec = port;
                if (is_routed == 0) {
                    drop();
                }
            }
        }
    }
}

control SwitchEgress(inout headers_t hdr, inout work_t w, inout standard_metadata_t standard) {
    Copy() copy;
    bit<1> is_wanted;
    apply {
        if (w.goes_again == 1) {
            recirculate_preserving_field_list(NOTHING_PRESERVED);
        } else if (standard.egress_rid != 0) {
            copy.apply(hdr, standard.egress_port, is_wanted);
            if (is_wanted == 0) {
                mark_to_drop(standard);
            }
        }
    }
}

control Ipv4Checksum(inout headers_t hdr, inout work_t w) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.version_and_length == IPV4_WITHOUT_OPTIONS,
            { hdr.ipv4.version_and_length, hdr.ipv4.traffic_class, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.fragmentation, hdr.ipv4.time_to_live, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    Emission() emission;
    apply {
        emission.apply(packet, hdr);
    }
}

V1Switch(SwitchParser(), Nothing(), SwitchIngress(), SwitchEgress(), Ipv4Checksum(), SwitchDeparser()) main;
