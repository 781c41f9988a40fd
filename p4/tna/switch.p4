// SPDX-License-Identifier: Apache-2.0
/* The switch in the native architecture of Tofino 2. docs/p4.md says what no compiler has seen of it, and what it leaves out: lanes
 * are in network order, and the lane sum of what arrives is not verified here but by whoever gets the sum.
 *
 * Defines: POLICY (not `preempt`, not `register_counter`), SLOTS, LANES, as in v1model. */
#include <core.p4>
#include <t2na.p4>

/* What leaves little-endian lanes, and sets that are no child's, to others. */
#define WHOLE_CHILDREN_IN_NETWORK_ORDER

#define QUOTE(file) #file
#define POLICY_FILE(name) QUOTE(../policies/name.p4)
#include POLICY_FILE(POLICY)
#include "../include/aggregation.p4"
#include "../include/forwarding.p4"

/* The port of pipe 0 by which packets go round once more. */
const PortId_t RECIRCULATION_PORT = 6;

struct nothing_t {}

parser IngressParser(packet_in packet, out headers_t hdr, out work_t w, out ingress_intrinsic_metadata_t intrinsic) {
    Datagram() datagram;
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        datagram.apply(packet, hdr);
        transition accept;
    }
}

control SwitchIngress(inout headers_t hdr, inout work_t w, in ingress_intrinsic_metadata_t intrinsic,
                      in ingress_intrinsic_metadata_from_parser_t from_parser,
                      inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                      inout ingress_intrinsic_metadata_for_tm_t traffic_manager) {
    Form() form;
    Unseal() unseal;
    Aggregation() aggregation;
    Ways() ways;
    Routes() routes;
    Counter<bit<32>, bit<8>>(VERDICTS, CounterType_t.PACKETS) verdicts;
    bool is_good;
    bool is_ours;
    bit<9> port;
    bit<1> is_steered;
    bit<1> is_routed;

    action drop() {
        for_deparser.drop_ctl = 1;
    }

    apply {
        is_good = true;
        port = 0;
        is_steered = 0;
        w.is_second = intrinsic.ingress_port == RECIRCULATION_PORT ? 1w1 : 0;
        w.goes_again = 0;
        w.egress = EGRESS_UP;
        w.is_concerned = 0;
        w.is_result = 0;
        w.is_known = 0;
        is_ours = hdr.udp.isValid()
            && (hdr.udp.source == WIRESUM_DEFAULT_PORT || hdr.udp.destination == WIRESUM_DEFAULT_PORT);
        if (is_ours) {
            form.apply(hdr, is_good);
            w.verdict = VERDICT_MALFORMED;
            if (is_good) {
                unseal.apply(hdr, w);
                aggregation.apply(hdr, w);
            }
            if (w.is_second == 0) {
                verdicts.count(w.verdict);
            }
        }
        if (is_ours && is_good && w.egress == EGRESS_UP) {
            ways.apply(hdr, port, is_steered);
        }
        if (!is_good || !hdr.ipv4.isValid() || w.egress == EGRESS_NOWHERE) {
            drop();
        } else if (w.goes_again == 1) {
            traffic_manager.ucast_egress_port = RECIRCULATION_PORT;
        } else if (w.egress == EGRESS_DOWN && w.is_known == 1) {
            traffic_manager.mcast_grp_a = w.place.number;
        } else if (is_steered == 1) {
            traffic_manager.ucast_egress_port = port;
        } else {
            routes.apply(hdr, port, is_routed);
            traffic_manager.ucast_egress_port = port;
            if (is_routed == 0) {
                drop();
            }
        }
        /* Egress has copies of results to address, and nothing else. */
        traffic_manager.bypass_egress = w.egress == EGRESS_DOWN && w.is_known == 1 ? 1w0 : 1;
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in work_t w,
                        in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() checksum;
    Emission() emission;
    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = checksum.update({
                hdr.ipv4.version_and_length, hdr.ipv4.traffic_class, hdr.ipv4.total_length, hdr.ipv4.identification,
                hdr.ipv4.fragmentation, hdr.ipv4.time_to_live, hdr.ipv4.protocol, hdr.ipv4.source,
                hdr.ipv4.destination });
        }
        emission.apply(packet, hdr);
    }
}

parser EgressParser(packet_in packet, out headers_t hdr, out nothing_t nothing, out egress_intrinsic_metadata_t intrinsic) {
    Datagram() datagram;
    state start {
        packet.extract(intrinsic);
        datagram.apply(packet, hdr);
        transition accept;
    }
}

control SwitchEgress(inout headers_t hdr, inout nothing_t nothing, in egress_intrinsic_metadata_t intrinsic,
                     in egress_intrinsic_metadata_from_parser_t from_parser,
                     inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                     inout egress_intrinsic_metadata_for_output_port_t output) {
    Copy() copy;
    bit<1> is_wanted;
    apply {
        if (intrinsic.egress_rid != 0) {
            copy.apply(hdr, intrinsic.egress_port, is_wanted);
            if (is_wanted == 0) {
                for_deparser.drop_ctl = 1;
            }
        }
    }
}

control EgressDeparser(packet_out packet, inout headers_t hdr, in nothing_t nothing,
                       in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() checksum;
    Emission() emission;
    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = checksum.update({
                hdr.ipv4.version_and_length, hdr.ipv4.traffic_class, hdr.ipv4.total_length, hdr.ipv4.identification,
                hdr.ipv4.fragmentation, hdr.ipv4.time_to_live, hdr.ipv4.protocol, hdr.ipv4.source,
                hdr.ipv4.destination });
        }
        emission.apply(packet, hdr);
    }
}

Pipeline(IngressParser(), SwitchIngress(), IngressDeparser(), EgressParser(), SwitchEgress(), EgressDeparser()) pipe;
Switch(pipe) main;
