//! Structs that stand in C as well: a test compares, field by field, what the two compilers made of them.

/// A struct with the layout of C, and under test the name of the struct in `bpf/` whose mirror it is.
macro_rules! mirrored {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident as $in_c:literal {
            $($(#[$field_attribute:meta])* pub $field:ident: $kind:ty,)+
        }
    ) => {
        $(#[$attribute])*
        #[repr(C)]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: $kind,)+
        }

        #[cfg(test)]
        impl $crate::mirror::Mirrored for $name {
            const NAME: &str = $in_c;
            const FIELDS: &[(&str, usize, usize)] =
                &[$((stringify!($field), core::mem::offset_of!($name, $field), size_of::<$kind>())),+];
        }
    };
}

#[cfg(test)]
pub trait Mirrored: Sized {
    const NAME: &str;
    /// Name, offset and bytes of each.
    const FIELDS: &[(&str, usize, usize)];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use libbpf_rs::btf::types::{MemberAttr, Struct};
    use libbpf_rs::btf::{Btf, BtfType, HasSize, TypeId, types};

    use super::Mirrored;
    use crate::kernel::BENCH;
    use crate::{keyed, layout, rows, switch};

    /// Rust has no bytes between fields that nobody initialises, so it names those that C leaves out.
    const PADDING: &str = "padding";

    /// Bytes of a type, through typedefs and arrays.
    fn len(btf: &Btf<'_>, id: TypeId) -> usize {
        let plain = btf.type_by_id::<BtfType<'_>>(id).expect("a type").skip_mods_and_typedefs();
        if let Ok(array) = types::Array::try_from(plain) {
            return array.capacity() * len(btf, array.ty());
        }
        macro_rules! size {
            ($($kind:ident)+) => {
                $(if let Ok(sized) = types::$kind::try_from(plain) { return sized.size(); })+
            };
        }
        size!(Int Struct Union Enum);
        panic!("{plain:?} has no size that a map could rely on")
    }

    /// How the struct in C differs from its mirror: a line for each field.
    fn differences<T: Mirrored>(btf: &Btf<'_>) -> Vec<String> {
        let Some(found) = btf.type_by_name::<Struct<'_>>(T::NAME) else {
            return vec![format!("struct {} is not in this object", T::NAME)];
        };
        let place = |attr| match attr {
            MemberAttr::Normal { offset } => offset as usize / 8,
            MemberAttr::BitField { .. } => panic!("no map has bit fields"),
        };
        let in_c: BTreeMap<_, _> = found
            .iter()
            .map(|member| {
                let name = member.name.and_then(|name| name.to_str()).unwrap_or_default();
                (name.to_owned(), (place(member.attr), len(btf, member.ty)))
            })
            .collect();
        let in_rust: BTreeMap<_, _> = T::FIELDS
            .iter()
            .filter(|(name, ..)| *name != PADDING)
            .map(|&(name, offset, len)| (name.to_owned(), (offset, len)))
            .collect();
        let names = in_c.keys().chain(in_rust.keys().filter(|name| !in_c.contains_key(*name)));
        let differs = |name: &&String| in_c.get(*name) != in_rust.get(*name);
        let said = |name: &String| {
            let (c, rust) = (in_c.get(name), in_rust.get(name));
            format!("{}.{name}: (offset, bytes) is {c:?} in C, {rust:?} in Rust", T::NAME)
        };
        let mut lines: Vec<_> = names.filter(differs).map(said).collect();
        if found.size() != size_of::<T>() {
            let (c, rust) = (found.size(), size_of::<T>());
            lines.push(format!("{}: {c} bytes in C, {rust} in Rust", T::NAME));
        }
        lines
    }

    macro_rules! compare {
        ($btf:expr, $($mirror:ty),+ $(,)?) => {
            [$(differences::<$mirror>($btf)),+].concat()
        };
    }

    #[test]
    fn structs_of_the_aggregator_are_those_of_c() {
        let btf = Btf::from_raw("bench", BENCH.0).expect("BTF").expect("there is some");
        use layout::*;
        let found = compare!(
            &btf,
            Endpoint,
            Stream,
            SeatKeyEntry,
            ValueHashEntry,
            Config,
            Directory,
            Budget,
            Tally,
            Job,
            Peer,
            Hearing,
            Port,
            Entry,
            Check,
            SurveyFrame,
            Feed,
        );
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn structs_of_the_switch_are_those_of_c() {
        use switch::layout::*;
        for policy in wiresum_wire::Policy::ALL {
            let image = switch::image_for_tests(policy);
            let btf = Btf::from_raw(policy.name(), image.0).expect("BTF").expect("there is some");
            let found = compare!(
                &btf,
                SwitchConfig,
                PlaceEntry,
                Running,
                StreamKeys,
                TableEntry,
                Slot,
                WayKey,
                StreamName,
                Down,
                Forgetting,
                Tally,
                Feed,
                layout::Endpoint,
                layout::Hearing,
            );
            assert_eq!(found, Vec::<String>::new(), "{}", policy.name());
        }
    }

    #[test]
    fn structs_of_the_switch_for_rows_are_those_of_c() {
        use rows::layout::*;
        let btf = Btf::from_raw("rows", rows::BENCH.0).expect("BTF").expect("there is some");
        let found = compare!(
            &btf,
            RowsConfig,
            StreamEntry,
            Reception,
            Numbers,
            HotRow,
            Opening,
            Announcement,
            Feed,
            layout::Check,
            layout::Directory,
            layout::Hearing,
        );
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn structs_of_the_switch_for_pairs_are_those_of_c() {
        use keyed::layout::*;
        let btf = Btf::from_raw("keyed", keyed::PROGRAM.0).expect("BTF").expect("there is some");
        let found = compare!(
            &btf,
            KeyedConfig,
            TableEntry,
            Cell,
            HotKey,
            HomeEntry,
            Opening,
            layout::Check,
            layout::Directory,
            layout::Hearing,
        );
        assert_eq!(found, Vec::<String>::new());
    }

    mod drifted {
        mirrored! {
            /// `struct job` with a field of another size, and one that C does not have.
            pub struct Job as "job" {
                pub key: u32,
                pub runs: u32,
            }
        }
    }

    #[test]
    fn a_drift_names_the_field() {
        let btf = Btf::from_raw("bench", BENCH.0).expect("BTF").expect("there is some");
        let found = differences::<drifted::Job>(&btf);
        let starts: Vec<_> = found.iter().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(starts, ["job.key", "job.running", "job.runs", "job"]);
    }
}
