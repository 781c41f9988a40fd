//! The loops of [`crate::kernels`] and [`crate::packed`], compiled for each instruction set worth having and chosen at
//! run time.
//!
//! On other processors than x86-64 the compiler's default has vectors already (NEON on 64-bit Arm).

use crate::Element;
use crate::lane::Lane;
use crate::{kernels, packed};

/// An instruction set that this processor has. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// What the compiler assumes of every processor of its target.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// The fastest that is here. Cheap: the standard library remembers what it found.
    #[inline]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if has_avx512() {
                return Self(Set::Avx512);
            }
            if std::is_x86_feature_detected!("avx2") {
                return Self(Set::Avx2);
            }
        }
        Self(Set::Baseline)
    }

    /// All that are here, slowest first, for tests and measurements that compare them.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Self(Set::Baseline)];
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") {
                sets.push(Self(Set::Avx2));
            }
            if has_avx512() {
                sets.push(Self(Set::Avx512));
            }
        }
        sets
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512dq")
        && std::is_x86_feature_detected!("avx512vl")
}

/// Compiles a kernel once per instruction set.
macro_rules! versions {
    ($(#[$doc:meta])* fn $module:ident::$name:ident<$($type:ident: $bound:ident),+>(
        $($argument:ident: $of:ty),+
    ) -> $result:ty) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name<$($type: $bound),+>(set: Instructions, $($argument: $of),+) -> $result {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2<$($type: $bound),+>($($argument: $of),+) -> $result {
                $module::$name::<$($type),+>($($argument),+)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512<$($type: $bound),+>($($argument: $of),+) -> $result {
                $module::$name::<$($type),+>($($argument),+)
            }
            match set.0 {
                Set::Baseline => $module::$name::<$($type),+>($($argument),+),
                // SAFETY: an `Instructions` of this set is made only where the processor has it.
                #[cfg(target_arch = "x86_64")]
                Set::Avx2 => unsafe { avx2::<$($type),+>($($argument),+) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Set::Avx512 => unsafe { avx512::<$($type),+>($($argument),+) },
            }
        }
    };
}

versions! {
    /// See [`kernels::magnitude`].
    fn kernels::magnitude<T: Element>(values: &[T]) -> T::Magnitude
}
versions! {
    /// See [`kernels::encode`].
    fn kernels::encode<T: Element, L: Lane>(values: &[T], scale: f64, limit: f64, payload: &mut [u8]) -> u32
}
versions! {
    /// See [`kernels::decode`].
    fn kernels::decode<T: Element, L: Lane>(payload: &[u8], unit: f64, values: &mut [T]) -> ()
}
versions! {
    /// See [`kernels::add`].
    fn kernels::add<L: Lane>(totals: &mut [u8], payload: &[u8]) -> ()
}
versions! {
    /// See [`kernels::maximum`].
    fn kernels::maximum<L: Lane>(totals: &mut [u8], payload: &[u8]) -> ()
}
versions! {
    /// See [`kernels::sum`].
    fn kernels::sum<L: Lane>(payload: &[u8]) -> u32
}
versions! {
    /// See [`packed::pack`].
    fn packed::pack<L: Lane>(payload: &mut [u8]) -> u32
}
versions! {
    /// See [`packed::unpack`].
    fn packed::unpack<L: Lane>(payload: &mut [u8]) -> ()
}
versions! {
    /// See [`packed::rest`].
    fn packed::rest<T: Element>(values: &[T], payload: &[u8], unit: f64, rest: &mut [f32]) -> ()
}
versions! {
    /// See [`packed::dither`].
    fn packed::dither<T: Element>(
        values: &[T],
        scale: f64,
        limit: f64,
        chance: (u32, u32),
        payload: &mut [u8]
    ) -> ()
}
