use std::sync::Arc;

use proptest::prelude::*;
use wiresum_keys::{Keyring, Secret};
use wiresum_netem::Time;
use wiresum_wire::{JobId, RowPacket};

use super::*;
use crate::hot::{HotRow, MapChange, RowId, Tier};
use crate::message::{Closed, FromServer, FromSwitch, HotSums, PartialSums, ToServer, ToSwitch};
use crate::table::{Row, TableId, ValueType};

const ROOM: usize = 200;

fn envelope() -> Envelope {
    let ring = Keyring::whole(Secret::from_bytes(b"of a test"));
    let (job, keys) = (JobId(7), RowKeys::new(&ring, 1, Renewal::default()));
    Envelope { job, keys, node: 2, peer: 5, incarnation: 9, room: ROOM, may_narrow: true }
}

fn datagrams(emit: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    emit(&mut |bytes: &[u8]| all.push(bytes.to_vec()));
    all
}

fn rows(dim: usize) -> impl Strategy<Value = (Vec<u64>, Vec<f32>)> {
    let row = (any::<u64>(), prop::collection::vec(-9.0f32..9.0, dim));
    let types = [ValueType::Float32, ValueType::Float16, ValueType::Bfloat16];
    let rows = (prop::collection::vec(row, 1..5), prop::sample::select(types.to_vec()));
    rows.prop_map(|(rows, value)| {
        let (keys, values): (Vec<u64>, Vec<Vec<f32>>) = rows.into_iter().unzip();
        let mut values = values.concat();
        value.round(&mut values);
        (keys, values)
    })
}

fn some_row() -> impl Strategy<Value = RowId> {
    (any::<u16>(), any::<u64>()).prop_map(|(table, key)| RowId { table: TableId(table), key })
}

fn some_change() -> impl Strategy<Value = Option<Arc<MapChange>>> {
    let hot = (some_row(), any::<u32>(), any::<bool>()).prop_map(|(row, position, is_b)| HotRow {
        row,
        position,
        tier: if is_b { Tier::B } else { Tier::A },
    });
    let rows = (prop::collection::vec(hot, 0..30), prop::collection::vec(some_row(), 0..30));
    let change = (1..u32::MAX, rows).prop_map(|(version, (promoted, demoted))| {
        Arc::new(MapChange { version, promoted, demoted })
    });
    prop::option::of(change)
}

fn some_to_server() -> impl Strategy<Value = ToServer> {
    let ids = || (any::<u32>(), 0u32..1 << 20, any::<u32>(), any::<u16>().prop_map(TableId));
    prop_oneof![
        (ids(), (1usize..6).prop_flat_map(rows)).prop_map(
            |((round, sequence, map_version, table), (keys, values))| ToServer::Push {
                round,
                sequence,
                map_version,
                table,
                keys,
                values
            }
        ),
        (ids(), some_sums()).prop_map(|((round, sequence, map_version, _), rows)| {
            ToServer::Sums { round, sequence, map_version, rows }
        }),
        (ids(), rows(7)).prop_map(|((round, sequence, changed, table), (keys, values))| {
            let row = RowId { table, key: keys[0] };
            let values = Row { values: values[..7].to_vec(), changed };
            ToServer::Return { round, sequence, row, values }
        }),
        (ids(), rows(5)).prop_map(|((round, sequence, _, table), (keys, values))| ToServer::Put {
            round,
            sequence,
            table,
            keys,
            values
        }),
        (ids(), rows(1)).prop_map(|((round, sequence, _, table), (keys, _))| {
            let counts = keys.iter().map(|key| (key % 65) as u8).collect();
            ToServer::Counts { round, sequence, table, keys, counts }
        }),
        any::<(u32, u32)>().prop_map(|(round, packets)| ToServer::End { round, packets }),
        (any::<u32>(), some_change())
            .prop_map(|(round, change)| ToServer::Decision { round, change }),
        (ids(), rows(1)).prop_map(|((version, request, odd, table), (keys, _))| ToServer::Pull {
            version,
            request,
            table,
            keys,
            with_state: odd % 2 == 1
        }),
    ]
}

fn some_from_server() -> impl Strategy<Value = FromServer> {
    let lent = (some_row(), any::<u32>(), prop::collection::vec(-9.0f32..9.0, 0..9))
        .prop_map(|(row, changed, values)| (row, Row { values, changed }));
    let lent = prop::collection::vec(lent, 0..30);
    prop_oneof![
        any::<(u32, u32)>()
            .prop_map(|(round, sequence)| FromServer::Acknowledgement { round, sequence }),
        (any::<u32>(), "[a-zäß]{1,90}")
            .prop_map(|(round, problem)| FromServer::Refusal { round, problem }),
        (any::<u32>(), some_change(), lent).prop_map(|(round, change, lent)| {
            FromServer::Closed(Arc::new(Closed { round, change, lent }))
        }),
        (any::<(u32, u32, u16)>(), rows(3)).prop_map(|((version, request, table), (_, values))| {
            FromServer::Rows { version, request, table: TableId(table), dim: 3, values }
        }),
    ]
}

fn some_positions() -> impl Strategy<Value = Vec<u32>> {
    let offsets = prop::collection::btree_set(0..FARTHEST_OFFSET, 1..9);
    (0..u32::MAX - FARTHEST_OFFSET, offsets)
        .prop_map(|(base, offsets)| offsets.into_iter().map(|offset| base + offset).collect())
}

fn some_to_switch() -> impl Strategy<Value = ToSwitch> {
    let rows = (any::<(u32, u32, u32)>(), some_positions());
    prop_oneof![
        rows.prop_map(|((round, sequence, map_version), positions)| {
            let values = positions.iter().map(|position| *position as f32).collect();
            ToSwitch::Rows { round, sequence, map_version, positions, values }
        }),
        (any::<(u32, u32, u32)>(), some_positions()).prop_map(
            |((round, sequence, map_version), positions)| {
                let contributors = positions.iter().map(|position| 1 << (position % 64)).collect();
                let lanes = positions
                    .iter()
                    .flat_map(|position| [i64::from(*position) << 31, -1])
                    .collect();
                let rows = Arc::new(PartialSums { positions, contributors, lanes });
                ToSwitch::Sums { round, sequence, map_version, rows }
            }
        ),
        any::<(u32, u32, u32)>().prop_map(|(round, packets, map_version)| ToSwitch::End {
            round,
            packets,
            map_version
        }),
        any::<(u32, u32)>().prop_map(|(round, part)| ToSwitch::Acknowledgement { round, part }),
    ]
}

fn some_sums() -> impl Strategy<Value = Arc<HotSums>> {
    some_positions().prop_map(|positions| {
        let contributors = positions.iter().map(|position| 1 + (position % 64) as u8).collect();
        let values = positions.iter().flat_map(|position| [*position as f32, 0.5]).collect();
        Arc::new(HotSums { positions, contributors, values })
    })
}

fn some_from_switch() -> impl Strategy<Value = FromSwitch> {
    let parts = prop_oneof![9u32..99, Just(0)];
    let results = (any::<u32>(), 0u32..9, parts, prop::option::of(some_sums()));
    prop_oneof![
        any::<(u32, u32)>()
            .prop_map(|(round, sequence)| FromSwitch::Acknowledgement { round, sequence }),
        (any::<u32>(), "[a-z]{1,90}")
            .prop_map(|(round, problem)| FromSwitch::Refusal { round, problem }),
        results.prop_map(|(round, part, parts, rows)| {
            let rows = rows.unwrap_or_default();
            FromSwitch::Results { round, part, parts, rows }
        }),
    ]
}

proptest! {
    #[test]
    fn messages_to_servers_come_as_they_went(message in some_to_server()) {
        let all = datagrams(|send| envelope().emit_to_server(&message, send));
        let mut assembly = Assembly::default();
        let mut come = Vec::new();
        for bytes in all.iter().rev().chain(&all) {
            let packet = RowPacket::parse(bytes).unwrap();
            prop_assert_eq!((packet.header.node.get(), packet.header.contributor), (2, 5));
            come.extend(to_server(&packet, &mut assembly));
        }
        prop_assert_eq!(come, [message.clone(), message]);
    }

    #[test]
    fn messages_from_servers_come_as_they_went(message in some_from_server()) {
        let all = datagrams(|send| envelope().emit_from_server(&message, send));
        let (mut assembly, mut come) = (Assembly::default(), Vec::new());
        for bytes in all.iter().rev() {
            let packet = RowPacket::parse(bytes).unwrap();
            prop_assert_eq!(packet.rows.stamp.get(), 9, "the incarnation");
            from_server(&packet, &mut assembly, |message| come.push(message));
        }
        prop_assert_eq!(come, [message]);
    }

    #[test]
    fn messages_of_switches_come_as_they_went(up in some_to_switch(), down in some_from_switch()) {
        let all = datagrams(|send| envelope().emit_to_switch(&up, send));
        let mut told = Vec::new();
        to_switch(&RowPacket::parse(&all[0]).unwrap(), |message| told.push(message));
        prop_assert_eq!(told, [up]);
        let all = datagrams(|send| envelope().emit_from_switch(&down, send));
        let mut come = Vec::new();
        from_switch(&RowPacket::parse(&all[0]).unwrap(), |message| come.push(message));
        prop_assert_eq!(come, [down]);
    }

    /// Bytes that were changed and sealed anew end in a message, or in none, never in a panic.
    #[test]
    fn nothing_that_comes_makes_a_receiver_panic(
        message in some_to_server(), answer in some_from_server(), results in some_from_switch(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut all = datagrams(|send| envelope().emit_to_server(&message, send));
        all.extend(datagrams(|send| envelope().emit_from_server(&answer, send)));
        all.extend(datagrams(|send| envelope().emit_from_switch(&results, send)));
        let mut assembly = Assembly::default();
        for mut bytes in all {
            for (place, value) in &hits {
                let place = place.index(bytes.len());
                bytes[place] = *value;
            }
            let sum = |bytes: &[u8]| {
                bytes.chunks_exact(4).fold(0u32, |sum, b| sum.wrapping_add(u32::from_le_bytes(b.try_into().unwrap())))
            };
            let header = bytes[..32].chunks_exact(4).fold(0u32, |sum, b| {
                sum.wrapping_add(u32::from_be_bytes(b.try_into().unwrap()))
            });
            let flags = u32::from(u16::from_be_bytes([bytes[32], bytes[33]]));
            let check = header.wrapping_add(flags).wrapping_add(sum(&bytes[38..]));
            bytes[34..38].copy_from_slice(&check.to_be_bytes());
            if let Ok(packet) = RowPacket::parse(&bytes) {
                to_server(&packet, &mut assembly);
                from_server(&packet, &mut assembly, |_| {});
                from_switch(&packet, |_| {});
                to_switch(&packet, |_| {});
            }
        }
    }

    #[test]
    fn acknowledgements_are_about_what_has_come(numbers in prop::collection::btree_set(0u32..2000, 1..300)) {
        let mut waiting = Acknowledgements::default();
        numbers.iter().rev().for_each(|number| waiting.add(3, 8, *number, Time(5)));
        prop_assert_eq!(waiting.poll_timeout() == Some(Time(5)), numbers.len() >= 16, "many do not wait");
        waiting.add(3, 8, u32::MAX, Time(5));
        prop_assert_eq!(waiting.poll_timeout(), Some(Time(5)), "nothing comes behind an end");
        let due = Time(5);
        waiting.emit(Time(due.0 - 1), |_| envelope(), |_, _| panic!("before they are due"));
        let mut come = Vec::new();
        waiting.emit(due, |_| envelope(), |to, bytes| {
            assert_eq!(to, 3);
            let packet = RowPacket::parse(bytes).unwrap();
            come.extend(packet.acknowledged());
        });
        let expected: Vec<u32> = numbers.into_iter().chain([u32::MAX]).collect();
        prop_assert_eq!(&come, &expected);
        prop_assert_eq!(waiting.poll_timeout(), None, "all were sent");
        // The next packet says again what has room in it.
        waiting.add(3, 8, 2_001, due);
        let mut again = Vec::new();
        waiting.emit(Time(due.0 + 100_000), |_| envelope(), |_, bytes| {
            again.push(RowPacket::parse(bytes).unwrap().acknowledged().collect::<Vec<_>>());
        });
        let near = expected.into_iter().filter(|number| (2_001 - 256..2_001).contains(number));
        prop_assert_eq!(again, [near.chain([2_001]).collect::<Vec<_>>()]);
    }
}

#[test]
fn values_that_have_16_bits_take_half_the_bytes_where_the_job_has_such_a_table() {
    let push = |values: &[f32]| {
        let (keys, values) = (vec![3], values.to_vec());
        ToServer::Push { round: 1, sequence: 0, map_version: 1, table: TableId(0), keys, values }
    };
    let len = |envelope: Envelope, values: &[f32]| {
        datagrams(|send| envelope.emit_to_server(&push(values), send))[0].len()
    };
    let wide = len(envelope(), &[0.1; 8]);
    assert_eq!(len(envelope(), &[0.5; 8]), wide - 16);
    assert_eq!(len(envelope(), &[1.000_976_6; 8]), wide - 16, "float16");
    assert_eq!(len(Envelope { may_narrow: false, ..envelope() }, &[0.5; 8]), wide);
    let hot = |value: f32| {
        let (positions, values) = (vec![7], vec![value; 8]);
        let rows = ToSwitch::Rows { round: 1, sequence: 0, map_version: 1, positions, values };
        datagrams(|send| envelope().emit_to_switch(&rows, send))[0].len()
    };
    assert_eq!([hot(0.5), hot(1.000_976_6)], [hot(0.1) - 16; 2]);
}

#[test]
fn a_problem_is_cut_where_a_character_ends() {
    let problem = "ä".repeat(ROOM);
    let long = FromServer::Refusal { round: 1, problem };
    let all = datagrams(|send| envelope().emit_from_server(&long, send));
    from_server(&RowPacket::parse(&all[0]).unwrap(), &mut Assembly::default(), |message| {
        let FromServer::Refusal { problem, .. } = message else { panic!("{message:?}") };
        assert_eq!(problem, "ä".repeat(ROOM / 2));
    });
}
