//! Share of the links that a collective uses, by loss and window: a table that is checked in.
