//! Methods of what cannot exist in a build without the BPF programs.

/// Methods of a type that has no values, each `ref` or `mut` for how it takes itself, without names of its arguments.
/// What they do is said where the programs are.
macro_rules! absent {
    ($type:ident: $($kind:ident $name:ident($($argument:ty),*) -> $result:ty;)*) => {
        #[allow(missing_docs, reason = "the type of the same name in builds with the programs has them")]
        impl $type {
            $(absent!(@$kind $name($($argument),*) -> $result);)*
        }
    };
    (@ref $name:ident($($argument:ty),*) -> $result:ty) => {
        pub fn $name(&self, $(_: $argument),*) -> $result {
            match self.0 {}
        }
    };
    (@mut $name:ident($($argument:ty),*) -> $result:ty) => {
        pub fn $name(&mut self, $(_: $argument),*) -> $result {
            match self.0 {}
        }
    };
}
