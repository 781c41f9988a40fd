// SPDX-License-Identifier: Apache-2.0
/* Zebra's switch program in the architecture v1model, for the reference switch BMv2.
 *
 *   p4c-bm2-ss -I p4/v1model -D KEYS=30000 -D REGISTERS=24 p4/v1model/keyed.p4 -o keyed.json */
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

#include "../keyed/program.p4"

/* Carries packets that go round once more, as far as the egress; no link has this number. */
const bit<9> RECIRCULATION_PORT = 510;
/* Where the switch's processor is. */
const bit<9> STATION_PORT = 509;
/* `instance_type` of a packet that went round. */
const bit<32> RECIRCULATED = 4;
/* The metadata that a packet keeps when it goes round. */
const bit<8> PRESERVED = 1;

struct metadata_t {
    keyed_work_t work;
    @field_list(PRESERVED)
    bit<8> pass;
    /* Where the packet came from before it went round. */
    @field_list(PRESERVED)
    bit<9> port;
}

/* Tells the station that an iteration is complete. */
struct completion_t {
    bit<16> index;
    bit<32> round;
}

parser SwitchParser(packet_in packet, out keyed_headers_t hdr, inout metadata_t m, inout standard_metadata_t standard) {
    KeyedDatagram() datagram;
    state start {
        datagram.apply(packet, hdr);
        transition accept;
    }
}

control Nothing(inout keyed_headers_t hdr, inout metadata_t m) {
    apply {}
}

control SwitchIngress(inout keyed_headers_t hdr, inout metadata_t m, inout standard_metadata_t standard) {
    Keyed() keyed;
    counter<bit<32>>(VERDICTS, CounterType.packets) verdicts;
    apply {
        @atomic {
            if (standard.instance_type != RECIRCULATED) {
                m.pass = 0;
                m.port = standard.ingress_port;
            }
            m.work.pass = m.pass;
            if (!hdr.udp.isValid() || hdr.udp.destination != WIRESUM_DEFAULT_PORT) {
                mark_to_drop(standard);
            } else {
                keyed.apply(hdr, m.work);
                if (m.work.pass == 0) {
                    verdicts.count((bit<32>)m.work.verdict);
                }
                if (m.work.is_complete == 1) {
                    digest<completion_t>(1, { m.work.table.index, m.work.table.round });
                }
                if (m.work.egress == KEYED_BACK) {
                    standard.egress_spec = m.port;
                } else if (m.work.egress == KEYED_STATION) {
                    standard.egress_spec = STATION_PORT;
                } else if (m.work.egress == KEYED_AGAIN) {
                    m.pass = m.work.pass + 1;
                    standard.egress_spec = RECIRCULATION_PORT;
                } else {
                    mark_to_drop(standard);
                }
            }
        }
    }
}

control SwitchEgress(inout keyed_headers_t hdr, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        if (m.work.egress == KEYED_AGAIN) {
            recirculate_preserving_field_list(PRESERVED);
        }
    }
}

control Ipv4Checksum(inout keyed_headers_t hdr, inout metadata_t m) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.version_and_length == IPV4_WITHOUT_OPTIONS,
            { hdr.ipv4.version_and_length, hdr.ipv4.traffic_class, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.fragmentation, hdr.ipv4.time_to_live, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchDeparser(packet_out packet, in keyed_headers_t hdr) {
    KeyedEmission() emission;
    apply {
        emission.apply(packet, hdr);
    }
}

V1Switch(SwitchParser(), Nothing(), SwitchIngress(), SwitchEgress(), Ipv4Checksum(), SwitchDeparser()) main;
