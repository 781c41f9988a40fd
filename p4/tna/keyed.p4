// SPDX-License-Identifier: Apache-2.0
/* Zebra's switch program in the native architecture of Tofino 2. No compiler has seen it; docs/p4.md says what is known not to fit.
 *
 * Defines: KEYS, REGISTERS, as in v1model. */
#include <core.p4>
#include <t2na.p4>

#include "../keyed/program.p4"

/* The port of pipe 0 by which packets go round once more, and that of the switch's processor. */
const PortId_t RECIRCULATION_PORT = 6;
const PortId_t STATION_PORT = 2;
const bit<3> COMPLETION = 1;

/* Before the datagram of a packet that goes round again: how often it did, and where it came from. */
header again_h {
    bit<8> pass;
    bit<7> reserved;
    bit<9> port;
}

struct switch_headers_t {
    again_h again;
    keyed_headers_t datagram;
}

/* Tells the station that an iteration is complete. */
struct completion_t {
    bit<16> index;
    bit<32> round;
}

struct nothing_t {}

parser IngressParser(packet_in packet, out switch_headers_t hdr, out keyed_work_t w, out ingress_intrinsic_metadata_t intrinsic) {
    KeyedDatagram() datagram;
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            RECIRCULATION_PORT: parse_again;
            default: parse_datagram;
        }
    }
    state parse_again {
        packet.extract(hdr.again);
        transition parse_datagram;
    }
    state parse_datagram {
        datagram.apply(packet, hdr.datagram);
        transition accept;
    }
}

control SwitchIngress(inout switch_headers_t hdr, inout keyed_work_t w, in ingress_intrinsic_metadata_t intrinsic,
                      in ingress_intrinsic_metadata_from_parser_t from_parser,
                      inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                      inout ingress_intrinsic_metadata_for_tm_t traffic_manager) {
    Keyed() keyed;
    Counter<bit<32>, bit<8>>(VERDICTS, CounterType_t.PACKETS) verdicts;
    bit<9> port;
    apply {
        for_deparser.digest_type = 0;
        traffic_manager.bypass_egress = 1;
        port = intrinsic.ingress_port;
        w.pass = 0;
        if (hdr.again.isValid()) {
            port = hdr.again.port;
            w.pass = hdr.again.pass;
        }
        if (!hdr.datagram.udp.isValid() || hdr.datagram.udp.destination != WIRESUM_DEFAULT_PORT) {
            for_deparser.drop_ctl = 1;
        } else {
            keyed.apply(hdr.datagram, w);
            if (w.pass == 0) {
                verdicts.count(w.verdict);
            }
            if (w.is_complete == 1) {
                for_deparser.digest_type = COMPLETION;
            }
            if (w.egress == KEYED_BACK) {
                traffic_manager.ucast_egress_port = port;
                hdr.again.setInvalid();
            } else if (w.egress == KEYED_STATION) {
                traffic_manager.ucast_egress_port = STATION_PORT;
                hdr.again.setInvalid();
            } else if (w.egress == KEYED_AGAIN) {
                hdr.again.setValid();
                hdr.again.pass = w.pass + 1;
                hdr.again.reserved = 0;
                hdr.again.port = port;
                traffic_manager.ucast_egress_port = RECIRCULATION_PORT;
            } else {
                for_deparser.drop_ctl = 1;
            }
        }
    }
}

control IngressDeparser(packet_out packet, inout switch_headers_t hdr, in keyed_work_t w,
                        in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() checksum;
    Digest<completion_t>() completions;
    KeyedEmission() emission;
    apply {
        if (for_deparser.digest_type == COMPLETION) {
            completions.pack({ w.table.index, w.table.round });
        }
        if (hdr.datagram.ipv4.isValid()) {
            hdr.datagram.ipv4.checksum = checksum.update({
                hdr.datagram.ipv4.version_and_length, hdr.datagram.ipv4.traffic_class, hdr.datagram.ipv4.total_length,
                hdr.datagram.ipv4.identification, hdr.datagram.ipv4.fragmentation, hdr.datagram.ipv4.time_to_live,
                hdr.datagram.ipv4.protocol, hdr.datagram.ipv4.source, hdr.datagram.ipv4.destination });
        }
        packet.emit(hdr.again);
        emission.apply(packet, hdr.datagram);
    }
}

/* Nothing is left to do in the egress, which is bypassed. */
parser EgressParser(packet_in packet, out nothing_t hdr, out nothing_t nothing, out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        transition accept;
    }
}

control SwitchEgress(inout nothing_t hdr, inout nothing_t nothing, in egress_intrinsic_metadata_t intrinsic,
                     in egress_intrinsic_metadata_from_parser_t from_parser,
                     inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                     inout egress_intrinsic_metadata_for_output_port_t output) {
    apply {}
}

control EgressDeparser(packet_out packet, inout nothing_t hdr, in nothing_t nothing,
                       in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply {}
}

Pipeline(IngressParser(), SwitchIngress(), IngressDeparser(), EgressParser(), SwitchEgress(), EgressDeparser()) pipe;
Switch(pipe) main;
