//! The two kinds of streams.
//!
//! | kind | nodes | what was lost is found by |
//! | --- | --- | --- |
//! | `asked` | servers | asking the node |
//! | [`answered`] | switches | results of what was sent later |

pub mod answered;
pub(crate) mod asked;
