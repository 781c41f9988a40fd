//! Random packets that meet every row of every table: the material of golden traces and of differential tests of data planes.

pub mod aggregator;
pub mod switch;
