//! Measurements of the layers below Python, for `wiresum bench`. Nothing of the product depends on them.

pub mod codec;
pub mod live;
pub mod packaging;
pub mod packets;
pub mod rows;
pub mod seal;
pub mod sparse;
pub mod tables;
pub mod tracking;
pub mod worker;
